"""Packing: the instructions visit exactly what the nest visits, whatever its loops."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tests.compiler.machines import machine
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tiling.pack_loops import LoopPacker, Packed, WordLoop, affine_runs
from tilewright.isa.machine.encoding import InstructionFormat


def visits(offsets: Sequence[int], loops: Sequence[tuple[int, Sequence[int]]]) -> Iterator[tuple[int, ...]]:
    """The addresses of all operands in every iteration."""
    for indices in product(*(range(trip) for trip, _ in loops)):
        yield tuple(
            offset + sum(i * strides[operand] for i, (_, strides) in zip(indices, loops, strict=True))
            for operand, offset in enumerate(offsets)
        )


def packed_visits(of: InstructionFormat, packed: Sequence[Packed]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for one in packed:
        loops = [
            (
                one.fields.get(f"trip.{loop.name}", 1),
                [one.fields.get(f"{operand.name}.{loop.name}", 0) for operand in of.operands],
            )
            for loop in of.loops
        ]
        for loop in of.loops:
            assert one.fields.get(f"trip.{loop.name}", 1) <= 1 << loop.bits
        found += visits(one.offsets, loops)
    return found


def assert_same_visits(of: InstructionFormat, loops: Sequence[WordLoop]) -> tuple[Packed, ...]:
    packed = LoopPacker(machine("base16")).pack(of, loops)
    wanted = visits([0] * len(of.operands), [(loop.trip, loop.strides) for loop in loops])
    assert Counter(packed_visits(of, packed)) == Counter(wanted)
    return packed


@pytest.mark.parametrize("seed", range(30))
def test_visits_what_the_nest_visits(seed: int) -> None:
    rng = random.Random(seed)
    of = machine("base16").format(rng.choice(["load_act", "requantize", "copy"]))
    count = rng.randint(0, 5)
    loops = [
        WordLoop(rng.choice([1, 2, 3, 4, 7]), tuple(rng.choice([0, 1, 2, 3, 12, 40]) for _ in of.operands))
        for _ in range(count)
    ]
    assert_same_visits(of, loops)


@pytest.mark.parametrize("seed", range(30))
def test_starts_every_sum_once_and_adds_afterwards(seed: int) -> None:
    rng = random.Random(seed)
    of = machine("base16").format("mma")
    loops = [WordLoop(rng.randint(1, 3), (0, rng.randint(1, 50), 1000))]
    loops += [
        WordLoop(rng.choice([1, 3, 18]), (rng.randint(1, 5), rng.randint(1, 5), 0), is_reduce=True)
        for _ in range(rng.randint(1, 4))
    ]
    loops += [WordLoop(rng.randint(1, 3), (rng.randint(1, 9), 0, stride)) for stride in (100, 10)]
    packed = assert_same_visits(of, loops)
    begun: set[int] = set()
    for one in packed:
        touched = {visit[2] for visit in packed_visits(of, [one])}
        assert one.accumulates or not touched & begun
        assert not one.accumulates or touched <= begun
        begun |= touched


def test_merges_loops_that_walk_on_evenly() -> None:
    of = machine("base16").format("copy")
    loops = [WordLoop(3, (80, 80)), WordLoop(8, (10, 10)), WordLoop(10, (1, 1))]
    (packed,) = LoopPacker(machine("base16")).pack(of, loops)
    assert packed.fields == {"trip.k": 240, "a.k": 1, "y.k": 1}


def test_makes_two_loops_of_one_that_is_too_long() -> None:
    of = machine("base16").format("load_act")
    assert len(assert_same_visits(of, [WordLoop(6000, (16, 1))])) == 1


def test_makes_two_instructions_of_a_loop_with_a_prime_trip_count() -> None:
    of = machine("base16").format("load_act")
    assert len(assert_same_visits(of, [WordLoop(8209, (16, 1))])) == 2


@pytest.mark.parametrize("window", [2, 16, 17, 20, 23, 31, 100, 256])
def test_covers_a_long_window_of_a_maximum(window: int) -> None:
    of = machine("base16").format("max_pool")
    packed = LoopPacker(machine("base16")).pack(of, [WordLoop(5, (3, 1)), WordLoop(window, (7, 0), is_reduce=True)])
    wanted = visits([0, 0], [(5, (3, 1)), (window, (7, 0))])
    assert len(packed) == 1
    assert set(packed_visits(of, packed)) == set(wanted)


def test_refuses_a_reduction_that_it_can_neither_hold_nor_continue() -> None:
    of = machine("base16").format("max_pool")
    loops = [WordLoop(5, (1, 0), is_reduce=True), WordLoop(5, (7, 0), is_reduce=True)]
    loops.append(WordLoop(5, (100, 0), is_reduce=True))
    with pytest.raises(CompileError, match="does not fit its reduce loops"):
        LoopPacker(machine("base16")).pack(of, loops)


@pytest.mark.parametrize("seed", range(30))
def test_affine_runs_visit_the_points_in_order(seed: int) -> None:
    rng = random.Random(seed)
    period, step, jump = rng.randint(1, 4), rng.randint(1, 3), rng.randint(4, 20)
    points = [(i // period * jump + i % period * step, i) for i in range(rng.randint(1, 14))]
    if rng.random() < 0.3:
        points = [(rng.randint(0, 3), rng.randint(0, 3)) for _ in points]
    visited = [
        visit
        for first, loops in affine_runs(points)
        for visit in visits(first, [(loop.trip, loop.strides) for loop in loops])
    ]
    assert visited == points


def test_affine_runs_find_two_loops() -> None:
    runs = affine_runs([(0,), (1,), (20,), (21,), (40,), (41,)])
    assert runs == [((0,), (WordLoop(3, (20,)), WordLoop(2, (1,))))]
