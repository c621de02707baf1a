"""Products in which each channel has a weight of its own, as sums without a matrix: where that streams fewer words.

A depthwise convolution is a product with a matrix that is diagonal at every tap. On the array each tap of 16 channels
takes a vector, and 15 of 16 weights are zero. An instruction `y = sum(a * w)` takes a word of activations and one of
weights instead, and one with blocks, `y = sum(words_sum(a * w))`, takes as many taps of a row as a block has words:

    loops   o=32 y=8 x=8, reduce i=32 r=3 s=5     x: t[n, i, y + r - 1, x + s - 2]      w: weight[o, i - o, r, s]
    becomes o=32 y=8 x=8, reduce r=3 s=2 s_word=3 x: t[n, o, y + r - 1, x + 2·s + s_word - 2]
                                                  w: channels[0, o, r, 3·s + s_word]

Blocks of a row may overlap, so that none goes beyond the window. A tap in two blocks has its weight in the first and a
zero in the second. A row of fewer taps than a block has words gets taps with weight zero behind it.

Weights that are wider than their element, as asymmetric ones can be, are a sum of terms. Their rows follow each other:

    w: weight[o, i - o, t, r, s]   becomes   w: channels[0, o, 3·t + r, s]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestLoop, NestProgram
from tilewright.compiler.nest.space import coefficient
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

STILL = Affine(())


@dataclass(frozen=True)
class _Diagonal:
    """A nest's product with a diagonal matrix: the reads of its factors, and the loop over summed channels."""

    vector: str
    weights: str
    summed: str


@dataclass(frozen=True)
class NestForm:
    """One way to write a nest, in a program that has its weights."""

    name: str
    nest: Nest
    program: NestProgram


@dataclass(frozen=True)
class ChannelForm(NestForm):
    """A form in which each channel has weights of its own."""

    vector: str  # the reads of its product's factors
    weights: str
    summed: str  # the loop that it is without


