"""The clock is that of the slowest unit, and paths go through units."""

from __future__ import annotations

import pytest

from tilewright.codesign.price.clock import Clock, UnitClock, clock_of
from tilewright.codesign.price.clock_report import clock_report, clock_table
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.process import load_process
from tilewright.isa.files.loader import load_machine

SMALL = ("array.rows=2", "array.cols=2", "lanes=2", "memories.act.kib=4", "memories.wgt.kib=2", "memories.acc.kib=2")


def test_is_that_of_the_slowest_unit() -> None:
    units = (UnitClock("vec lanes", 8.0, "a", "b", "a * b of scale"), UnitClock("array", 4.0, "weight", "sum", ""))
    report = clock_report(Clock(units, "0123"))
    assert (report["longest_path_ns"], report["clock_mhz"]) == (8.0, 125.0)
    title, _, rows = clock_table(report)
    assert "125 MHz" in title and "not placed" in title
    assert rows[0] == ("vec lanes", "8.00", "a", "a * b of scale")


@pytest.mark.long
def test_a_machine_has_a_path_to_every_unit() -> None:
    machine, process = load_machine("tiny8", SMALL), load_process()
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    clock = clock_of(machine, process)
    found = {unit.unit: unit for unit in clock.units}
    assert {"array", "vec lanes", "vec control", "load", "store", "dispatch", "counters", "memory act"} <= set(found)
    assert clock.ns == max(unit.ns for unit in clock.units)
    assert 2 < clock.ns < 30
    assert found["mma control"].start.startswith(("acc", "wgt"))  # a word of a memory, which a unit of its own holds
    slowest_macro = max(memory.macro.clock_to_output_ns or 0 for memory in memories)
    assert found["mma control"].ns > slowest_macro
