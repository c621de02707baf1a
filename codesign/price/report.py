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
    """What the machine takes, and from what that is known; with clock gating, what of it the gates are."""
    gated = price.machine.has_gated_clocks
    return {
        "isa": price.machine.name,
        "isa_hash": price.machine.hash,
        "basis": basis(price),
        "logic_um2": round(price.logic_um2, 1),
        "logic_gate_equivalents": round(price.gates(price.logic_um2)),
        "memories_um2": round(price.memories_um2, 1),
        "flip_flops": sum(unit.flip_flops for unit in price.units),
        "multipliers": sum(unit.multipliers for unit in price.units),
        **(_gating(price) if gated else {}),
        "units": [
            {
                "name": unit.name,
                "area_um2": round(unit.area_um2, 1),
                "gate_equivalents": round(price.gates(unit.area_um2), 1),
                "share_of_logic": round(price.share(unit), 5),
                "flip_flops": unit.flip_flops,
                "multipliers": unit.multipliers,
                **({"gated_flip_flops": unit.payload + unit.gated, "clock_gates": unit.clock_gates} if gated else {}),
                "basis": unit.basis,
            }
            for unit in price.units
        ],
        "memories": [_memory(memory) for memory in (*price.memories, *price.queues)],
    }


def _gating(price: Price) -> dict[str, Any]:
    assert price.process.clock_gate is not None, "a price with clock gating has one"
    return {
        "gated_flip_flops": sum(unit.payload + unit.gated for unit in price.units),
        "clock_gates": sum(unit.clock_gates for unit in price.units),
        "clock_gate": price.process.clock_gate.cell,
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
    images: int | None = None,
) -> dict[str, Any]:
    """The energy of one run of a program: what is known of it; `prices` say which memories' energy is estimated.

    `images` of a batch that the run takes; the report says it if there are several.
    """
    memories = dict.fromkeys(memory for layer in layers for memory in layer.memories_pj)
    macs = sum(layer.macs for layer in layers)
    logic = _logic([layer.logic_pj for layer in layers])
    dram, of_memories = sum(layer.dram_pj for layer in layers), _total([layer.memory_pj for layer in layers])
    return {
        "program": name,
        "cycles": cycles,
        **({"images": images} if images is not None and images > 1 else {}),
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


USUAL_MHZ = 100.0
"""The clock at which power is said where no clock is given; energy is the same at any."""


def with_power(energy: Mapping[str, Any], clock_mhz: float | None = None) -> dict[str, Any]:
    """An energy report with the mean power of its run at a clock: on chip, which may be unknown, and of DRAM."""
    mhz = clock_mhz or USUAL_MHZ
    dram = energy["dram_pj"] * mhz / (1000 * energy["cycles"]) if energy["cycles"] else 0.0
    return {**energy, "clock_mhz": mhz, "on_chip_mw": on_chip_mw(energy, 1000 / mhz), "dram_mw": dram}


def power_line(energy: Mapping[str, Any]) -> str:
    """`193 mW at 100 MHz (DRAM 70, assumed), 2.1 µJ a run.`, of a report with power."""
    on_chip, dram, mhz = energy["on_chip_mw"], energy["dram_mw"], energy["clock_mhz"]
    if on_chip is None:
        return f"DRAM takes {_mw(dram)} mW at {mhz:g} MHz; what the chip takes is not known in this process."
    run = (on_chip + dram) * energy["cycles"] / mhz / 1000
    return f"{_mw(on_chip + dram)} mW at {mhz:g} MHz (DRAM {_mw(dram)}, assumed), {run:,.3g} µJ a run."


def _mw(power: float) -> str:
    return f"{power:,.0f}" if power >= 100 else f"{power:.3g}"


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
        *([("behind clock gates", _gated_text(report))] if "clock_gates" in report else []),
        ("state", f"{made['state']}; logic {made['logic']}{_fit(made)}"),
        ("process", f"{made['process']}, {made['corner']} ({made['source']}; {made['licence']})"),
        ("tool", f"Yosys {made['yosys']}, script {made['script_hash']}, library {made['library_hash']}"),
    ]
    return [
        (f"Logic of {report['isa']}", ("unit", "µm²", "kGE", "share", "flip-flops", "mul", ""), logic),
        ("Memories", ("memory", "macros", "µm²", "wasted"), memories),
        ("Price", ("figure", "value"), totals),
    ]


