"""A difference in price has a line for everything that changes, and for nothing else."""

from __future__ import annotations

from tilewright.codesign.price.difference import price_difference
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.unit import SYNTHESISED, PricedUnit
from tilewright.isa.files.loader import load_machine


def priced(process: Process, act_kib: int, **areas: float) -> Price:
    machine = load_machine("tiny8", [f"memories.act.kib={act_kib}"])
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    units = tuple(PricedUnit(name, area, 0, 0, SYNTHESISED) for name, area in areas.items())
    return Price(machine, process, False, "", "", units, memories, ())


def test_says_each_unit_that_grows_comes_or_goes(toy: Process) -> None:
    small = priced(toy, 16, array=2000.0, fetch=400.0, counters=600.0)
    large = priced(toy, 16, array=3000.0, fetch=400.0, load=800.0)
    assert price_difference(small, large) == (
        "price.logic: 1.5 → 2.1 kGE",
        "price.units.array: 1.0 → 1.5 kGE",
        "price.units.counters: 0.3 → 0.0 kGE",
        "price.units.load: 0.0 → 0.4 kGE",
    )


def test_says_each_memory(toy: Process) -> None:
    lines = price_difference(priced(toy, 16), priced(toy, 32))
    assert [line.partition(":")[0] for line in lines] == ["price.memories", "price.memories.act"]


def test_the_same_price_has_no_lines(toy: Process) -> None:
    assert price_difference(priced(toy, 16, array=1.0), priced(toy, 16, array=1.0)) == ()
