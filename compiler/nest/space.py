"""The iteration space of a nest: the role of each of its loops, and its sums of products of two reads.

Words of the activation memory hold the channels of one pixel, so the loop that moves along the result's channels is
the lane loop; the others move from word to word. Roles are read off the access of the result.

Of a product, one read is the vector and one the matrix, and zero points add to them. If both operands are computed,
`(x - 3) * (w - 5)` is `x * w + x * -5 + w * -3` and a bias. A number times a read is one more product: of the same
vectors and tiles that hold only this number, or of vectors that do and the same tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilewright.compiler.errors import CompileError, describe_nodes
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Nest
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op

NO_LOOP = ""
"""Stands for the loop of a dimension that does not move; its trip count is 1."""


@dataclass(frozen=True)
class NestSpace:
    """The loops of a nest by role. `batch`, `lane`, `row` and `column` move along dimensions 0 to 3 of the result.

    `across` is the reduce loop over channels, in whole words, whose reductions go on across lanes.
    """

    batch: str
    lane: str
    row: str
    column: str
    reduce: tuple[str, ...]
    trips: Mapping[str, int]
    across: str = NO_LOOP

    @property
    def points(self) -> tuple[str, str, str]:
        """The loops over pixels, outermost first."""
        return self.batch, self.row, self.column

    @cached_property
    def pixels(self) -> int:
        return self.trips[self.batch] * self.trips[self.row] * self.trips[self.column]


def nest_space(nest: Nest, lanes: int) -> NestSpace:
    """The roles of a nest's loops; raises CompileError if the result is not a plain walk over [N, C, H, W]."""
    trips = {loop.name: loop.trip for loop in nest.loops} | {NO_LOOP: 1}
    moving = walking_loops(nest.result)
    if len(moving) != 4 or None in moving:
        raise CompileError(describe(nest), f"the result {nest.result} must have four dimensions, one loop in each")
    first = nest.result.index[CHANNEL].constant
    if first % lanes or any(by != 1 for _, by in nest.result.index[CHANNEL].terms):
        raise CompileError(
            describe(nest),
            f"its channels begin at channel {first} of {nest.result.tensor}",
            expected=f"a multiple of the machine's {lanes} lanes",
        )
    batch, lane, row, column = (loop or NO_LOOP for loop in moving)
    reduce = tuple(loop.name for loop in nest.loops if loop.is_reduce)
    known = {batch, lane, row, column, *reduce}
    for loop in nest.loops:
        if loop.name not in known and loop.trip > 1:
            raise CompileError(describe(nest), f"loop {loop.name} moves no dimension of the result")
    return NestSpace(batch, lane, row, column, reduce, trips, _across(nest, reduce, trips, lanes))


def _across(nest: Nest, reduce: tuple[str, ...], trips: Mapping[str, int], lanes: int) -> str:
    """The reduce loop that operations across lanes belong to; NO_LOOP without such operations."""
    if not any(node.op in ACROSS_LANES for node in walk(nest.expr)):
        return NO_LOOP
    channels = [access.index[CHANNEL] for access in nest.reads.values() if len(access.index) == 4]
    over_channels = {loop for index in channels for loop, _ in index.terms if loop in reduce}
    if len(over_channels) != 1 or any(trips[loop] % lanes for loop in over_channels):
        found = ", ".join(f"{loop} of {trips[loop]}" for loop in sorted(over_channels)) or "none"
        raise CompileError(
            describe(nest),
            f"its reduce loops over channels are {found}",
            remedy=f"an operation across lanes needs one, of a multiple of the machine's {lanes} lanes",
        )
    return over_channels.pop()


class LoopsOf:
    """The loops on which the values of expressions of one nest depend; each is found once."""

    def __init__(self, nest: Nest) -> None:
        self._reads = nest.reads
        self._reduce = frozenset(loop.name for loop in nest.loops if loop.is_reduce)
        self._found: dict[Expr, frozenset[str]] = {}

    def __call__(self, expr: Expr) -> frozenset[str]:
        if expr not in self._found:
            self._found[expr] = self._of(expr)
        return self._found[expr]

    def _of(self, expr: Expr) -> frozenset[str]:
        of_args = frozenset(loop for arg in expr.args for loop in self(arg))
        if expr.op in REDUCTIONS:
            return of_args - self._reduce
        if expr.op in (Op.SOURCE, Op.LUT):
            return of_args | {loop for index in self._reads[expr.name].index for loop, _ in index.terms}
        return of_args


def walking_loops(result: Access) -> list[str | None]:
    """The loop along each dimension of a result: NO_LOOP without one, None with several.

    Rows may also follow each other in one row of the result.
    """
    moving = [_only_loop(index) for index in result.index]
    if len(moving) == 4 and moving[ROW] == NO_LOOP and len(result.index[COLUMN].terms) == 2:
        moving[ROW:] = [loop for loop, _ in result.index[COLUMN].terms]
    return moving


def describe(nest: Nest) -> str:
    """How messages name a nest: by its ONNX nodes."""
    return describe_nodes(nest.nodes) or nest.name


def coefficient(index: Affine, loop: str) -> int:
    return next((by for name, by in index.terms if name == loop), 0)


def is_lane_walk(access: Access, loop: str, step: int) -> bool:
    """Whether an access's channels are `loop` plus a multiple of `step`, and `loop` moves no other dimension."""
    channels = access.index[CHANNEL]
    moves_alone = all(coefficient(index, loop) == 0 for d, index in enumerate(access.index) if d != CHANNEL)
    is_unit = channels.terms == (((loop, 1),) if loop != NO_LOOP else ())
    return len(access.index) == 4 and moves_alone and is_unit and channels.constant % step == 0


def is_band(index: Affine, lane: str, summed: str) -> bool:
    """Whether an index of a matrix counts the summed channels, beginning at a multiple of the result's channel."""
    return (
        index.constant == 0
        and [loop for loop, _ in index.terms] == [lane, summed]
        and (index.terms[0][1] < 0 and index.terms[1][1] == 1)
    )


def _only_loop(index: Affine) -> str | None:
    """The one loop of an index, NO_LOOP without any, None with several."""
    if not index.terms:
        return NO_LOOP
    return index.terms[0][0] if len(index.terms) == 1 else None


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
