"""The time of a flow shop: that of its longest path, whatever the sizes of the tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.tiling.flow import EngineShare, Shares, TileShare, pipelined


def simulated(sizes: list[float], rates: list[float]) -> float:
    """Tile after tile, stage after stage: a tile begins when the stage is free and the stage before is done with it."""
    free = [0.0] * len(rates)
    for size in sizes:
        done = 0.0
        for stage, rate in enumerate(rates):
            done = max(done, free[stage]) + size * rate
            free[stage] = done
    return free[-1]


def expected(sizes: list[float], rates: list[float]) -> float:
    """The same from the model: the first tile, the last whole one, the one before the last, and the last."""
    total, most = sum(sizes), max(sizes)
    shares = [np.array([size / total]) for size in sizes]
    whole = max(place for place, size in enumerate(sizes) if size == most)
    turns = [whole, *([len(sizes) - 2] if len(sizes) > 1 else [])]
    places = tuple(TileShare(shares[turn], np.array([sum(sizes[turn + 1 :]) / total])) for turn in turns)
    stages = [EngineShare(np.array([rate * total])) for rate in rates]
    return float(pipelined(stages, Shares(shares[0], places, shares[-1]))[0])


@pytest.mark.parametrize("seed", range(8))
def test_is_exact_for_tiles_of_one_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = list(rng.integers(0, 20, 4).astype(float))
    sizes = [8.0] * int(rng.integers(1, 9))
    assert expected(sizes, rates) == pytest.approx(simulated(sizes, rates))


def test_is_near_where_the_last_tiles_are_smaller() -> None:
    """Rows of two tiles, the second of them smaller; the last row is smaller as a whole."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        rates = list(rng.integers(1, 10, 4).astype(float))
        across, rows = [8.0, float(rng.integers(1, 9))], [1.0] * int(rng.integers(1, 6)) + [float(rng.random())]
        sizes = [width * height for height in rows for width in across]
        ratios.append(expected(sizes, rates) / simulated(sizes, rates))
    assert max(ratios) <= 1.000001  # it is the length of some paths
    assert min(ratios) >= 0.9
    assert np.mean(np.array(ratios) >= 0.99) >= 0.9


def test_counts_the_stages_before_and_after_the_slowest() -> None:
    """Ten tiles: 2 cycles, 5 and 3 for each. The slowest stage begins after 2 and works 50; then 3 are left."""
    assert expected([1.0] * 10, [2.0, 5.0, 3.0]) == pytest.approx(2 + 50 + 3)


def test_a_stage_may_begin_with_part_of_a_tile() -> None:
    """Two tiles of four parts: the first of the 8 parts takes 1 cycle, then the array works 80, then 5 are left."""
    half = np.array([0.5])
    stages = [
        EngineShare(np.array([8.0]), np.array([4])),
        EngineShare(np.array([80.0]), np.array([4])),
        EngineShare(np.array([10.0])),
    ]
    assert float(pipelined(stages, Shares(half, (), half))[0]) == pytest.approx(1 + 80 + 5)
    first = EngineShare(np.array([8.0]), np.array([4]), np.array([30.0]))
    assert float(pipelined([first, *stages[1:]], Shares(half, (), half))[0]) == pytest.approx(30 + 80 + 5)