def diagonals(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program with each product by a diagonal matrix in the form that streams the fewest words."""
    session = session or Session()
    for nest in program.nests:
        program = cheapest(forms(nest, program, machine), machine, session).program
    return program


def forms(nest: Nest, program: NestProgram, machine: Machine) -> list[NestForm]:
    """A nest as it is; and if it is a product with a diagonal matrix, without that, and with rows cut into blocks."""
    computing = formats_with(machine, Role.COMPUTES)
    blocks = sorted({format.operand(name).block for format in computing for name in format.statement.blocks})
    return [NestForm("as it is", nest, program), *own_channel_forms(nest, program, blocks)]


def own_channel_forms(nest: Nest, program: NestProgram, blocks: Sequence[int]) -> list[ChannelForm]:
    """A product with a diagonal matrix without that, also with rows in blocks of so many words; else nothing."""
    diagonal = _diagonal(nest, program)
    if diagonal is None:
        return []
    found: list[ChannelForm] = []
    element = program.constant_types[nest.reads[diagonal.weights].tensor]
    for block, form, weights in _without_matrix(nest, diagonal, program, blocks):
        tensor = form.reads[diagonal.weights].tensor
        nests = tuple(form if old is nest else old for old in program.nests)
        constants, types = {**program.constants, tensor: weights}, {**program.constant_types, tensor: element}
        changed = replace(program, nests=nests, constants=constants, constant_types=types)
        name = f"in blocks of {block}" if block > 1 else "channel by channel"
        found.append(ChannelForm(name, form, changed, diagonal.vector, diagonal.weights, diagonal.summed))
    return found


def cheapest(of: Sequence[NestForm], machine: Machine, session: Session) -> NestForm:
    """The form whose cover's busiest engine streams the fewest words; of equals the first."""
    if len(of) == 1:
        return of[0]
    return min(of, key=lambda form: _cycles(Selector(machine, form.program, session).cover_if_possible(form.nest)))


def _cycles(cover: Cover | None) -> float:
    """The cycles of a cover's busiest engine; infinite without a cover, or if its reduce loops need several."""
    return cover.cycles if cover is not None and cover.fits_reduce_loops else float("inf")


# -- products with a diagonal matrix -----------------------------------------------------------------------------------


def _diagonal(nest: Nest, program: NestProgram) -> _Diagonal | None:
    """The product of a nest if its matrix is a constant diagonal at every tap, else None."""
    product = next((node for node in walk(nest.expr) if node.op is Op.SUM and node.args[0].op is Op.MUL), None)
    if product is None or any(factor.op is not Op.SOURCE for factor in product.args[0].args):
        return None
    factors = product.args[0].args
    return next((d for x, w in (factors, factors[::-1]) if (d := _as_diagonal(nest, x, w, program)) is not None), None)


def _as_diagonal(nest: Nest, vector: Expr, weights: Expr, program: NestProgram) -> _Diagonal | None:
    x, w = nest.reads[vector.name], nest.reads[weights.name]
    values, lane = program.constants.get(w.tensor), nest.result.index[CHANNEL].terms
    if values is None or not lane or w.outside != 0 or len(w.index) < 4 or len(x.index) != 4 or values.shape[1] != 1:
        return None
    outputs, band = w.index[:2]
    if outputs.terms != lane or outputs.constant or band.constant or len(band.terms) != 2:
        return None
    (first, by), (summed, step) = band.terms
    is_diagonal = (first, by, step) == (lane[0][0], -1, 1) and x.index[CHANNEL].terms == ((summed, 1),)
    return _Diagonal(vector.name, weights.name, summed) if is_diagonal else None


# -- forms without a matrix --------------------------------------------------------------------------------------------


def _without_matrix(
    nest: Nest, diagonal: _Diagonal, program: NestProgram, blocks: Sequence[int]
) -> Iterator[tuple[int, Nest, NDArray[Any]]]:
    """(words of a block, nest, weights as [1, O, R, S]) of the forms without a matrix."""
    plain, weights = _tap_by_tap(nest, diagonal, program)
    yield 1, plain, weights
    for words in blocks:
        cut = _in_blocks(plain, diagonal, weights, words)
        if cut is not None:
            yield words, *cut


def _tap_by_tap(nest: Nest, diagonal: _Diagonal, program: NestProgram) -> tuple[Nest, NDArray[Any]]:
    x, w = nest.reads[diagonal.vector], nest.reads[diagonal.weights]
    values = program.constants[w.tensor]
    ((lane, _),) = nest.result.index[CHANNEL].terms
    vector = (x.index[BATCH], Affine(((lane, 1),), x.index[CHANNEL].constant), *x.index[ROW:])
    outputs, _, *terms, rows, columns = values.shape
    *over_terms, row, column = w.index[ROW:]
    if over_terms:
        row = Affine((*((loop, by * rows) for loop, by in over_terms[0].terms), *row.terms), row.constant)
    own = (STILL, Affine(((lane, 1),)), row, column)
    reads = {
        **nest.reads,
        diagonal.vector: replace(x, index=vector),
        diagonal.weights: Access(f"{w.tensor}.channels", own),
    }
    loops = tuple(loop for loop in nest.loops if loop.name != diagonal.summed)
    of_channels = values.reshape(1, outputs, rows * int(np.prod(terms)), columns)
    return replace(nest, loops=loops, reads=reads), np.ascontiguousarray(of_channels)


def _in_blocks(nest: Nest, diagonal: _Diagonal, weights: NDArray[Any], words: int) -> tuple[Nest, NDArray[Any]] | None:
    """The nest with the taps of a row in blocks of so many words; None if it needs no change, or its taps are apart."""
    x, w = nest.reads[diagonal.vector], nest.reads[diagonal.weights]
    loop = next((loop for loop in nest.loops if w.index[COLUMN] == Affine(((loop.name, 1),))), None)
    if loop is None or coefficient(x.index[COLUMN], loop.name) != 1 or loop.trip == words:
        return None
    if loop.trip < words:
        return _in_one_block(nest, diagonal.vector, weights, loop, words)
    step = next(step for step in range(words, 0, -1) if (loop.trip - words) % step == 0)
    count, inner = (loop.trip - words) // step + 1, f"{loop.name}_word"
    loops: list[NestLoop] = []
    for each in nest.loops:
        loops += [replace(each, trip=count), NestLoop(inner, words, is_reduce=True)] if each is loop else [each]
    terms = [(name, step if name == loop.name else by) for name, by in x.index[COLUMN].terms]
    reads = {
        **nest.reads,
        diagonal.vector: _along(x, Affine((*terms, (inner, 1)), x.index[COLUMN].constant)),
        diagonal.weights: _along(w, Affine(((loop.name, words), (inner, 1)))),
    }
    wide = np.zeros((*weights.shape[:COLUMN], count * words), weights.dtype)
    for block in range(count):
        new = slice(0 if block == 0 else words - step, words)  # those before are in the block before as well
        taps = weights[..., block * step : block * step + words]
        wide[..., block * words : (block + 1) * words][..., new] = taps[..., new]
    return replace(nest, loops=tuple(loops), reads=reads), wide


def _in_one_block(
    nest: Nest, vector: str, weights: NDArray[Any], loop: NestLoop, words: int
) -> tuple[Nest, NDArray[Any]]:
    """The nest with taps of weight zero behind those of a row, which may read any value."""
    x = nest.reads[vector]
    loops = tuple(replace(each, trip=words) if each is loop else each for each in nest.loops)
    reads = {**nest.reads, vector: replace(x, outside=x.outside or 0)}
    behind = [(0, 0)] * COLUMN + [(0, words - loop.trip)]
    return replace(nest, loops=loops, reads=reads), np.pad(weights, behind)


def _along(access: Access, column: Affine) -> Access:
    """The access with another index of columns."""
    return replace(access, index=(*access.index[:COLUMN], column))
