"""Averages without the array: a product by an identity matrix becomes a sum, where an instruction can sum.

Example, a global average of 7×7: as a product each of the 49 taps loads a tile of weights into the array for one vector
of the image; an instruction `y = sum(a)` streams 49 words. A machine without one has the product, with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.expressions import with_node
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.select.sum_parts import fits, in_parts
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine


def plain_sums(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program with each product by an identity matrix as a plain sum, where instructions compute it."""
    session = session or Session()
    selector, buffers = Selector(machine, program, session), dict(program.buffers)
    nests: list[Nest] = []
    for nest in program.nests:
        plain = _plain_sum(nest, selector)
        cover = None if plain is None else selector.cover_if_possible(plain)
        if plain is None or cover is None:
            nests.append(nest)
            continue
        parts = in_parts(plain, cover, replace(program, buffers=buffers), machine, session)
        if parts is not None:
            nests += parts.nests
            buffers |= parts.buffers
        else:
            nests.append(plain if fits(plain, cover, machine) else nest)
    return replace(program, nests=tuple(nests), buffers=buffers) if tuple(nests) != program.nests else program


def _plain_sum(nest: Nest, selector: Selector) -> Nest | None:
    """The nest as a plain sum; None if it has no identity matrix."""
    product = next((node for node in walk(nest.expr) if node.op is Op.SUM and node.args[0].op is Op.MUL), None)
    if product is None or any(factor.op is not Op.SOURCE for factor in product.args[0].args):
        return None
    factors = product.args[0].args
    for vector, weights in (factors, factors[::-1]):
        summed = _summed_loop(nest.reads[weights.name], nest, selector.program.constants)
        if summed and nest.reads[vector.name].index[CHANNEL].terms == ((summed, 1),):
            return _without(nest, product, vector, weights, summed)
    return None


def _without(nest: Nest, product: Expr, vector: Expr, weights: Expr, summed: str) -> Nest:
    """The nest with a plain sum of the vector in place of its product by an identity matrix."""
    access = nest.reads[vector.name]
    lane = nest.result.index[CHANNEL].terms[0][0]
    channels = Affine(((lane, 1),), access.index[CHANNEL].constant)
    moved = (access.index[BATCH], channels, access.index[ROW], access.index[COLUMN])
    reads = {name: read for name, read in nest.reads.items() if name != weights.name}
    return replace(
        nest,
        loops=tuple(loop for loop in nest.loops if loop.name != summed),
        reads={**reads, vector.name: replace(access, index=moved)},
        expr=with_node(nest.expr, product, replace(product, args=(vector,))),
    )


def _summed_loop(access: Access, nest: Nest, constants: Mapping[str, NDArray[Any]]) -> str:
    """The loop over summed channels if an access reads an identity matrix, whatever the taps; else nothing."""
    values = constants.get(access.tensor)
    lane = nest.result.index[CHANNEL].terms
    if values is None or not lane or access.outside != 0 or len(access.index) < 2 or not (values == 1).all():
        return ""
    outputs, band = access.index[:2]
    is_diagonal = outputs.terms == lane and len(band.terms) == 2 and band.terms[0] == (lane[0][0], -1)
    is_one_wide = values.shape[1] == 1 and band.constant == 0 and band.terms[-1][1] == 1
    return band.terms[1][0] if is_diagonal and is_one_wide else ""
