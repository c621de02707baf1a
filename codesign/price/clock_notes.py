"""Statements that lower the clock of their machine: what the rest of it could run at, and what they need."""

from __future__ import annotations

from tilewright.codesign.price.clock import clock_of
from tilewright.codesign.price.netlist import converted, with_all_inside
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.statement_paths import statement_of
from tilewright.codesign.price.timing_synthesis import TimingSynthesis
from tilewright.codesign.templates.vector import lanes_of
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath


def clock_notes(machine: Machine, process: Process) -> tuple[str, ...]:
    """A line for each operator of a vector statement that is slower than all other units. None if there is no such."""
    lanes = {lanes_of(engine) for engine in machine.of(Template.VECTOR)}
    others = [unit for unit in clock_of(machine, process).units if unit.unit not in lanes]
    slowest = max(others, key=lambda unit: unit.ns)
    paths = sorted(operator_paths(machine, process).items(), key=lambda path: -path[1])
    return tuple(
        f"{statement} takes {ns:.2f} ns; the slowest other unit, {slowest.unit}, takes {slowest.ns:.2f}: "
        f"it lowers the clock from {1000 / slowest.ns:.0f} to {1000 / ns:.0f} MHz"
        for statement, ns in paths
        if ns > slowest.ns
    )


def operator_paths(machine: Machine, process: Process) -> dict[str, float]:
    """The longest path of each operator of the vector statements, in ns, by what it is called in messages."""
    synthesis = TimingSynthesis(process)
    found: dict[str, float] = {}
    for engine in machine.of(Template.VECTOR):
        own, none = converted(VectorDatapath(machine.with_lanes(1), engine))
        module = synthesis.mapped({"lane": ("top", with_all_inside("top", own, none))})["lane"]
        for path in synthesis.static.ends(module, synthesis.static.arrivals(module, {})):
            statement = statement_of(path.end, machine.formats_of(engine))
            if statement:
                found[statement] = max(found.get(statement, 0.0), path.ns)
    return found
