"""What a machine must be: bounds by hand, steps on made-up machines whose right answer is plain, and real ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.digits import MODEL
from tilewright.codesign.advise.changes import Change
from tilewright.codesign.advise.trials import Bench, NoAdvice, Trial
from tilewright.codesign.bounds.needs import Needs
from tilewright.codesign.errors import QuestionError
from tilewright.codesign.points.evaluate import Failure, NetworkFigures, Outcome
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.require import requirement as module
from tilewright.codesign.require import walk
from tilewright.codesign.require.question import RequiredLimits, question
from tilewright.codesign.require.requirement import Requirement, least, require_machine
from tilewright.codesign.require.tables import requirement_lines, requirement_tables
from tilewright.codesign.require.walk import settings
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

TINY = load_machine("tiny8")


def test_cycles_follow_from_rate_and_clock() -> None:
    assert RequiredLimits(per_second=30, clock_mhz=200).cycles == 6_666_666


def test_bounds_round_up() -> None:
    found = least(Needs(products=1000, weight_bytes=601), RequiredLimits(per_second=1e6, clock_mhz=300))
    assert (found.macs, found.bus_bytes) == (4, 3)  # 300 cycles: 3 MACs would do 900 products, 2 bytes move 600


def test_without_a_rate_nothing_follows() -> None:
    found = least(Needs(1000, 601), RequiredLimits(area_mm2=1))
    assert (found.macs, found.bus_bytes) == (None, None)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((None, None, None, None), "nothing is asked: say --per-second RUNS with --clock MHZ, --area MM2, or both"),
        ((30, None, None, None), "the cycles of a run follow from rate and clock: say --clock MHZ, such as --clock 200"),  # noqa: E501
        ((None, 200, 1, None), "a clock says nothing without a rate: say --per-second RUNS, or leave --clock out"),
        ((0, 200, None, None), "--per-second is 0; expected runs a second above 0"),
        ((30, math.inf, None, None), "--clock is inf; expected MHz above 0"),
        ((30, 200, -1, None), "--area is -1; expected mm² above 0"),
        ((1e9, 1, None, None), "1,000,000,000 a second at 1 MHz: that is less than a cycle for each run; ask for fewer a second"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_question_that_asks_nothing(limits: tuple[float | None, ...], message: str) -> None:
    with pytest.raises(QuestionError) as raised:
        question(*limits)
    assert str(raised.value) == message


# -- steps, on machines whose cycles and area are plain ----------------------------------------------------------------


def made_up(rows: int, cols: int, bus: int, kib: int) -> tuple[int, float]:
    """Cycles and mm²: rows and columns save cycles alike, columns cost more; `act` below 16 KiB is too small."""
    return 6400 * 64 // (rows * cols) + 100 * 8 // bus + (10_000 if kib < 16 else 0), rows + 2 * cols + kib / 8


KEYS = ("array.rows", "array.cols", "dram.bus_bytes", "memories.act.kib")


def trial(bench: Bench, change: Change | None) -> Trial:
    over = {} if change is None else dict(change.over)
    try:
        _ = change and change.apply(bench.machine)
    except IsaError as error:  # rows that are no multiple of the lanes
        return Trial(change, None, (), {}, str(error))
    array = {"rows": 8, "cols": 8, **over.get("array", {})}
    bus = over.get("dram", {}).get("bus_bytes", 8)
    kib = over.get("memories", {}).get("act", {}).get("kib", 64)
    cycles, area = made_up(array["rows"], array["cols"], bus, kib)
    own = NetworkFigures("n", "h", "m", "k", 1, cycles, 10, 0.5, 100, 0.25, 0.75, 0, 9, 90, 0.1)
    figures = MachineFigures("m", "k", "P", area, 0.0, 1.0, 1, "fitted", "m", None) if bench.with_price else None
    outcomes: tuple[Outcome, ...] = (own,)
    return Trial(change, figures, outcomes, {})


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Requirement]:
    """Asks for machines stepped from `tiny8`, of which trials are made up and prices are those of the trials."""
    all_steps = walk.steps
    monkeypatch.setattr(walk, "steps", lambda of: [step for step in all_steps(of) if step.key in KEYS])
    monkeypatch.setattr(Bench, "trial", trial)
    monkeypatch.setattr(module._Judge, "_memories_mm2", lambda self, machine: 0.0)
    monkeypatch.setattr(module, "needs_of_all", lambda networks, weight: Needs(0, 0))
    monkeypatch.setattr(module, "price_of", lambda machine, *of: _Priced(machine))

    def asked(**limits: float) -> Requirement:
        return require_machine([Network("n", b"")], RequiredLimits(**limits), [("tiny8", TINY)], jobs=1)

    return asked


class _Priced:
    """What the answer's own price says, by its sizes."""

    def __init__(self, machine: object) -> None:
        tree = machine.text  # type: ignore[attr-defined]
        import yaml

        said = yaml.safe_load(tree)
        array, bus, kib = said["array"], said["dram"]["bus_bytes"], said["memories"]["act"]["kib"]
        _, area = made_up(array["rows"], array["cols"], bus, kib)
        self.figures = MachineFigures("m", "k", "P", area, 0.0, 1.0, 1, "estimated", None, 10.0)


