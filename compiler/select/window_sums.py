"""Products of vectors with one number: once for each pixel of the input, not for each tap and each channel.

Asymmetric weights are `w + number`, and a sum of products with them is `sum(x * w) + sum(x * number)`. So it is with a
matrix that is a tensor, whose zero point is such a number. The second sum is the same for all channels of the result,
but in the array it takes as long as the first. Apart from it, the array sums the channels of each pixel, with one
weight tile and no taps. An instruction `y = wrap(a + b, int32)` then adds up the pixels of a window, first along its
rows and then down its columns, and adds that to the product's sums.

Example, 3×3 from 32 to 32 channels on a 16×16 array: a pixel of the result takes 9 · 2 · 2 = 36 vectors. In the array
the second sum takes 36 more. Apart, it takes 2; the vector engine adds 2 + 2 words for the window, 2 for the result.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine
from tilewright.compiler.nest.space import NO_LOOP, NestSpace, coefficient
from tilewright.compiler.select.bindings import ConstantMatrix, TensorRead
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.templates.systolic import weight_tiles
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights

READS = 2
"""Cycles of an addition: both of its words come from one bank."""

TILE_WORDS = 8
"""Words of sums for each pixel of a tile's results, about: two tiles, with what is summed apart."""


def with_window_sums(cover: Cover, machine: Machine) -> Cover:
    """The same cover, with a product's numbers summed apart from it where that is possible and faster."""
    dot = cover.dot
    if dot is None or not dot.corrections or any(correction.is_vector for correction in dot.corrections):
        return cover
    adding = adding_instruction(machine, dot.format)
    read = dot.inputs[systolic_activations(dot.format).name]
    if adding is None or not isinstance(read, TensorRead):
        return cover
    access = cover.nest.reads[read.read]
    if not _is_window(access, cover.space) or not _pays(cover, dot, adding, access, machine):
        return cover
    steps = tuple(replace(step, adding=adding) if step is dot else step for step in cover.steps)
    return replace(cover, steps=steps)


def adding_instruction(machine: Machine, dot: InstructionFormat) -> InstructionFormat | None:
    """The instruction that adds two words of sums of a product, if the machine has one."""
    return next((format for format in machine.formats.values() if _adds(format, dot)), None)


def _adds(format: InstructionFormat, dot: InstructionFormat) -> bool:
    memory, expr = dot.destination.memory, format.statement.expr
    if {operand.memory for operand in format.operands} != {memory} or len(format.sources) != 2:
        return False
    if format.immediates or format.has_accumulate or format.reduce_loops or format.statement.blocks:
        return False
    held = dot.destination.element.type
    return held is not None and expr.op is Op.WRAP and expr.range == held.interval and _is_sum_of_two(expr.args[0])


def _is_sum_of_two(expr: Expr) -> bool:
    return expr.op is Op.ADD and len({arg.name for arg in expr.args if arg.op is Op.SOURCE}) == 2


def _is_window(access: Access, space: NestSpace) -> bool:
    """Whether an access walks over channels, and over windows, with at most one loop of taps along rows and columns."""
    moving = set()
    for dimension, point in ((BATCH, space.batch), (CHANNEL, NO_LOOP), (ROW, space.row), (COLUMN, space.column)):
        taps = [loop for loop, _ in access.index[dimension].terms if loop != point]
        most = 0 if dimension == BATCH else 1
        if len(taps) > most or not {*taps} <= {*space.reduce}:
            return False
        moving |= {*taps}
    return all(space.trips[loop] == 1 for loop in space.reduce if loop not in moving)


def window_loop(index: Affine, point: str) -> str:
    """The loop over taps that moves an index besides the loop over points; NO_LOOP if there is none."""
    return next((loop for loop, _ in index.terms if loop != point), NO_LOOP)


def _pays(cover: Cover, dot: Step, adding: InstructionFormat, access: Access, machine: Machine) -> bool:
    """Whether the busiest engine streams fewer words with the numbers' sums apart.

    Additions to a product's results come when the array is done with these, and mostly before the vector engine can go
    on with others: with a constant matrix, whose next tile keeps the array busy, they count on top of that.
    """
    space, numbers = cover.space, len(dot.corrections)
    rows, columns = (_extent(access.index[dimension], space) for dimension in (ROW, COLUMN))
    halo = _halo(access, space, machine.memories[adding.destination.memory].depth)
    pixels = halo * space.trips[space.batch] * rows * columns
    down, across = (space.trips[window_loop(access.index[d], p)] for d, p in ((ROW, space.row), (COLUMN, space.column)))
    vectors = dot.words // (space.pixels * down * across * weight_tiles(machine, space.trips[space.lane]))
    blocks = -(-space.trips[space.lane] // machine.lanes)
    along = halo * space.trips[space.batch] * rows * space.trips[space.column]
    added = READS * (along * (across - 1) + space.pixels * (down - 1 + blocks))
    inside, apart = dict(cover.words), dict(cover.words)
    inside[dot.format.engine] += dot.words * numbers
    apart[dot.format.engine] += int(pixels) * max(1, vectors) * numbers
    apart[adding.engine] = apart.get(adding.engine, 0) + int(added)
    is_constant = isinstance(dot.inputs[systolic_weights(dot.format).name], ConstantMatrix)
    behind = READS * space.pixels * blocks if is_constant else 0
    return max(apart.values()) + behind < max(inside.values())


def _halo(access: Access, space: NestSpace, words: int) -> float:
    """The pixels that square tiles read of an input, by those of the input: neighbouring tiles overlap."""
    side, halo = max(1.0, sqrt(words / TILE_WORDS)), 1.0
    for dimension, point in ((ROW, space.row), (COLUMN, space.column)):
        index = access.index[dimension]
        tap, step = window_loop(index, point), max(1, abs(coefficient(index, point)))
        halo *= 1 + abs(coefficient(index, tap)) * (space.trips[tap] - 1) / (side * step)
    return halo


def _extent(index: Affine, space: NestSpace) -> int:
    """How many indices lie between the first and the last that are read, both counted."""
    return 1 + sum(abs(coefficient(index, loop)) * (space.trips[loop] - 1) for loop, _ in index.terms)
