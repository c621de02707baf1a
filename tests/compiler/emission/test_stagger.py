"""Products of several arrays: where each begins to read, and that sums stay what they are."""

from __future__ import annotations

from tilewright.compiler.emission.stagger import staggered
from tilewright.compiler.tile.program import BufferAddress, TileOperation
from tilewright.isa.files.loader import load_machine

MACHINE = load_machine("base16")


def product(begin: int, blocks: int, accumulate: int = 0) -> TileOperation:
    """A product over some of the blocks of a tensor, each of 100 words, for all of which there are weights."""
    fields = {"trip.k": blocks, "a.k": 100, "w.k": 16, "trip.x": 100, "a.x": 1, "c.x": 1, "accumulate": accumulate}
    places = {"a": ("tensor", 100 * begin), "w": ("weights", 16 * begin), "c": ("sums", 0)}
    return TileOperation("mma", fields, {name: BufferAddress(*place) for name, place in places.items()}, 0)


def test_each_array_begins_with_another_piece_of_a_product() -> None:
    whole = [product(0, 4)]

    assert staggered(MACHINE, whole, 0, 2) == [product(0, 2), product(2, 2, 1)]
    assert staggered(MACHINE, whole, 1, 2) == [product(2, 2), product(0, 2, 1)]
    assert staggered(MACHINE, whole, 3, 4) == [product(3, 1), product(0, 1, 1), product(1, 1, 1), product(2, 1, 1)]


def test_products_that_follow_each_other_begin_with_another_of_them() -> None:
    several = [product(0, 1), product(1, 1, 1), product(2, 1, 1), product(3, 1, 1)]

    assert staggered(MACHINE, several, 1, 2) == [product(2, 1), product(3, 1, 1), product(0, 1, 1), product(1, 1, 1)]


def test_a_product_of_one_block_stays_whole() -> None:
    assert staggered(MACHINE, [product(0, 1)], 1, 2) == [product(0, 1)]


def test_fewer_blocks_than_arrays_are_pieces_of_one_block() -> None:
    assert staggered(MACHINE, [product(0, 2)], 2, 4) == [product(1, 1), product(0, 1, 1)]


def test_sums_that_overlap_in_parts_keep_the_order() -> None:
    one = product(0, 2)
    other = one._replace(bases={**one.bases, "c": BufferAddress("sums", 50)})

    assert staggered(MACHINE, [one, other], 1, 2) == [one, other]