def test_what_is_too_slow_grows_by_what_costs_least(answer: Callable[..., Requirement]) -> None:
    found = answer(per_second=1e6 / 3300, clock_mhz=1)  # 3,300 cycles, of 6,500
    assert "array.rows=16" in found.nearest.settings and not any("cols" in of for of in found.nearest.settings)
    assert found.nearest.cycles is not None and found.nearest.cycles <= 3300 and not found.nearest.misses


def test_what_is_not_needed_goes(answer: Callable[..., Requirement]) -> None:
    found = answer(per_second=1e6 / 7000, clock_mhz=1)
    assert "memories.act.kib=16" in found.nearest.settings  # 8 are too few
    assert found.nearest.cycles == made_up(8, 8, 8, 16)[0] or "dram.bus_bytes=4" in found.nearest.settings


def test_within_an_area_the_fastest(answer: Callable[..., Requirement]) -> None:
    found = answer(area_mm2=27.0)  # of 32: less `act` gives 6, of which 1 is left: too little for more rows or columns
    assert set(found.nearest.settings) == {"dram.bus_bytes=128", "memories.act.kib=16"} and not found.nearest.misses
    assert found.nearest.cycles == made_up(8, 8, 128, 16)[0]


def test_a_miss_is_said(answer: Callable[..., Requirement]) -> None:
    found = answer(per_second=1e6 / 90, clock_mhz=1, area_mm2=5.0)
    assert "too slow" in found.nearest.misses or any("mm²" in of for of in found.nearest.misses)
    assert any(line.startswith("No machine was found that does it.") for line in requirement_lines(found))


def test_a_clock_that_the_machine_does_not_reach_is_a_miss(answer: Callable[..., Requirement]) -> None:
    found = answer(per_second=1, clock_mhz=200)
    assert found.nearest.misses == ("100 MHz in SG13G2",)


def test_networks_that_run_on_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Failure("n", "h", "tiny8", "k", 1, "compile", "has no Conv")
    monkeypatch.setattr(Bench, "trial", lambda bench, change: Trial(change, None, (failed,), {}))
    with pytest.raises(NoAdvice) as raised:
        require_machine(
            [Network("n", b"")], RequiredLimits(per_second=1, clock_mhz=1), [("tiny8", TINY)], with_price=False
        )
    said = "the networks run on none of the machines: n on tiny8 fails in the stage compile: has no Conv"
    assert str(raised.value) == said


# -- a real network ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_answer_holds_when_it_is_compiled_again(tmp_path: Path) -> None:
    """The settings that it gives make the machine whose cycles it says, with one process and with two."""
    import tilewright

    networks = [read_network(MODEL)]
    asked = question(25_000, 200, None, None)
    found = require_machine(networks, asked, [("tiny8", TINY)], effort=0, with_price=False, jobs=1)
    assert found.nearest.settings and not found.nearest.misses
    program = tilewright.compile(str(MODEL), "tiny8", found.nearest.settings, effort=0)
    assert program.run_profile().cycles == found.nearest.cycles <= 8000
    again = require_machine(networks, asked, [("tiny8", TINY)], effort=0, with_price=False, jobs=2)
    assert json.dumps(again.as_json()) == json.dumps(found.as_json())
    assert settings(None) == () and requirement_tables(found)[1][2][0][0] == "tiny8, stepped"
