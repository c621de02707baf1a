"""The price of a machine: logic by unit, memories as macros, gate equivalents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from zlib import crc32

from tilewright.codesign.price.clock_gates import ClockGate, gates_for
from tilewright.codesign.price.fit import counted, fitted
from tilewright.codesign.price.known import Logic, known_price
from tilewright.codesign.price.macros import MemoryPrice, memory_price
from tilewright.codesign.price.netlist import Bill, M, netlist
from tilewright.codesign.price.operators import Count, Sketch
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.remembered import remembered_sketch
from tilewright.codesign.price.storage import StorageOptions
from tilewright.codesign.price.synthesis import Cost, Synthesis
from tilewright.codesign.price.unit import ESTIMATED, FITTED, SYNTHESISED, PricedUnit
from tilewright.codesign.price.units import UNITS, UnitParts, unit_parts
from tilewright.codesign.templates.table import facet_of
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.registers import isa_hash_word


@dataclass(frozen=True)
class Price:
    """What a machine takes in a process: synthesised, not placed. Three figures, which are never added."""

    machine: Machine
    process: Process
    is_exact: bool
    yosys: str
    script_hash: str
    units: tuple[PricedUnit, ...]  # largest first
    memories: tuple[MemoryPrice, ...]  # in file order
    queues: tuple[MemoryPrice, ...]  # those whose entries take less in macros than in flip-flops
    fitted_to: str | None = None  # the machine of other sizes whose price says what these cost

    @cached_property
    def logic_um2(self) -> float:
        return sum(unit.area_um2 for unit in self.units)

    @cached_property
    def memories_um2(self) -> float:
        return sum(memory.area_um2 for memory in (*self.memories, *self.queues))

    def gates(self, area_um2: float) -> float:
        """Logic in gate equivalents."""
        return area_um2 / self.process.gate.area_um2

    def share(self, unit: PricedUnit) -> float:
        """Of the logic."""
        return unit.area_um2 / self.logic_um2

    def unit(self, name: str) -> PricedUnit:
        return next(unit for unit in self.units if unit.name == name)


def price_machine(
    machine: Machine, process: Process | None = None, exact: bool = False, like: Machine | None = None
) -> Price:
    """The price of a machine in a process, or in the shipped one.

    Estimated from one lane, one processing element and narrow queues of each depth, or `exact`: all of it synthesised,
    every module by itself. With `like`, a machine of other sizes, fitted to its price where the hardware differs.
    Raises PriceError for what the process lacks, and when Yosys is missing.
    """
    assert not (exact and like), "a fit is not exact"
    process = process or load_process()
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    synthesis = Synthesis(process, machine.has_gated_clocks)
    known = known_price(like or machine, synthesis, exact, lambda: _priced(like or machine, synthesis, exact))
    logic = known if like is None else _fitted(machine, known, process)
    tool = (synthesis.version, synthesis.script_hash)
    fitted_to = like.name if like is not None else None
    return Price(machine, process, exact, *tool, logic.units, memories, logic.queues, fitted_to)


def _priced(machine: Machine, synthesis: Synthesis, exact: bool) -> Logic:
    """The logic of a machine, synthesised where it is not known yet, and the count of its operators beside it."""
    parts = unit_parts(netlist, machine, synthesis.process, exact)
    costs = synthesis.costs_of(_bills(parts))
    _, counts = _counted(machine, synthesis.process, exact)
    return _logic(machine, parts, costs, counts, dict.fromkeys(parts, SYNTHESISED), synthesis.gate)


def _fitted(machine: Machine, known: Logic, process: Process) -> Logic:
    """The logic of a machine, from that of one with other sizes: what has more operators costs more."""
    parts, counts = _counted(machine, process, exact=False)
    changed = {name for name, count in counts.items() if known.counts.get(name) != count}
    costs = fitted(counts, known)
    bases = {name: FITTED if not changed.isdisjoint(_keys(name, unit)) else SYNTHESISED for name, unit in parts.items()}
    return _logic(machine, parts, costs, counts, bases, process.clock_gate if machine.has_gated_clocks else None)


def _counted(machine: Machine, process: Process, exact: bool) -> tuple[dict[str, UnitParts[Sketch]], dict[str, Count]]:
    """The parts of each unit, and their counts by name.

    The host's registers show the machine's hash. They are described once for all, and told apart by it afterwards.
    """
    parts = unit_parts(remembered_sketch, replace(machine, text=""), process, exact)
    counts = counted(_bills(parts))
    registers = counts[UNITS["registers"]]
    shown = crc32(f"{registers.digest} {isa_hash_word(machine)}".encode())
    return parts, {**counts, UNITS["registers"]: replace(registers, digest=shown)}


def _logic(
    machine: Machine,
    parts: Mapping[str, UnitParts[M]],
    costs: Mapping[str, Cost],
    counts: Mapping[str, Count],
    bases: Mapping[str, str],
    gate: ClockGate | None,
) -> Logic:
    """All units, largest first, and the storages in them that macros hold."""
    multipliers = _multipliers(machine)
    units, queues = [], []
    for name, unit in parts.items():
        cost = costs[name]
        for path, storage in unit.storages.items():
            logic, macros = chosen(storage, costs[f"{path} in flip-flops"], costs[f"{path} in macros"])
            cost += replace(logic, clocked=logic.gated / (1 if macros else storage.depth))
            queues += [macros] if macros is not None else []
        if cost.area_um2 > 0:
            basis = ESTIMATED if unit.is_estimated and bases[name] == SYNTHESISED else bases[name]
            units.append(_unit(PricedUnit(name, 0.0, 0, multipliers.get(name, 0), basis), cost, unit.is_payload, gate))
    return Logic(tuple(sorted(units, key=lambda unit: -unit.area_um2)), tuple(queues), costs, counts)


def _unit(unit: PricedUnit, cost: Cost, is_payload: bool, gate: ClockGate | None) -> PricedUnit:
    """A unit with what it takes; what its engine's payload needs in clock gates is in no netlist of it."""
    payload = cost.flip_flops - cost.gated if is_payload else 0
    further = gates_for(payload)
    area = cost.area_um2 + (further * gate.area_um2 if gate else 0.0)
    return replace(
        unit,
        area_um2=area,
        flip_flops=round(cost.flip_flops),
        payload=round(payload),
        gated=round(cost.gated),
        clocked=round(cost.clocked),
        clock_gates=round(cost.clock_gates + further),
    )


def chosen(storage: StorageOptions[M], flip_flops: Cost, beside: Cost) -> tuple[Cost, MemoryPrice | None]:
    """Logic and macros of the option that takes less area; of equals, flip-flops."""
    if storage.macros is None or storage.macros.area_um2 + beside.area_um2 >= flip_flops.area_um2:
        return flip_flops, None
    return beside, storage.macros


def _bills(parts: Mapping[str, UnitParts[M]]) -> dict[str, Bill[M]]:
    """What is to be priced: the logic of each unit, and each of its storages in both ways."""
    return {key: bill for name, unit in parts.items() for key, bill in _keys(name, unit).items()}


def _keys(name: str, unit: UnitParts[M]) -> dict[str, Bill[M]]:
    bills = {name: unit.bill}
    for path, storage in unit.storages.items():
        bills |= {f"{path} in flip-flops": storage.flip_flops, f"{path} in macros": storage.beside}
    return bills


def _multipliers(machine: Machine) -> dict[str, int]:
    """Multipliers of data, by unit."""
    found: dict[str, int] = {}
    for engine in machine.engines.values():
        found |= facet_of(engine.template).multipliers(machine, engine)
    return found
