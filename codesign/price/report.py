"""A price as plain values, ready for JSON and for tables; each figure with its unit in its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codesign.price.energy import LayerEnergy
from tilewright.codesign.price.macros import MemoryPrice
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.unit import ESTIMATED, FITTED, SYNTHESISED

STATE = "synthesised, not placed"

FIT_ERROR = "within 15 % in each unit and 2 % in total"
"""How far a unit that is fitted is from its estimate: `estimate_error --fit` measures it."""

MARKS = {SYNTHESISED: "", ESTIMATED: "est.", FITTED: "fit"}

LOGIC = "clock, array and lanes, from their activity; not what switches in queues and control, nor wires or glitches"


def price_report(price: Price) -> dict[str, Any]:
    """What the machine takes, and from what that is known."""
    return {
        "isa": price.machine.name,
        "isa_hash": price.machine.hash,
        "basis": basis(price),
        "logic_um2": round(price.logic_um2, 1),
        "logic_gate_equivalents": round(price.gates(price.logic_um2)),
        "memories_um2": round(price.memories_um2, 1),
        "flip_flops": sum(unit.flip_flops for unit in price.units),
        "multipliers": sum(unit.multipliers for unit in price.units),
        "units": [
            {
                "name": unit.name,
                "area_um2": round(unit.area_um2, 1),
                "gate_equivalents": round(price.gates(unit.area_um2), 1),
                "share_of_logic": round(price.share(unit), 5),
                "flip_flops": unit.flip_flops,
                "multipliers": unit.multipliers,
                "basis": unit.basis,
            }
            for unit in price.units
        ],
        "memories": [_memory(memory) for memory in (*price.memories, *price.queues)],
    }


def basis(price: Price) -> dict[str, Any]:
    """Where the figures come from, and what they do not include."""
    process = price.process
    return {
        "state": STATE,
        "process": process.name,
        "corner": process.corner,
        "source": f"{process.source} at {process.commit}",
        "licence": process.licence,
        "library_hash": process.hash[:16],
        "gate": process.gate.name,
        "gate_um2": process.gate.area_um2,
        "yosys": price.yosys,
        "script_hash": price.script_hash,
        "logic": "exact" if price.is_exact else "estimated",
        "fitted_to": price.fitted_to,
        "memories": "macros of the library; what joins several of them into one is not counted",
        "queues": "entries in flip-flops, or in macros where these and what shows their latest word take less",
    }


def _memory(memory: MemoryPrice) -> dict[str, Any]:
    return {
        "name": memory.name,
        "macro": memory.macro.name,
        "macros": memory.macros,
        "area_um2": round(memory.area_um2, 1),
        "used_bits": memory.used_bits,
        "wasted_bits": memory.wasted_bits,
        "read_pj": memory.read_pj,
        "write_pj": memory.write_pj,
        "energy_error": memory.energy_error,
    }


def energy_report(
    name: str,
    cycles: int,
    layers: Sequence[LayerEnergy],
    dram_pj_per_byte: float,
    prices: Sequence[MemoryPrice] = (),
) -> dict[str, Any]:
    """The energy of one run of a program: what is known of it; `prices` say which memories' energy is estimated."""
    memories = dict.fromkeys(memory for layer in layers for memory in layer.memories_pj)
    macs = sum(layer.macs for layer in layers)
    logic = _logic([layer.logic_pj for layer in layers])
    dram, of_memories = sum(layer.dram_pj for layer in layers), _total([layer.memory_pj for layer in layers])
    return {
        "program": name,
        "cycles": cycles,
        "macs": macs,
        "basis": {
            "memories": "one-port macros of the same words and bits: the library measures no two-port accesses",
            "memories_estimated": {of.name: of.energy_error for of in prices if of.is_energy_estimated},
            "dram": "assumed",
            "dram_pj_per_byte": dram_pj_per_byte,
            "logic": LOGIC if logic is not None else "not measured",
        },
        "memories_pj": {name: _total([layer.memories_pj.get(name, 0.0) for layer in layers]) for name in memories},
        "dram_pj": dram,
        "logic_pj": logic,
        "logic_pj_per_mac": sum(logic.values()) / macs if logic is not None and macs else None,
        "memories_pj_per_mac": of_memories / macs if macs and of_memories is not None else None,
        "dram_pj_per_mac": dram / macs if macs else None,
        "layers": [
            {
                "name": layer.name,
                "macs": layer.macs,
                "memories_pj": dict(layer.memories_pj),
                "dram_pj": layer.dram_pj,
                "logic_pj": None if layer.logic_pj is None else dict(layer.logic_pj),
            }
            for layer in layers
        ],
    }


