"""Sums of products of two reads: which read is the vector, which the matrix, and what zero points add to them.

If both operands are computed, `(x - 3) * (w - 5)` is `x * w + x * -5 + w * -3` and a bias. A number times a read is one
more product: of the same vectors and tiles that hold only this number, or of vectors that do and the same tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.compiler.nest.space import NO_LOOP, NestSpace, coefficient, is_band, is_lane_walk
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op


@dataclass(frozen=True, slots=True)
class Correction:
    """One more product of a sum, with a number in place of every element of the vector, or of every weight."""

    number: int
    is_vector: bool


@dataclass(frozen=True, slots=True)
class Products:
    """The terms of a sum: one product of two reads, and products of a read with a number."""

    main: Expr
    numbers: tuple[tuple[str, int], ...]  # (read, number)

    def corrections(self, vector: str) -> tuple[Correction, ...]:
        """The products with numbers, given the read that is the vector."""
        return tuple(Correction(number, read != vector) for read, number in self.numbers)


def products_of(total: Expr) -> Products | None:
    """The terms that a sum adds up; None if they have another form."""
    main: list[Expr] = []
    numbers: list[tuple[str, int]] = []
    for term in _terms(total):
        if term.op is not Op.MUL or any(arg.op not in (Op.SOURCE, Op.CONST) for arg in term.args):
            return None
        left, right = term.args
        if left.op is right.op is Op.SOURCE:
            main.append(term)
        elif left.op is Op.SOURCE:
            numbers.append((left.name, right.value))
        else:
            return None
    if len(main) != 1 or not {read for read, _ in numbers} <= {arg.name for arg in main[0].args}:
        return None
    return Products(main[0], tuple(numbers))


def _terms(total: Expr) -> Iterator[Expr]:
    if total.op is Op.ADD:
        for arg in total.args:
            yield from _terms(arg)
    else:
        yield total


def summed_loop(vector: Access) -> str | None:
    """The loop over a vector's channels, NO_LOOP if no loop moves them, None if several do."""
    channels = vector.index[CHANNEL].terms
    return None if len(channels) > 1 else channels[0][0] if channels else NO_LOOP


def is_vector(access: Access, space: NestSpace, elements: int) -> bool:
    """Whether a read walks over channels in whole vectors, the same for every channel of the result."""
    if len(access.index) != 4 or (summed := summed_loop(access)) is None:
        return False
    if any(coefficient(index, space.lane) for index in access.index) or summed in space.points:
        return False
    return is_lane_walk(access, summed, elements)


def is_matrix_of_constants(weights: Access, summed: str, space: NestSpace) -> bool:
    """Whether a constant's dimensions are the result's channels, the summed ones, and taps, each once."""
    loops = [index.terms[-1][0] for index in weights.index if index.terms]
    is_plain = all(
        is_band(index, space.lane, summed)
        or (len(index.terms) <= 1 and index.constant == 0 and all(by == 1 for _, by in index.terms))
        for index in weights.index
    )
    return is_plain and len(set(loops)) == len(loops) and set(loops) <= {space.lane, *space.reduce}


def is_matrix_of_a_tensor(access: Access, summed: str, space: NestSpace, lanes: int, is_transposed: bool) -> bool:
    """Whether a computed tensor's words are rows of tiles: over the result's channels, or over the summed ones.

    The other of the two loops then walks along rows or columns of pixels, one by one; loops over the result's points
    may choose among matrices.
    """
    in_words, over_pixels = (summed, space.lane) if is_transposed else (space.lane, summed)
    if access.outside is not None or NO_LOOP in (summed, space.lane) or space.reduce != (summed,):
        return False
    if not is_lane_walk(access, in_words, lanes):
        return False
    pixels = [d for d in (ROW, COLUMN) if coefficient(access.index[d], over_pixels)]
    if len(pixels) != 1 or coefficient(access.index[pixels[0]], over_pixels) != 1:
        return False
    others = [loop for index in access.index for loop, _ in index.terms if loop not in (in_words, over_pixels)]
    return set(others) <= set(space.points) and coefficient(access.index[BATCH], over_pixels) == 0


def choosing_loops(access: Access, space: NestSpace) -> frozenset[str]:
    """The loops over points that choose the matrix."""
    moving = {loop for index in access.index for loop, _ in index.terms}
    return frozenset(loop for loop in space.points if loop in moving)


def pixel_dimension(access: Access, nest: Nest, loop: str) -> int:
    """The dimension of pixels that a loop over rows of tiles walks along."""
    found = next((d for d in (ROW, COLUMN) if coefficient(access.index[d], loop)), None)
    assert found is not None, f"{nest.name}: {loop} walks along no pixels of {access.tensor}"
    return found