def _gated_text(report: Mapping[str, Any]) -> str:
    return f"{report['gated_flip_flops']:,} flip-flops, {report['clock_gates']:,} × {report['clock_gate']}"


def _fit(basis: Mapping[str, Any]) -> str:
    return f"; fit: {FIT_ERROR} of the estimate, from {basis['fitted_to']}" if basis["fitted_to"] else ""


MOST_NJ = 1e5
"""Where more is taken in all, the table is in µJ, so that its numbers stay short."""


def energy_table(report: Mapping[str, Any], is_wide: bool = True) -> Table:
    """A row for each layer and one for the run: nJ or µJ by memory, of DRAM, of logic if it is known, and the sum.

    Of a batch, one for each of its images, too.
    Where it may not be wide, the memories are one column, and the title says what each of them takes of the run.
    """
    memories = list(report["memories_pj"])
    most = max([report["dram_pj"], *(energy or 0.0 for energy in report["memories_pj"].values()), _sum(report) or 0.0])
    unit, pj = ("nJ", 1e3) if most <= 1e3 * MOST_NJ else ("µJ", 1e6)

    def row(name: str, energies: Mapping[str, Any]) -> tuple[float | str, ...]:
        logic = (energies["logic_pj"] or {}).values()
        each = list(energies["memories_pj"].values())
        of_memories = [energies["memories_pj"][memory] for memory in memories] if is_wide else [_total(each)]
        own = [*of_memories, energies["dram_pj"], *logic, _sum(energies)]
        return name, *("unknown" if energy is None else energy / pj for energy in own)

    rows = [row(layer["name"], layer) for layer in report["layers"]]
    per_mac = ""
    if report["dram_pj_per_mac"] is not None:
        of_memories, dram = report["memories_pj_per_mac"], report["dram_pj_per_mac"]
        known = "unknown in the memories" if of_memories is None else f"{of_memories:.2f} pJ a MAC in the memories"
        per_mac = f"; {known}, {dram:.2f} in DRAM"
    assumed = f"DRAM assumed at {report['basis']['dram_pj_per_byte']:g} pJ a byte"
    if report["logic_pj_per_mac"] is not None:
        per_mac += f", {report['logic_pj_per_mac']:.2f} in logic"
    if report.get("on_chip_mw") is not None and "dram_mw" not in report:
        per_mac += f"; {report['on_chip_mw']:.1f} mW on chip at the machine's clock"
    errors = report["basis"]["memories_estimated"]
    fitted = "".join(f"; {name} estimated, within {100 * error:.0f} %" for name, error in errors.items())
    title = f"Energy of {report['program']} in {unit}; logic: {report['basis']['logic']}; {assumed}{fitted}{per_mac}"
    if not is_wide:
        each = ((name, energy) for name, energy in report["memories_pj"].items() if energy is not None)
        title += "; of the memories " + ", ".join(f"{name} {energy / pj:,.3g}" for name, energy in each)
    columns = [f"{name} est." if name in errors else name for name in memories] if is_wide else ["memories"]
    rows.append(row("total", report))
    if "images" in report:
        each_image = [of / report["images"] if isinstance(of, float) else of for of in rows[-1][1:]]
        rows.append((f"each of {report['images']} images", *each_image))
    return title, ("layer", *columns, "DRAM", *(report["logic_pj"] or ()), "sum"), rows


def _sum(energies: Mapping[str, Any]) -> float | None:
    """All that is known of a layer or a run: of memories, DRAM and logic; None where a memory is not known."""
    memories = _total(list(energies["memories_pj"].values()))
    return None if memories is None else memories + energies["dram_pj"] + sum((energies["logic_pj"] or {}).values())
