"""A machine's price is the sum of its parts, leaves nothing out, and grows with the machine."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.codesign.price.estimate_error import error_table, worst_unit
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import Price, price_machine
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.report import energy_report, price_report, price_tables
from tilewright.codesign.price.unit import ESTIMATED, PricedUnit
from tilewright.isa.files.loader import load_machine

SMALL = ("array.rows=2", "array.cols=2", "lanes=2", "memories.act.kib=4", "memories.wgt.kib=2", "memories.acc.kib=2")
"""tiny8 with as little of everything as compiles; most of its price does not depend on these."""


def made_up(process: Process, *units: PricedUnit) -> Price:
    machine = load_machine("tiny8")
    memories = tuple(memory_price(machine, memory, process) for memory in machine.memories.values())
    return Price(machine, process, False, "1.2.3", "0123", units, memories, ())


def test_three_figures_and_never_their_sum(toy: Process) -> None:
    price = made_up(toy, PricedUnit("array", 300.0, 10, 4, ESTIMATED), PricedUnit("fetch", 100.0, 5, 0, "synthesised"))
    report = price_report(price)
    assert (report["logic_um2"], report["logic_gate_equivalents"]) == (400.0, 200)
    assert report["memories_um2"] == sum(memory["area_um2"] for memory in report["memories"])
    assert [unit["share_of_logic"] for unit in report["units"]] == [0.75, 0.25]
    assert (report["flip_flops"], report["multipliers"]) == (15, 4)
    assert not {"area", "total", "total_um2"} & set(report)


def test_says_what_it_rests_on(toy: Process) -> None:
    price = made_up(toy, PricedUnit("array", 300.0, 10, 4, ESTIMATED))
    basis = price_report(price)["basis"]
    assert basis["state"] == "synthesised, not placed"
    assert {"process", "corner", "source", "licence", "library_hash", "yosys", "script_hash"} <= set(basis)
    printed = "\n".join(str(row) for _, _, rows in price_tables(price_report(price)) for row in rows)
    assert all(text in printed for text in ("synthesised, not placed", "Yosys 1.2.3", "script 0123", "toy, none"))


def test_every_number_has_its_unit_in_its_key(toy: Process) -> None:
    units = ("_um2", "_pj", "_pj_per_mac", "_pj_per_byte", "_bits", "equivalents", "share_of_logic", "_mw")
    counts = {"energy_error", "flip_flops", "multipliers", "macros", "cycles", "macs"}
    price = made_up(toy, PricedUnit("array", 300.0, 10, 4, ESTIMATED))
    for key, value in numbers({**price_report(price), "energy": energy_report("net", 10, [], 100.0)}):
        assert key in counts or key.endswith(units), (key, value)


def numbers(value: object, key: str = "") -> list[tuple[str, float]]:
    match value:
        case dict():
            return [each for name, inner in value.items() for each in numbers(inner, name)]
        case list():
            return [each for inner in value for each in numbers(inner, key)]
        case int() | float():
            return [(key, value)]
        case _:
            return []


def test_the_error_of_an_estimate_is_shown_by_machine_and_worst_unit(toy: Process) -> None:
    exact = made_up(
        toy, PricedUnit("array", 900.0, 0, 0, "synthesised"), PricedUnit("fetch", 95.0, 0, 0, "synthesised")
    )
    exact = dataclasses.replace(exact, units=(*exact.units, PricedUnit("bus", 5.0, 0, 0, "synthesised")))
    changed = {"array": 945.0, "fetch": 76.0, "bus": 50.0}
    units = tuple(dataclasses.replace(unit, area_um2=changed[unit.name]) for unit in exact.units)
    estimate = dataclasses.replace(exact, units=units)
    name, error = worst_unit(estimate, exact)
    assert (name, error) == ("fetch", pytest.approx(-0.2))  # bus is too small to count
    assert error_table([(estimate, exact)]).endswith("| `tiny8` | 0.5 | 0.5 | +7.10% | fetch: -20.00% |")


@pytest.fixture(scope="module")
def small() -> Price:
    return price_machine(load_machine("tiny8", SMALL))


@pytest.mark.slow
def test_nothing_that_exists_costs_nothing(small: Price) -> None:
    names = {unit.name for unit in small.units}
    assert {"array", "vec lanes", "load", "store", "dispatch", "counters", "queue dispatch.load_queue"} <= names
    assert all(unit.area_um2 > 0 for unit in small.units)
    assert all(memory.area_um2 > 0 for memory in small.memories)
    assert [memory.name for memory in small.memories] == ["act", "wgt", "acc", "par", "lut"]
    assert [memory.name for memory in small.queues] == ["queue fetch.buffer"]


@pytest.mark.slow
def test_the_estimate_is_near_the_exact_price(small: Price) -> None:
    exact = price_machine(small.machine, exact=True)
    assert small.logic_um2 == pytest.approx(exact.logic_um2, rel=0.05)
    assert abs(worst_unit(small, exact)[1]) < 0.10
    assert {unit.name for unit in small.units} == {unit.name for unit in exact.units}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "unit"),
    [
        ("engines.vec.queue=9", "queue dispatch.vec_queue"),
        ("engines.load.beats=8", "queue load.packer.beats"),
        pytest.param("wait_bits=20", "dispatch", marks=pytest.mark.long),
    ],
)
def test_more_entries_and_bits_cost_more(setting: str, unit: str, small: Price) -> None:
    larger = price_machine(load_machine("tiny8", (*SMALL, setting)))
    assert larger.unit(unit).area_um2 > small.unit(unit).area_um2
    assert larger.logic_um2 > small.logic_um2
