"""Statements that lower the clock of their machine: what the rest of it could run at, and what they need."""

from __future__ import annotations

from tilewright.codesign.price.clock import clock_of, operator_paths
from tilewright.codesign.price.process import Process
from tilewright.codesign.templates.vector import lanes_of
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine


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
