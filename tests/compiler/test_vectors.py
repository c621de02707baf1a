"""Buffers of groups of words that are sure to find a place."""

from __future__ import annotations

from tilewright.compiler.vectors import longest_buffer
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import Memory, integer_element


def memory(depth: int, banks: int) -> Memory:
    return Memory("m", integer_element(IntegerType(8, True)), 4, depth, banks)


def test_groups_that_divide_a_bank_may_fill_the_memory() -> None:
    assert longest_buffer(memory(64, 4), 4) == 64


def test_groups_that_do_not_divide_a_bank_stay_within_one() -> None:
    # A bank of 15 words can begin one or two words before a multiple of 3, so 13 words are sure: 12 in whole groups.
    assert longest_buffer(memory(30, 2), 3) == 30
    assert longest_buffer(memory(32, 2), 3) == 12
