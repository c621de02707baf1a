"""Weight tiles: every weight where the array reads it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.nests import axis
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.tiling.weight_tiles import WeightTiles, cut_weights
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import integer_element

TRIPS = {"o": 20, "i": 8, "r": 3, "s": 2}


def cut(values: np.ndarray, order: str = "oirs") -> WeightTiles:
    access = Access("w", tuple(axis((loop, 1)) for loop in order))
    return cut_weights(values, access, TRIPS, "o", "i", ("r", "s"), rows=16, cols=16)


def weights(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, 100, (20, 8, 3, 2))


def matrix(found: WeightTiles) -> np.ndarray:
    """Every tile of every unit, [unit, r, s, block, row, column], zeros outside the boxes."""
    blocks = found.hull(range(found.units))[0].stop
    full = np.zeros((found.units, 3, 2, blocks, 16, 16), np.int64)
    for unit, ((i, r, s), tiles) in enumerate(zip(found.boxes, found.tiles, strict=True)):
        full[unit, r.start : r.stop, s.start : s.stop, i.start : i.stop] = tiles
    return full


def test_puts_every_weight_in_its_tile() -> None:
    values = weights(np.random.default_rng(0))
    tiles = matrix(cut(values))
    assert tiles.shape == (2, 3, 2, 1, 16, 16)
    for o, i, r, s in np.ndindex(20, 8, 3, 2):
        assert tiles[o // 16, r, s, 0, i, o % 16] == values[o, i, r, s]
    assert tiles.sum() == values.sum()  # all else is zero


def test_follows_the_access_and_not_the_order_of_dimensions() -> None:
    values = weights(np.random.default_rng(0))
    turned = values.transpose(3, 1, 0, 2)
    np.testing.assert_array_equal(matrix(cut(turned, "sior")), matrix(cut(values)))


@pytest.mark.parametrize("width", [1, 3])
def test_cuts_a_band_like_the_matrix_that_it_stands_for(width: int) -> None:
    rng = np.random.default_rng(width)
    values = rng.integers(1, 100, (20, width, 3, 2))
    dense = np.zeros((20, 20 * width, 3, 2), np.int64)
    for o in range(20):
        dense[o, o * width : (o + 1) * width] = values[o]
    trips = {**TRIPS, "i": 20 * width}
    band = Access("w", (axis(("o", 1)), axis(("o", -width), ("i", 1)), axis(("r", 1)), axis(("s", 1))), outside=0)
    plain = Access("w", tuple(axis((loop, 1)) for loop in "oirs"))
    found, wanted = (
        cut_weights(v, access, trips, "o", "i", ("r", "s"), rows=16, cols=16)
        for v, access in ((values, band), (dense, plain))
    )
    assert found.boxes == wanted.boxes
    np.testing.assert_array_equal(matrix(found), matrix(wanted))
    kept = sum(tiles.size for tiles in found.tiles)
    assert kept <= 2 * (width + 1) * 6 * 256  # no more than the diagonal's tiles


def test_finds_the_box_of_weights_that_are_not_zero() -> None:
    values = np.zeros((20, 8, 3, 2), np.int64)
    values[17, 3, 1, 1] = 5
    found = cut(values)
    assert found.boxes == ((range(0, 1), range(0, 1), range(0, 1)), (range(0, 1), range(1, 2), range(1, 2)))
    assert found.hull(range(2)) == (range(0, 1), range(0, 2), range(0, 2))


def test_writes_tiles_row_by_row() -> None:
    found = cut(weights(np.random.default_rng(0)))
    content = found.bytes(range(1, 2), (range(0, 1), range(2, 3), range(0, 2)), integer_element(IntegerType(8, True)))
    assert content == b"".join(matrix(found)[1, 2, s, 0].astype(np.int8).tobytes() for s in range(2))


def test_leaves_out_the_taps_that_a_block_does_not_have() -> None:
    """Of three taps, block 0 has the last two, block 1 has all but the first row's, and block 2 has none."""
    trips = {"o": 16, "i": 48, "r": 2, "s": 3}
    values = np.random.default_rng(0).integers(1, 100, (16, 48, 2, 3))
    values[:, :16, :, 0] = 0
    values[:, 16:32, 0] = 0
    values[:, 32:] = 0
    access = Access("w", tuple(axis((loop, 1)) for loop in "oirs"))
    found = cut_weights(values, access, trips, "o", "i", ("r", "s"), rows=16, cols=16)
    assert found.boxes == ((range(0, 2), range(0, 2), range(0, 3)),)
    assert found.pieces == (((range(0, 1), range(0, 2), range(1, 3)), (range(1, 2), range(1, 2), range(0, 3))),)
    assert found.reach(1) == (2, 2 * 2 + 1 * 3)
    whole = cut_weights(values, access, trips, "o", "i", ("r", "s"), rows=16, cols=16, is_whole=True)
    assert whole.pieces == (whole.boxes,)


def test_blocks_with_the_same_taps_are_one_piece() -> None:
    trips = {"o": 16, "i": 64, "r": 1, "s": 3}
    values = np.random.default_rng(0).integers(1, 100, (16, 64, 1, 3))
    values[:, :32, :, 0] = 0
    values[:, 32:, :, 2] = 0
    access = Access("w", tuple(axis((loop, 1)) for loop in "oirs"))
    found = cut_weights(values, access, trips, "o", "i", ("r", "s"), rows=16, cols=16)
    first, second = found.pieces[0]
    assert (first[0], second[0]) == (range(0, 2), range(2, 4))
    assert (first[2], second[2]) == (range(1, 3), range(0, 2))


def test_of_a_second_term_only_the_tiles_that_hold_something_are_there() -> None:
    trips = {"o": 32, "i": 32, "t": 2, "r": 3, "s": 3}
    values = np.random.default_rng(0).integers(1, 100, (32, 32, 2, 3, 3))
    values[:, :, 1] = 0
    values[3, 20, 1, 2, 1] = 1
    access = Access("w", tuple(axis((loop, 1)) for loop in "oitrs"))
    found = cut_weights(values, access, trips, "o", "i", ("t", "r", "s"), rows=16, cols=16)
    first = range(0, 2), range(0, 1), range(0, 3), range(0, 3)
    assert found.pieces == ((first, (range(1, 2), range(1, 2), range(2, 3), range(1, 2))), (first,))
