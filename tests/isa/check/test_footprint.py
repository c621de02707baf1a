"""Footprints are exactly the words that the loops visit."""

import itertools
import random

import numpy as np
import pytest

from tilewright.isa.assembly.assembler import parse_instruction
from tilewright.isa.check.footprint import affine_ranges, expand, extent, footprint, merge_ranges
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

BASE16 = load_machine("base16")


def visited(base: int, steps: list[tuple[int, int]], length: int) -> set[int]:
    """Every word, one by one."""
    return {
        base + sum(index * stride for index, (stride, _) in zip(indices, steps, strict=True)) + offset
        for indices in itertools.product(*(range(trip) for _, trip in steps))
        for offset in range(length)
    }


def test_visits_the_words_of_the_loops() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        steps = [(rng.randint(-12, 30), rng.randint(1, 5)) for _ in range(rng.randint(0, 5))]
        base, length = rng.randint(-50, 50), rng.randint(1, 7)
        ranges = affine_ranges(base, tuple(steps), length)
        assert expand(ranges).tolist() == sorted(visited(base, steps, length)), f"seed {seed}"
        assert np.all(ranges[1:, 0] > ranges[:-1, 1]) and np.all(ranges[:, 0] < ranges[:, 1])


def test_is_one_range_for_contiguous_words() -> None:
    assert affine_ranges(10, ((40, 3), (4, 10), (-1, 4)), 1).tolist() == [[7, 127]]


def test_joins_steps_of_the_same_stride() -> None:
    assert affine_ranges(0, ((10, 3), (1, 3), (10, 4), (1, 4)), 1).tolist() == [[10 * y, 10 * y + 6] for y in range(6)]


def test_refuses_more_pieces_than_it_can_list() -> None:
    with pytest.raises(IsaError, match="^an operand touches more than 4194304 separate pieces; split the instruction$"):
        affine_ranges(0, ((1 << 30, 1 << 12), (1 << 16, 1 << 12)), 1)


def test_merges_ranges_in_any_order() -> None:
    assert merge_ranges(np.array([[8, 9], [0, 5], [2, 3], [5, 6]])).tolist() == [[0, 6], [8, 9]]


def test_lists_sources_old_sums_and_destination() -> None:
    text = "mma loops(k=2, x=3) a=act[8; k=16, x=1] w=wgt[0; k=16] c=acc[4; x=2] accumulate"
    accesses = footprint(parse_instruction(text, BASE16), BASE16)
    assert [(a.operand, a.place, a.is_write, a.words.tolist()) for a in accesses] == [
        ("a", "act", False, [8, 9, 10, 24, 25, 26]),
        ("w", "wgt", False, list(range(32))),
        ("c", "acc", False, [4, 6, 8]),
        ("c", "acc", True, [4, 6, 8]),
    ]


def test_does_not_read_sums_without_accumulate() -> None:
    accesses = footprint(parse_instruction("mma loops(k=2)", BASE16), BASE16)
    assert [(a.operand, a.is_write) for a in accesses] == [("a", False), ("w", False), ("c", True)]


def test_counts_dram_in_bytes_of_the_words_on_chip() -> None:
    source, destination = footprint(
        parse_instruction("load_acc loops(k=2) d=inputs[3; k=100] y=acc[5; k=1]", BASE16), BASE16
    )
    assert (source.place, source.is_dram, source.ranges.tolist()) == ("inputs", True, [[3, 67], [103, 167]])
    assert (destination.place, destination.is_dram, destination.ranges.tolist()) == ("acc", False, [[5, 7]])


def test_knows_the_extent_without_the_words() -> None:
    instruction = parse_instruction("load_acc loops(i=1024, j=3) d=inputs[3; i=-1, j=100] y=acc[5]", BASE16)
    assert extent(instruction, instruction.format.operand("d"), BASE16) == (3 - 1023, 3 + 200 + 64)


def test_refuses_a_region_that_does_not_exist() -> None:
    with pytest.raises(IsaError) as error:
        footprint(parse_instruction("load_act d=region7[0]", BASE16), BASE16)
    assert str(error.value) == (
        "d is in region 7; expected one of 0 program, 1 weights, 2 workspace, 3 inputs, 4 outputs"
    )
