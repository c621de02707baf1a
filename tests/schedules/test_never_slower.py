"""More of anything never makes a network slower, by more than half a percent: random pairs of machines."""

from __future__ import annotations

from random import Random

import pytest

from tests.rings import long_beyond
from tests.schedules.never_slower import (
    ALLOWED,
    LADDERS,
    LARGER,
    PADDED,
    SHIPPED,
    SMALL,
    Step,
    growth,
    network_cycles,
    network_taken,
)
from tilewright.isa.files.loader import load_machine

PAIRS, SLOW_PAIRS, LARGER_PAIRS = 6, 3, 1
"""Pairs of machines: in the fast ring, and of each small and each larger network in the slow one."""

LONG_PAIRS, LONG_LARGER_PAIRS = 10, 3
"""The same of each network with those of the long ring."""

MACHINES_PAIRS = 60
"""Pairs of the long ring, of a small network, a shipped machine and a key that are drawn."""

PADDING = 1.05
"""Cycles with a larger array, beyond what the added bytes take on the bus, by those with a smaller one: at most 4.5 %
more were measured, as rows of weights take a cycle each, and sums pass through more of them."""


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
        # With 96 KiB a layer does not fit with loads that come early.
        pytest.param("mobilenetv2", "dw16", "act", 64, 96, marks=pytest.mark.long),
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
    while key in PADDED:
        key = random.choice(sorted(LADDERS))
    hold_pair(name, "base16", key, *sorted(random.sample(LADDERS[key], 2)))


def hold_pair(name: str, isa: str, key: str, less: int, more: int) -> None:
    small, large = (network_cycles(name, isa, (f"{key}={value}",), effort=1) for value in (less, more))
    if small is not None:
        assert large is not None, f"{name}, {isa}, {key}: {less} compiles, {more} does not"
        assert large <= ALLOWED * small, f"{name}, {isa}, {key}: {less} takes {small} cycles, {more} takes {large}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(MACHINES_PAIRS))
def test_more_of_a_thing_is_never_slower_on_any_machine(seed: int) -> None:
    random = Random(f"machines {seed}")
    key = random.choice([key for key in sorted(LADDERS) if key not in PADDED])
    less, more = sorted(random.sample(LADDERS[key], 2))
    hold_pair(random.choice(SMALL), random.choice(SHIPPED), key, less, more)


@pytest.mark.slow
@pytest.mark.parametrize(("less", "more"), [(4, 8), (4, 16)])
def test_a_deeper_queue_lets_nobody_be_in_the_way(less: int, more: int) -> None:
    """It took 0.75 % more cycles with 8 than with 4, because loads that came earlier took ports."""
    hold_pair("bert-tiny", "sequence16", "engines.vec.queue", less, more)


@pytest.mark.parametrize(("less", "more"), [(16, 32), (16, 48), (32, 48)])
def test_a_larger_array_loses_no_more_than_its_padding(less: int, more: int) -> None:
    hold_padding("digits", "dw16", "array.rows", less, more)


@pytest.mark.slow
@pytest.mark.parametrize("key", PADDED)
@pytest.mark.parametrize("name", SMALL)
def test_a_larger_array_loses_no_more_than_its_padding_in_any_network(name: str, key: str) -> None:
    for less, more in ((16, 32), (16, 48), (32, 48)):
        hold_padding(name, "base16", key, less, more)


def hold_padding(name: str, isa: str, key: str, less: int, more: int) -> None:
    """More cycles are at most those of the added bytes on the bus."""
    small, large = (network_taken(name, isa, (f"{key}={value}",), effort=1) for value in (less, more))
    if small is None or large is None:
        return
    beats = max(0, large.dram_bytes - small.dram_bytes) // load_machine(isa).dram.bus_bytes
    assert large.cycles <= PADDING * small.cycles + beats, f"{name}, {isa}, {key}: {less}: {small}; {more}: {large}"


def test_growth_is_over_all_smaller_values() -> None:
    steps = [Step(1, 100), Step(2, None), Step(3, 90), Step(4, 99), Step(5, 80)]
    assert growth(steps) == 1.1
    assert growth([Step(1, None), Step(2, 5)]) == 0.0
