"""A clock is aimed at with the smallest macros and the least effort that reach it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tilewright.codesign.price import target
from tilewright.codesign.price.choice import HardwareChoices
from tilewright.codesign.price.clock import Clock, UnitClock
from tilewright.codesign.price.clock_report import target_report, target_tables
from tilewright.codesign.price.efforts import EFFORTS, FASTEST, SMALLEST, harder
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.price import price_machine
from tilewright.codesign.price.process import load_process
from tilewright.isa.files.loader import load_machine

MACHINE, PROCESS = load_machine("base16-1p"), load_process()

BEHIND_NS = 0.5
"""What stands behind every word of `act` here."""

UNIT_NS = dict(zip(EFFORTS, (9.0, 7.0, 5.0, 3.0), strict=True))
"""What a unit's own longest path takes, by the effort with which it is mapped."""


class Paths:
    """In place of a machine's hardware: one unit with a path of its own, and one behind the words of `act`."""

    conversions: ClassVar[int] = 0

    def __init__(self, machine: Any, process: Any, choice: HardwareChoices | None = None) -> None:
        Paths.conversions += machine is not None
        self.choice = choice or HardwareChoices()
        self.efforts = {key: self.choice.efforts.get(key, self.choice.effort) for key in ("top", "own", "behind")}
        self.children, self.places, self.mapped = {"own": "own", "behind": "behind"}, {}, dict.fromkeys(self.efforts)

    def unit_name(self, name: str) -> str:
        return name

    def with_choice(self, choice: HardwareChoices) -> Paths:
        return Paths(None, None, choice)

    def with_macros(self, macro_ns: dict[str, float]) -> Paths:
        return Paths(None, None, replace(self.choice, macro_ns=macro_ns))

    def found(self) -> Clock:
        macro = memory_price(MACHINE, MACHINE.memories["act"], PROCESS, self.choice.macro_ns.get("act", math.inf)).macro
        assert macro.clock_to_output_ns is not None
        units = (
            UnitClock("own", UNIT_NS[self.efforts["own"]], "own.register", "own.other", ""),
            UnitClock("behind", macro.clock_to_output_ns + BEHIND_NS, "act.bank0.way0 data", "behind.word", ""),
        )
        return Clock(tuple(sorted(units, key=lambda unit: -unit.ns)), "")


@pytest.fixture(autouse=True)
def no_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MachinePaths", Paths)
    monkeypatch.setattr(target, "_logic_um2", lambda price, hardware, choice: 1e6)


def priced() -> Any:
    memories = tuple(memory_price(MACHINE, memory, PROCESS) for memory in MACHINE.memories.values())
    return SimpleNamespace(machine=MACHINE, process=PROCESS, memories=memories, logic_um2=1e6)


def test_takes_the_least_effort_and_the_latest_macros() -> None:
    aim = target.aimed(priced(), 1000 / 6)  # 6 ns: what the smallest macros take, too
    assert aim.is_reached and aim.efforts["own"] == "medium" and aim.efforts["behind"] == SMALLEST
    assert [memory.macro for memory in aim.memories] == [memory.macro for memory in priced().memories]


def test_takes_sooner_macros_where_the_period_is_short() -> None:
    aim = target.aimed(priced(), 1000 / 4)
    act = next(memory for memory in aim.memories if memory.name == "act")
    smallest = memory_price(MACHINE, MACHINE.memories["act"], PROCESS)
    assert aim.is_reached and act.macro.clock_to_output_ns is not None
    assert act.macro.clock_to_output_ns + BEHIND_NS <= 4 < (smallest.macro.clock_to_output_ns or 0) + BEHIND_NS
    assert act.area_um2 > smallest.area_um2
    assert aim.efforts["own"] == FASTEST


