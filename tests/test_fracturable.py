"""The array of docs/types.md whose elements multiply by one weight of eight bits or two of four computes both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tests.fracturable import FracturableArray, rows
from tests.types import tables
from tilewright.rtl.systolic import SystolicArray

SIZE = 3


@pytest.mark.parametrize("splits", [False, True], ids=["weights of eight bits", "two of four"])
def test_both_types_of_weights_are_multiplied(splits: bool) -> None:
    rng = np.random.default_rng(int(splits))
    for _ in range(4):
        tile = rng.choice([-128, 127, *rng.integers(-128, 128, 6)], (SIZE, SIZE))
        vectors = rng.choice([-128, 127, *rng.integers(-128, 128, 6)], (5, SIZE))
        low, high = (tile & 15 ^ 8) - 8, tile >> 4
        wanted = np.stack([vectors @ low, vectors @ high], -1).reshape(5, -1) if splits else vectors @ tile
        np.testing.assert_array_equal(sums_of(tile, vectors, splits), wanted)


def sums_of(tile: np.ndarray, vectors: np.ndarray, splits: bool) -> np.ndarray:
    """The array's sums of vectors that follow each other."""
    array, found = FracturableArray(SIZE), []

    async def bench(ctx: Any) -> None:
        for cycle in range(SystolicArray.WEIGHT_LEAD + len(vectors) + array.latency):
            row, at = cycle, cycle - SystolicArray.WEIGHT_LEAD
            ctx.set(array.loads, row == 0)
            ctx.set(array.splits, splits)
            for c in range(SIZE):
                ctx.set(array.weights[c], int(tile[row, c]) & 255 if row < SIZE else 0)
            ctx.set(array.is_first, at == 0)
            for r in range(SIZE):
                ctx.set(array.vector[r], int(vectors[at, r]) if 0 <= at < len(vectors) else 0)
            if at >= array.latency:
                sums = array.halves if splits else array.sums
                found.append([ctx.get(sums[c]) for c in range(len(sums))])
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return np.array(found)


@pytest.mark.long
def test_the_page_shows_what_the_elements_take() -> None:
    assert [*rows()] in tables()
