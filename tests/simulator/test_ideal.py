"""Machines with ideal parts: their cycles bound those of the machine as it is, and of every one in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engines import ENGINES
from tests.generators import program_of, random_program
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.ideal import Ideal

TINY = load_machine("tiny8")

SINGLE = [
    Ideal(),
    Ideal(bus=True),
    Ideal(latency=True),
    *(Ideal(engines=frozenset({name})) for name in ENGINES),
]


def programs(seeds: range) -> list[Program]:
    rngs = [np.random.default_rng([seed, 14]) for seed in seeds]
    return [random_program(TINY, rng, 20, max_iterations=int(rng.integers(8, 300))) for rng in rngs]


def cycles(program: Program, ideal: Ideal | None = None) -> int:
    return simulate_cycles(program, place_regions(program.limits), ideal).cycles


def with_more(ideal: Ideal) -> list[Ideal]:
    """The same with one more ideal part each."""
    return [
        Ideal(True, ideal.latency, ideal.engines),
        Ideal(ideal.bus, True, ideal.engines),
        *(Ideal(ideal.bus, ideal.latency, ideal.engines | {name}) for name in ENGINES),
    ]


@pytest.mark.parametrize(
    "seeds", [range(1, 3), pytest.param(range(100, 140), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_machine_with_ideal_parts_is_never_slower(seeds: range) -> None:
    for seed, program in zip(seeds, programs(seeds), strict=True):
        as_it_is = cycles(program)
        for ideal in SINGLE:
            least = cycles(program, ideal)
            assert least <= as_it_is, f"seed {seed}, {ideal}"
            for more in with_more(ideal):
                assert cycles(program, more) <= least, f"seed {seed}, {more} after {ideal}"


def test_ideal_parts_together_leave_a_cycle_an_instruction() -> None:
    """They wait for nothing: one a cycle is dispatched, and ends in the cycle in which it starts."""
    count = 10
    fills = [make_instruction(TINY.format("fill"), {}) for _ in range(count)]
    program = program_of(TINY, tuple(fills))
    ideal = Ideal(bus=True, latency=True, engines=frozenset(ENGINES))
    # The first beat comes in cycle 1, is in the register in 2, dispatched in 3, at the head of its queue in 4.
    assert cycles(program, ideal) == 4 + count


def test_no_real_latency_is_better_than_none() -> None:
    machine = load_machine("tiny8", ["dram.latency_cycles=1"])
    for program in programs(range(2)):
        assert cycles(program, Ideal(latency=True)) <= cycles(replace(program, machine=machine))
