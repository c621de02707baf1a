"""Channels and pixels exchanged by products with constants, on machines that read no computed tensor transposed."""

from __future__ import annotations

import pytest

from tests.compiler.lower.test_permute import assert_moves, permuted
from tilewright.compiler.lower.lower import lower
from tilewright.isa.files.loader import load_machine

CASES = {
    "words of channels and of pixels, and some more": ((1, 36, 1, 40), (0, 3, 2, 1)),
    "several batches": ((2, 36, 1, 40), (0, 3, 2, 1)),
    "several rows": ((1, 36, 2, 40), (0, 3, 2, 1)),
    "few pixels in several rows": ((2, 36, 3, 5), (0, 3, 2, 1)),
    "rows become channels": ((2, 20, 40, 3), (0, 2, 1, 3)),
    "one pixel": ((1, 36, 1, 1), (0, 3, 2, 1)),
    "one channel": ((1, 1, 1, 36), (0, 3, 2, 1)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", ["sequence16-a16", "vector-only"])
def test_the_nests_move_as_numpy_does(name: str, machine: str) -> None:
    before, axes = CASES[name]
    after = tuple(before[axis] for axis in axes)
    assert_moves(before, before, axes, after, machine, is_simulated=False)


@pytest.mark.slow
def test_so_do_programs() -> None:
    before, axes = CASES["words of channels and of pixels, and some more"]
    assert_moves(before, before, axes, (1, 40, 1, 36), "sequence16-a16")


def test_exchanges_share_their_constants() -> None:
    before, axes = CASES["several rows"]
    program = lower(permuted(before, before, axes, (1, 40, 2, 36)), load_machine("sequence16-a16"))
    matrices = [name for name in program.constants if name.startswith("transposition")]
    assert len(matrices) == 16 + 4  # of the channels of whole words, and of those of the last word; the rows share them
