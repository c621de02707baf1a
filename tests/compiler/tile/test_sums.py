"""Products in another order: which may be exchanged, and who replaces the old sums."""

from __future__ import annotations

from tilewright.compiler.tile.program import BufferAddress, TileOperation
from tilewright.compiler.tile.sums import can_be_exchanged, exchanged
from tilewright.isa.files.loader import load_machine

MACHINE = load_machine("base16")


def product(activations: int, sums: int, pixels: int = 4, accumulate: int = 0, step: int = 1) -> TileOperation:
    """A product of `pixels` vectors with a weight tile."""
    fields = {"trip.x": pixels, "a.x": 1, "c.x": step, "accumulate": accumulate}
    places = {"a": ("tensor", activations), "w": ("weights", 0), "c": ("sums", sums)}
    return TileOperation("mma", fields, {name: BufferAddress(*place) for name, place in places.items()}, 0)


def test_products_with_the_same_sums_or_with_none_in_common_may_be_exchanged() -> None:
    assert can_be_exchanged(MACHINE, [product(0, 0), product(8, 0, accumulate=1), product(0, 4)])


def test_products_whose_sums_overlap_in_parts_may_not() -> None:
    assert not can_be_exchanged(MACHINE, [product(0, 0), product(8, 2)])


def test_products_that_walk_the_same_sums_in_other_ways_may_not() -> None:
    assert not can_be_exchanged(MACHINE, [product(0, 0, 4, step=2), product(8, 0, 7)])


def test_the_first_replaces_old_sums_and_the_others_add() -> None:
    first, second, apart = product(0, 0), product(8, 0, accumulate=1), product(0, 4)

    found = exchanged(MACHINE, [first, second, apart], [second, apart, first])

    assert found == [product(8, 0), apart, product(0, 0, accumulate=1)]


def test_sums_that_were_added_to_are_added_to_by_all() -> None:
    adding = [product(0, 0, accumulate=1), product(8, 0, accumulate=1)]

    assert exchanged(MACHINE, adding, adding[::-1]) == adding[::-1]
