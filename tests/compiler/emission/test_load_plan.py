"""Load plans: by need, and as late as all of them together allow."""

from __future__ import annotations

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


def test_words_that_another_load_overwrites_are_needed_when_its_are() -> None:
    engines = engines_called("load", "load", "vec", "load")
    lasting = [Work(10, 20)] * 4
    before = Dependences(((), (), (1,), ()), ((), (0,), (), ()))
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert plan.loads == (0, 1, 3)
    assert plan.from_cycle[3] == 0  # nobody reads it: it starts in its turn, and keeps nothing behind it waiting
