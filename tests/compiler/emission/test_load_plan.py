"""Load plans: by need, and as late as all of them together allow."""

from __future__ import annotations

import pytest

from tilewright.compiler.emission.dependences import Dependences
from tilewright.compiler.emission.load_plan import EARLY_ROUND_TRIPS, plan_loads
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Engine
from tilewright.isa.templates.work import Work

ENGINES = load_machine("base16").engines
ROUND_TRIP = 10
MARGIN = EARLY_ROUND_TRIPS * ROUND_TRIP


def engines_called(*names: str) -> list[Engine]:
    return [ENGINES[name] for name in names]


def test_the_load_that_is_needed_first_goes_first() -> None:
    engines = engines_called("load", "load", "mma", "vec")
    lasting = [Work(20, 30), Work(20, 30), Work(50, 60), Work(5, 9)]
    before = Dependences(((), (), (1,), (0, 2)), ((),) * 4)
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert plan.loads == (1, 0)
    assert list(plan.starts) == [0, 0, 30, 90]
    # Needed in 30 and in 90; a load's words begin to come ROUND_TRIP after its start.
    assert [plan.from_cycle[index] + MARGIN for index in (1, 0)] == [0, 60]


def test_loads_that_follow_each_other_start_earlier() -> None:
    engines = engines_called("load", "load", "mma")
    lasting = [Work(100, 110), Work(100, 110), Work(50, 60)]
    before = Dependences(((), (), (0, 1)), ((),) * 3)
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert [at + MARGIN for at in plan.from_cycle[:2]] == [110 - 10 - 200, 110 - 10 - 100]


@pytest.mark.parametrize(("ports", "first"), [(1, 360), (2, 400)])
def test_beats_of_two_engines_follow_each_other_on_one_port(ports: int, first: int) -> None:
    """The example of the module: loads of 100 cycles needed in 500, 520 and 900, the first by another engine."""
    machine = load_machine("base16-2dma", [f"dram.ports={ports}", f"engines.load2.port={ports - 1}"])
    names = ("load2", "load", "load", "vec", "vec", "vec")
    engines, port = [machine.engines[name] for name in names], ports - 1
    loads = [Work(100, 100, read_beats=60, port=port), *[Work(100, 100, read_beats=60)] * 2]
    lasting = [*loads, Work(20, 520), Work(380, 380), Work(9, 9)]
    before = Dependences(((), (), (), (0,), (1,), (2, 4)), ((),) * 6)
    plan = plan_loads(engines, lasting, before, 0)
    assert [plan.starts[at] for at in (3, 4, 5)] == [100, 120, 500]
    assert plan.loads == (0, 1, 2)
    # Needed in 100, 120 and 500.
    assert list(plan.from_cycle[:3]) == [first - 400, 420 - 400, 800 - 400]


def test_words_that_another_load_overwrites_are_needed_when_its_are() -> None:
    engines = engines_called("load", "load", "vec", "load")
    lasting = [Work(10, 20)] * 4
    before = Dependences(((), (), (1,), ()), ((), (0,), (), ()))
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert plan.loads == (0, 1, 3)
    assert plan.from_cycle[3] == 0  # nobody reads it: it starts in its turn, and keeps nothing behind it waiting