def on_chip_mw(energy: Mapping[str, Any], clock_ns: float) -> float | None:
    """The mean power of a run at a clock, of logic and memories, DRAM not; None where one of these is not known."""
    memories = _total(list(energy["memories_pj"].values()))
    if energy["logic_pj"] is None or memories is None or not energy["cycles"]:
        return None
    return (sum(energy["logic_pj"].values()) + memories) / (energy["cycles"] * clock_ns)  # pJ / ns = mW


def _logic(layers: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    """The sum over layers, by what takes it."""
    known = [layer for layer in layers if layer is not None]
    if not known or len(known) != len(layers):
        return None
    return {name: sum(layer[name] for layer in known) for name in known[0]}


def _total(energies: Sequence[float | None]) -> float | None:
    known = [energy for energy in energies if energy is not None]
    return sum(known) if len(known) == len(energies) else None


# -- tables ------------------------------------------------------------------------------------------------------------

Table = tuple[str, Sequence[str], Sequence[Sequence[Any]]]
"""Title, columns, rows."""


def price_tables(report: Mapping[str, Any]) -> list[Table]:
    """The logic by unit, the memories, and the three totals with what they rest on."""
    logic = [
        (
            unit["name"],
            f"{unit['area_um2']:,.0f}",
            f"{unit['gate_equivalents'] / 1000:,.1f}",
            f"{100 * unit['share_of_logic']:.1f} %",
            unit["flip_flops"],
            unit["multipliers"],
            MARKS[unit["basis"]],
        )
        for unit in report["units"]
    ]
    memories = [
        (
            memory["name"],
            f"{memory['macros']} × {memory['macro']}",
            f"{memory['area_um2']:,.0f}",
            f"{100 * memory['wasted_bits'] / (memory['used_bits'] + memory['wasted_bits']):.0f} %",
        )
        for memory in report["memories"]
    ]
    made = report["basis"]
    totals = [
        ("logic", f"{report['logic_um2'] / 1e6:.3f} mm²"),
        ("gate equivalents", f"{report['logic_gate_equivalents'] / 1000:,.1f} kGE of {made['gate']}"),
        ("memories", f"{report['memories_um2'] / 1e6:.3f} mm²"),
        ("flip-flops", f"{report['flip_flops']:,}"),
        ("multipliers", f"{report['multipliers']:,}"),
        ("state", f"{made['state']}; logic {made['logic']}{_fit(made)}"),
        ("process", f"{made['process']}, {made['corner']} ({made['source']}; {made['licence']})"),
        ("tool", f"Yosys {made['yosys']}, script {made['script_hash']}, library {made['library_hash']}"),
    ]
    return [
        (f"Logic of {report['isa']}", ("unit", "µm²", "kGE", "share", "flip-flops", "mul", ""), logic),
        ("Memories", ("memory", "macros", "µm²", "wasted"), memories),
        ("Price", ("figure", "value"), totals),
    ]


def _fit(basis: Mapping[str, Any]) -> str:
    return f"; fit: {FIT_ERROR} of the estimate, from {basis['fitted_to']}" if basis["fitted_to"] else ""


def energy_table(report: Mapping[str, Any]) -> Table:
    """A row for each layer: nJ by memory, of DRAM, and that logic is not known."""
    memories = list(report["memories_pj"])
    rows = [
        (layer["name"], *(_nj(layer["memories_pj"][name]) for name in memories), *_others(layer))
        for layer in report["layers"]
    ]
    total = ("total", *(_nj(report["memories_pj"][name]) for name in memories), *_others(report))
    per_mac = ""
    if report["dram_pj_per_mac"] is not None:
        of_memories, dram = report["memories_pj_per_mac"], report["dram_pj_per_mac"]
        known = "unknown in the memories" if of_memories is None else f"{of_memories:.2f} pJ a MAC in the memories"
        per_mac = f"; {known}, {dram:.2f} in DRAM"
    assumed = f"DRAM assumed at {report['basis']['dram_pj_per_byte']:g} pJ a byte"
    if report["logic_pj_per_mac"] is not None:
        per_mac += f", {report['logic_pj_per_mac']:.2f} in logic"
    if report.get("on_chip_mw") is not None:
        per_mac += f"; {report['on_chip_mw']:.1f} mW on chip at the machine's clock"
    errors = report["basis"]["memories_estimated"]
    fitted = "".join(f"; {name} estimated, within {100 * error:.0f} %" for name, error in errors.items())
    title = f"Energy of {report['program']} in nJ; logic: {report['basis']['logic']}; {assumed}{fitted}{per_mac}"
    columns = (f"{name} est." if name in errors else name for name in memories)
    return title, ("layer", *columns, "DRAM", *(report["logic_pj"] or ())), [*rows, total]


def _others(energies: Mapping[str, Any]) -> list[str]:
    return [_nj(energies["dram_pj"]), *(_nj(energy) for energy in (energies["logic_pj"] or {}).values())]


def _nj(energy: float | None) -> str:
    return "unknown" if energy is None else f"{energy / 1000:,.1f}"
