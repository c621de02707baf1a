"""Plain sums over large windows in parts, which are then added: where a window fits no tile, or no instruction's loops,
and where no second tile fits beside it.

Example, the mean of 128×128 where a memory holds 16,384 words, and a tile needs one more for its result: four sums of
32×128 words each, then `requantize(sum0 + sum1 + sum2 + sum3)`. Sums are exact, so that bits do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilewright.compiler.arithmetic import arithmetic_of, longest_buffer, vector_blocks
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, fresh_name
from tilewright.compiler.nest.expressions import source, with_node
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestProgram
from tilewright.compiler.nest.space import NO_LOOP, coefficient, walking_loops
from tilewright.compiler.select.bindings import TensorRead
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import Expr, make, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

SHARE = 4
"""A part takes at most one part of so many of the memory that it is read from: the next one is loaded meanwhile."""

MOST_PARTS = 256
"""A sum of more parts than this is left as it is."""

Piece = tuple[range, range]
"""Some rows and columns of a window."""


@dataclass(frozen=True)
class SumWindow:
    """The window of a plain sum: the sum, its read, the loops over its rows and columns, and how far these go."""

    total: Expr
    read: str
    loops: tuple[str, str]
    trips: tuple[int, int]


@dataclass(frozen=True)
class InParts:
    """The nests of the parts, and in the end the nest that adds them; the buffers between."""

    nests: tuple[Nest, ...]
    buffers: Mapping[str, Buffer]


def fits(nest: Nest, cover: Cover, machine: Machine, times: int = 1) -> bool:
    """Whether a plain sum's window fits its instruction's loops, and so many times a tile beside a word of results."""
    window = _window(nest)
    room = _longest(cover, machine) // times - vector_blocks(machine)
    return cover.fits_reduce_loops and (window is None or window.trips[0] * window.trips[1] <= room)


def in_parts(nest: Nest, cover: Cover, program: NestProgram, machine: Machine, session: Session) -> InParts | None:
    """A plain sum as the sum of parts; None if it is better whole, has too many, or no instructions add them."""
    if fits(nest, cover, machine, times=2):
        return None
    window = _window(nest)
    pieces = [] if window is None else _pieces(window, cover, machine)
    if window is None or not 1 < len(pieces) <= MOST_PARTS:
        return None
    names = [fresh_name(f"{nest.name}.part{number}", program.buffers) for number in range(len(pieces))]
    parts = [_part(nest, window, name, piece) for name, piece in zip(names, pieces, strict=True)]
    nests = (*parts, _added(nest, window, parts))
    buffers = {name: Buffer(name, _shape(nest), arithmetic_of(machine).sum) for name in names}
    selector = Selector(machine, replace(program, buffers={**program.buffers, **buffers}), session)
    if any(selector.cover_if_possible(each) is None for each in nests):
        return None
    return InParts(nests, buffers)


def _window(nest: Nest) -> SumWindow | None:
    """The window of a nest's sum, if it is one over at most one loop of rows and one of columns."""
    total = next((node for node in walk(nest.expr) if node.op is Op.SUM), None)
    if total is None or total.args[0].op is not Op.SOURCE:
        return None
    read = total.args[0].name
    trips = {loop.name: loop.trip for loop in nest.loops if loop.is_reduce and loop.trip > 1}
    moving = [[loop for loop, _ in index.terms if loop in trips] for index in nest.reads[read].index]
    if moving[BATCH] or moving[CHANNEL] or max(map(len, moving)) > 1 or sum(map(len, moving)) != len(trips):
        return None
    rows, columns = (moving[dimension][0] if moving[dimension] else NO_LOOP for dimension in (ROW, COLUMN))
    return SumWindow(total, read, (rows, columns), (trips.get(rows, 1), trips.get(columns, 1)))


def _longest(cover: Cover, machine: Machine) -> int:
    """The most words of what a sum reads that are sure to find a place."""
    step = next(step for step in cover.steps if step.reduces)
    operand = next(each for each in step.format.sources if isinstance(step.inputs[each.name], TensorRead))
    return longest_buffer(machine.memories[operand.memory], vector_blocks(machine))


def _pieces(window: SumWindow, cover: Cover, machine: Machine) -> list[Piece]:
    """Even pieces of a window that fit the instruction's loops, and a part of the memory: rows are cut first."""
    format = next(step.format for step in cover.steps if step.reduces)
    loops = sorted((1 << loop.bits for loop in format.loops if loop.is_reduce), reverse=True)
    words = max(1, _longest(cover, machine) // SHARE)
    columns = min(window.trips[1], loops[0], words)
    rows = min(window.trips[0], loops[1] if len(loops) > 1 else 1, max(1, words // columns))
    return list(product(_even(window.trips[0], rows), _even(window.trips[1], columns)))


def _even(extent: int, most: int) -> list[range]:
    """An extent in as few ranges of at most so many as there can be, of about the same length."""
    size = -(-extent // -(-extent // most))
    return [range(start, min(start + size, extent)) for start in range(0, extent, size)]


def _part(nest: Nest, window: SumWindow, name: str, piece: Piece) -> Nest:
    """The sum over one piece of the window, for every point of the nest."""
    access = nest.reads[window.read]
    trips = dict(zip(window.loops, map(len, piece), strict=True))
    loops = tuple(replace(loop, trip=trips[loop.name]) if loop.name in trips else loop for loop in nest.loops)
    index = list(access.index)
    for dimension, loop, part in zip((ROW, COLUMN), window.loops, piece, strict=True):
        index[dimension] = _moved(index[dimension], coefficient(index[dimension], loop) * part.start)
    values, taps = window.total.args[0].range, len(piece[0]) * len(piece[1])
    total = replace(window.total, range=Interval(values.low * taps, values.high * taps))
    reads = {window.read: replace(access, index=tuple(index))}
    return Nest(name, nest.nodes, loops, reads, Access(name, _walk(nest)), total, 0)


def _added(nest: Nest, window: SumWindow, parts: Sequence[Nest]) -> Nest:
    """The nest with the sum of the parts in place of its own."""
    loops = tuple(loop for loop in nest.loops if not loop.is_reduce)
    reads = {name: access for name, access in nest.reads.items() if name != window.read}
    reads |= {part.name: part.result for part in parts}
    total = _balanced([source(part.name, part.expr.range) for part in parts])
    return replace(nest, loops=loops, reads=reads, expr=with_node(nest.expr, window.total, total))


def _balanced(terms: Sequence[Expr]) -> Expr:
    """The sum of terms, as a tree of as few levels as there can be: what looks through it goes down level by level."""
    half = len(terms) // 2
    return make(Op.ADD, _balanced(terms[:half]), _balanced(terms[half:])) if half else terms[0]


def _moved(index: Affine, by: int) -> Affine:
    return replace(index, constant=index.constant + by)


def _walk(nest: Nest) -> tuple[Affine, ...]:
    """The index of a buffer that has one element for each point of a nest."""
    return tuple(Affine(((loop, 1),)) if loop else Affine(()) for loop in walking_loops(nest.result))


def _shape(nest: Nest) -> tuple[int, ...]:
    trips = {loop.name: loop.trip for loop in nest.loops}
    return tuple(trips[loop] if loop else 1 for loop in walking_loops(nest.result))