def test_converts_the_hardware_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds, and is the same however it is mapped."""
    monkeypatch.setattr(Paths, "conversions", 0)
    target.aimed(priced(), 1000 / 4)
    assert Paths.conversions == 1


NONE = "no key of the machine's file"


def test_says_what_keeps_a_machine_from_its_target() -> None:
    aim = target.aimed(priced(), 1000 / 2.5)
    report = target_report(aim)
    assert not report["is_reached"]
    remedies = {each["name"]: each["remedy"] for each in report["slow_units"]}
    assert remedies["behind"] == "none: no macro gives a word within 2.50 ns; the soonest takes 2.98"
    assert remedies["own"] == "no key of the machine's file"
    (title, _, rows), *_, (last, *_) = target_tables(report, priced().memories)
    assert title.startswith("Target of 400 MHz: not reached (mapped for speed, not placed")
    assert [figure for figure, _ in rows][:3] == [f"clock, {corner} corner" for corner in ("typical", "slow", "fast")]
    assert last == "What keeps it from the target"


def test_asks_for_a_register_behind_the_banks_once() -> None:
    unit = UnitClock("behind", 3.9, "act.bank0.way0 data", "behind.word", "")
    later = load_machine("base16-1p", ["pipeline.memory_output=1"])
    before, after = (target.remedy(machine, PROCESS, unit, 3.5) for machine in (MACHINE, later))
    assert before == "pipeline.memory_output: 1, which gives a word a cycle of its own"
    assert after == "more banks of act, which are smaller macros, or fewer readers of it"


def test_asks_for_a_register_behind_tables_once() -> None:
    table = UnitClock("behind", 3.9, "lut.lane0 data", "behind.word", "")
    later = load_machine("base16-1p", ["pipeline.table_output=1"])
    assert target.remedy(MACHINE, PROCESS, table, 3.5).partition(",")[0] == "pipeline.table_output: 1"
    assert target.remedy(later, PROCESS, table, 3.5) == "no key of the machine's file"


def test_asks_for_no_choice_of_a_word_behind_tables() -> None:
    """Each lane has a table of its own: no ports and readers lie between."""
    assert target.remedy(MACHINE, PROCESS, UnitClock("vec", 3.9, "lut.lane0.word", "end", ""), 3.5) == NONE


def test_asks_for_registers_in_run_control_once() -> None:
    places = ("load", "running"), ("counters", "store.of"), ("run control", "store.of")
    units = [UnitClock(unit, 3.9, start, "end", "") for unit, start in places]
    later = load_machine("base16-1p", ["pipeline.halt=1"])
    before, after = ({target.remedy(machine, PROCESS, unit, 3.5) for unit in units} for machine in (MACHINE, later))
    assert [each.partition(",")[0] for each in before] == ["pipeline.halt: 1"]
    assert after == {"no key of the machine's file"}


@pytest.mark.parametrize(
    ("key", "unit", "start"), [("select", "vec", "act.bank0.word_1"), ("mac", "array", "weight_1_0")]
)
def test_asks_for_a_further_stage_once(key: str, unit: str, start: str) -> None:
    slow, keys = UnitClock(unit, 3.9, start, "a register", ""), [[], [f"pipeline.{key}=1"]]
    found = [target.remedy(load_machine("base16-1p", more), PROCESS, slow, 3.5) for more in keys]
    assert [each.partition(",")[0] for each in found] == [f"pipeline.{key}: 1", NONE]


@pytest.mark.parametrize(
    ("end", "asked"),
    [
        ("lane0_mul_3_inside_1", ["pipeline.multiply: 1", NONE, NONE]),
        ("lane0_round_shift_5_floor", ["pipeline.round_shift: 1", "pipeline.round_shift: 2", NONE]),
        ("lane0_add_2", [NONE, NONE, NONE]),
    ],
)
def test_asks_for_further_stages_of_an_operator_until_there_are_none(end: str, asked: list[str]) -> None:
    unit = UnitClock("lanes", 3.9, "vec.format", end, "")
    keys = ([f"pipeline.multiply={stages}", f"pipeline.round_shift={stages}"] for stages in range(3))
    found = [target.remedy(load_machine("base16-1p", more), PROCESS, unit, 3.5) for more in keys]
    assert [each.partition(",")[0] for each in found] == asked


@pytest.mark.parametrize(
    ("unit", "start", "asked"),
    [
        ("arbiters of act", "vec.queue.level", ["request", "", "", ""]),
        ("load", "vec.queue.level", ["check", "check", "start", ""]),
        ("vec control", "vec.walker.is_last_0", ["check", "check", "start", ""]),
        ("dispatch", "mma.vectors.is_active", ["start", "start", "start", ""]),
        ("vec control", "dispatch.vec_queue.head", ["start", "start", "start", ""]),
        ("fetch", "dispatch.assembler.window", ["", "", "", ""]),
    ],
)
def test_asks_for_what_divides_a_path_of_control(unit: str, start: str, asked: list[str]) -> None:
    slow, keys = UnitClock(unit, 3.9, start, "a register", ""), ("request", "check", "start")
    machines = [load_machine("base16-1p", [f"pipeline.{key}=1" for key in keys[:count]]) for count in range(4)]
    found = [target.remedy(machine, PROCESS, slow, 3.5).partition(",")[0] for machine in machines]
    assert found == [f"pipeline.{key}: 1" if key else NONE for key in asked]


def test_efforts_end_with_the_hardest() -> None:
    assert [harder(effort) for effort in EFFORTS] == [*list(EFFORTS)[1:], None]


@pytest.mark.long
def test_a_small_machine_reaches_what_its_units_allow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    small = ("array.rows=2", "array.cols=2", "lanes=2", *(f"memories.{name}.kib=4" for name in ("act", "acc", "wgt")))
    price = price_machine(load_machine("tiny8", small), PROCESS)
    aim = target.aimed(price, 150)
    assert aim.is_reached and aim.clock.mhz >= 150
    assert aim.corners["slow"] < aim.corners["typical"] < aim.corners["fast"]
    assert aim.logic_um2 > price.logic_um2
