"""Averages without the array: a product with an identity matrix is a sum over the taps, where an instruction sums.

Example, a global average of 7×7: as a product each of the 49 taps loads a tile of weights into the array for one vector
of the image; an instruction `y = sum(a)` streams 49 words. A machine without one has the product, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.expressions import with_node
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.select.separate import fits_reduce_loops
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op


def sum_without_weights(program: NestProgram, cover: Callable[[Nest], Cover]) -> NestProgram:
    """The same program with each product by an identity matrix as a plain sum, where instructions compute it."""
    nests = tuple(_plain(nest, program.constants, cover) for nest in program.nests)
    return replace(program, nests=nests) if nests != program.nests else program


def _plain(nest: Nest, constants: Mapping[str, NDArray[Any]], cover: Callable[[Nest], Cover]) -> Nest:
    product = next((node for node in walk(nest.expr) if node.op is Op.SUM and node.args[0].op is Op.MUL), None)
    if product is None:
        return nest
    factors = product.args[0].args
    if any(factor.op is not Op.SOURCE for factor in factors):
        return nest
    for vector, weights in (factors, factors[::-1]):
        summed = _summed_loop(nest.reads[weights.name], nest, constants)
        channels = nest.reads[vector.name].index[1]
        if not summed or channels.terms != ((summed, 1),):
            continue
        lane = nest.result.index[1].terms[0][0]
        access = nest.reads[vector.name]
        moved = (access.index[0], Affine(((lane, 1),), channels.constant), *access.index[2:])
        reads = {name: read for name, read in nest.reads.items() if name != weights.name}
        plain = replace(
            nest,
            loops=tuple(loop for loop in nest.loops if loop.name != summed),
            reads={**reads, vector.name: replace(access, index=moved)},
            expr=with_node(nest.expr, product, replace(product, args=(vector,))),
        )
        try:
            return plain if fits_reduce_loops(cover(plain), plain) else nest
        except CompileError:
            return nest
    return nest


def _summed_loop(access: Access, nest: Nest, constants: Mapping[str, NDArray[Any]]) -> str:
    """The loop over summed channels if an access reads an identity matrix, whatever the taps; else nothing."""
    values = constants.get(access.tensor)
    if values is None or access.outside != 0 or len(access.index) < 2 or not (values == 1).all():
        return ""
    lane = nest.result.index[1].terms
    first, band = access.index[:2]
    is_diagonal = first.terms == lane and len(band.terms) == 2 and band.terms[0] == (lane[0][0], -1)
    is_one_wide = values.shape[1] == 1 and band.constant == 0 and band.terms[-1][1] == 1
    return band.terms[1][0] if is_diagonal and is_one_wide else ""
