"""Expressions as int64 arrays, for the compiler's interpreters: how their operands lie in arrays, and contractions.

What an operation makes of its arguments' values is in its row, which the simulator reads, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.arrays import array_value, reduce_array, repeated
from tilewright.isa.language.expressions import Expr, first_index
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op

Values = NDArray[np.int64]


def evaluate(
    expr: Expr,
    leaves: Mapping[tuple[str, str], Values],
    trips: Sequence[int],
    reduce: Sequence[int],
    blocks: Collection[str] = (),
) -> Values:
    """The value of `expr` in every iteration: one axis for each loop, then the lanes; reduced loops have length 1.

    `leaves` maps (operand, field) and (immediate, "") to arrays with one axis for each loop, of length 1 where the
    value does not depend on the loop, then their elements: [..., lanes], for `dot` [..., K] and [..., K, lanes],
    for a table [..., entries, lanes], for an operand in `blocks` [..., words, lanes].
    `reduce` are the positions of the reduce loops.
    """

    known: dict[int, Values] = {}  # by node: an expression may name one in several places

    def value(node: Expr) -> Values:
        if id(node) not in known:
            known[id(node)] = computed(node)
        return known[id(node)]

    def computed(node: Expr) -> Values:
        match node.op:
            case Op.CONST:
                return np.full((1,) * (len(trips) + 1), node.value, np.int64)
            case Op.SOURCE if node.name in blocks:
                return leaves[node.name, node.field][..., node.value, :]
            case Op.SOURCE | Op.IMMEDIATE:
                return leaves[node.name, node.field]
            case Op.SUM if node.args[0].op is Op.DOT:
                return _sum_of_dots(value(node.args[0].args[0]), value(node.args[0].args[1]), trips, reduce)
            case Op.DOT:
                return _sum_of_dots(value(node.args[0]), value(node.args[1]), trips, ())
            case Op.TRANSPOSE:
                return np.swapaxes(value(node.args[0]), -1, -2)
            case Op.LUT:
                return _looked_up(leaves[node.name, ""], value(node.args[0]), node)
            case _ if node.op in REDUCTIONS:
                return _reduced(node.op, value(node.args[0]), trips, reduce)
            case _ if node.op in ACROSS_LANES:
                return _across_lanes(node, value(node.args[0]))
            case _:
                return np.asarray(array_value(node, *map(value, node.args)), np.int64)

    return value(expr)


def _looked_up(table: Values, index: Values, node: Expr) -> Values:
    """The entry of each lane's table; the first is for the least value of the index, or of integers of its width."""
    entries = table.shape[-2]
    least = first_index(node.args[0], entries)
    shape = np.broadcast_shapes(table.shape[:-2], index.shape[:-1])
    lanes = max(table.shape[-1], index.shape[-1])
    entry = np.broadcast_to(index - least, (*shape, lanes))[..., None, :]
    return np.take_along_axis(np.broadcast_to(table, (*shape, entries, lanes)), entry, axis=-2)[..., 0, :]


def _reduced(op: Op, values: Values, trips: Sequence[int], reduce: Sequence[int]) -> Values:
    """A reduction over the reduce loops; a value that does not depend on a loop occurs once per iteration of it."""
    axes = tuple(reduce)
    absent = math.prod(trips[axis] for axis in axes if values.shape[axis] == 1)
    return repeated(op, reduce_array(op, values, axes), absent)


def _across_lanes(node: Expr, values: Values) -> Values:
    """A reduction over the lanes of words; a value that is the same in all of them is there once."""
    return repeated(node.op, reduce_array(node.op, values, -1), node.value // values.shape[-1])


def _sum_of_dots(a: Values, w: Values, trips: Sequence[int], reduce: Sequence[int]) -> Values:
    """`sum(dot(a, w))` without the array of all products: one contraction over the reduce loops and K.

    Exact: products and their sums stay far below 2**53, the integers that float64 holds.
    """
    loops = len(trips)
    in_a = [axis for axis in range(loops) if a.shape[axis] > 1]
    in_w = [axis for axis in range(loops) if w.shape[axis] > 1]
    kept = [axis for axis in sorted({*in_a, *in_w}) if axis not in reduce]
    inner, lanes = loops, loops + 1
    summed = np.einsum(
        a.reshape([a.shape[axis] for axis in in_a] + [a.shape[-1]]).astype(np.float64),
        [*in_a, inner],
        w.reshape([w.shape[axis] for axis in in_w] + list(w.shape[-2:])).astype(np.float64),
        [*in_w, inner, lanes],
        [*kept, lanes],
        optimize=True,
    )
    repeats = 1
    for axis in reduce:
        if axis not in in_a and axis not in in_w:
            repeats *= trips[axis]
    shape = [trips[axis] if axis in kept else 1 for axis in range(loops)]
    return summed.reshape([*shape, w.shape[-1]]).astype(np.int64) * repeats
