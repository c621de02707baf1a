"""More of anything never makes a network slower, by more than half a percent: random pairs of machines."""

from __future__ import annotations

from random import Random

import pytest

from tests.rings import long_beyond
from tests.schedules.never_slower import ALLOWED, LADDERS, LARGER, NO_PROMISE, SMALL, Step, growth, network_cycles

PAIRS, SLOW_PAIRS, LARGER_PAIRS = 6, 3, 1
"""Pairs of machines: in the fast ring, and of each small and each larger network in the slow one."""

LONG_PAIRS, LONG_LARGER_PAIRS = 10, 3
"""The same of each network with those of the long ring."""


@pytest.mark.parametrize("seed", range(PAIRS))
def test_more_of_a_thing_is_never_slower(seed: int) -> None:
    hold("digits", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(SLOW_PAIRS, range(PAIRS, PAIRS + LONG_PAIRS)))
@pytest.mark.parametrize("name", SMALL)
def test_more_of_a_thing_is_never_slower_for_any_network(name: str, seed: int) -> None:
    hold(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(LARGER_PAIRS, range(LONG_LARGER_PAIRS)))
@pytest.mark.parametrize("name", LARGER)
def test_more_of_a_thing_is_never_slower_for_larger_networks(name: str, seed: int) -> None:
    hold(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "isa", "memory", "less", "more"),
    [
        ("mobilenetv2", "dw16", "act", 64, 96),  # with 96 KiB a layer does not fit with loads that come early
        ("mobilenetv3-large", "dw16", "act", 128, 192),  # with 192 KiB not all can have the bank that nobody uses
        ("resnet20v2", "base16", "wgt", 2, 4),  # in 4 KiB whole windows fit, but not twice
    ],
)
def test_what_does_not_fit_slows_nothing_else(name: str, isa: str, memory: str, less: int, more: int) -> None:
    """Pairs in which more memory once took 9 to 15 % more cycles."""
    small, large = (network_cycles(name, isa, (f"memories.{memory}.kib={kib}",), effort=0) for kib in (less, more))
    assert small is not None
    assert large is not None
    assert large <= ALLOWED * small


def hold(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    key = random.choice(sorted(LADDERS))
    while key in NO_PROMISE:
        key = random.choice(sorted(LADDERS))
    less, more = sorted(random.sample(LADDERS[key], 2))
    small, large = (network_cycles(name, "base16", (f"{key}={value}",), effort=1) for value in (less, more))
    if small is not None:
        assert large is not None, f"{name}, base16, {key}: {less} compiles, {more} does not"
        assert large <= ALLOWED * small, f"{name}, base16, {key}: {less} takes {small} cycles, {more} takes {large}"


def test_growth_is_over_all_smaller_values() -> None:
    steps = [Step(1, 100), Step(2, None), Step(3, 90), Step(4, 99), Step(5, 80)]
    assert growth(steps) == 1.1
    assert growth([Step(1, None), Step(2, 5)]) == 0.0
