"""Plans that go on from earlier ones are the plans that would be made alone."""

from __future__ import annotations

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.select import select
from tilewright.compiler.session import Session
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import planner_of

OTHERS = {
    "a 256th of the memory for tiles": TilingOptions(1 / 256),
    "nothing stays on chip": TilingOptions(residency="none"),
    "a smaller memory": TilingOptions(limits={"act": 512}),
}


def two_layers(seed: int = 0, size: int = 24) -> Selection:
    of = machine("base16")
    network = network_for(of, seed)
    first = network.conv(network.input(1, 16, size, size), 32, (3, 3), pad=1)
    return select(network.program(network.conv(first, 16, (1, 1))), of)


def decided(planner: Planner) -> tuple[object, ...]:
    plan = planner.plan()
    return plan.residency, plan.choices


@pytest.mark.parametrize("case", OTHERS)
def test_a_plan_with_other_options_is_as_if_it_came_first(case: str) -> None:
    selection, session = two_layers(), Session()
    first = decided(planner_of(selection, TilingOptions(), session))
    other = decided(planner_of(selection, OTHERS[case], session))
    assert other == decided(Planner(selection, OTHERS[case])) != first
    assert decided(planner_of(selection, TilingOptions(), session)) == first


def test_what_was_found_for_a_selection_is_known_to_the_next_planner() -> None:
    selection, session = two_layers(), Session()
    first = planner_of(selection, TilingOptions(), session).plan()
    again = planner_of(selection, TilingOptions(), session).plan()
    assert all(one is other for one, other in zip(first.shapes, again.shapes, strict=True))


def test_another_selection_has_a_planner_of_its_own() -> None:
    session = Session()
    planner_of(two_layers(), TilingOptions(), session).plan()
    larger = two_layers(size=40)
    assert decided(planner_of(larger, TilingOptions(), session)) == decided(Planner(larger, TilingOptions()))
