"""Executes level 2 with numpy, exactly: what a network's nests compute, by definition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.evaluate import evaluate
from tilewright.compiler.nest.expressions import with_node
from tilewright.compiler.nest.host_values import from_host, to_host
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.nest.space import products_of
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTIONS, Op

Values = NDArray[np.int64]

EXACT_FLOAT_BITS = 53
"""float64 holds every integer of this many bits, so sums below it are exact in any order."""


def run_nests(program: NestProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The program's outputs as the host sees them, from its inputs as the host gives them."""
    buffers = run_nest_buffers(program, inputs)
    return {tensor.name: to_host(buffers[tensor.name], tensor) for tensor in program.outputs}


def run_nest_buffers(program: NestProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Values]:
    """The content of every buffer after the run; elements that no nest writes are 0."""
    buffers = {name: np.zeros(buffer.shape, np.int64) for name, buffer in program.buffers.items()}
    for tensor in program.inputs:
        buffers[tensor.name] = from_host(inputs[tensor.name], tensor).astype(np.int64)
    for buffer in program.buffers.values():
        for part in buffer.parts:
            values = buffers[part.tensor]
            region = tuple(slice(at, at + size) for at, size in zip(part.first, values.shape, strict=True))
            buffers[buffer.name][region] = values
    for nest in program.nests:
        run_nest(nest, {**program.constants, **buffers}, buffers[nest.result.tensor])
    return buffers


def run_nest(nest: Nest, tensors: Mapping[str, Values], result: Values) -> None:
    """Write a nest's part of its result buffer."""
    trips = [loop.trip for loop in nest.loops]
    reduce = [position for position, loop in enumerate(nest.loops) if loop.is_reduce]
    leaves = {name: gather(access, nest, tensors[access.tensor]) for name, access in nest.reads.items()}
    expr = nest.expr
    reduction = next((node for node in walk(expr) if node.op in REDUCTIONS), None)
    products = products_of(reduction.args[0]) if reduction is not None and reduction.op is Op.SUM else None
    if reduction is not None and products is not None:
        a, b = (leaves[arg.name] for arg in products.main.args)
        total = _contract(a, b, trips, reduce)
        for read, number in products.numbers:
            total = total + _contract(leaves[read], np.full((1,) * len(trips), number, np.int64), trips, reduce)
        leaves["sum"] = total
        expr = with_node(expr, reduction, Expr(Op.SOURCE, reduction.range, name="sum"))
    # Lanes come last: here each has length 1. The access of a table leaves its entries as a dimension before them.
    lanes = {(name, ""): values[..., None] for name, values in leaves.items()}
    values = np.asarray(evaluate(expr, lanes, trips, reduce))
    shape = [1 if loop.is_reduce else loop.trip for loop in nest.loops]
    result[_index_arrays(nest.result, nest)] = np.broadcast_to(values, (*shape, 1))[..., 0]


def gather(access: Access, nest: Nest, tensor: Values) -> Values:
    """The value that a read has in every iteration: one axis for each loop, of length 1 where it does not matter."""
    index = _index_arrays(access, nest)
    if access.outside is None:
        return tensor[index].astype(np.int64)
    is_inside = np.ones((1,) * len(nest.loops), bool)
    clipped = []
    for position, size in zip(index, tensor.shape, strict=True):
        is_inside = is_inside & (position >= 0) & (position < size)
        clipped.append(np.clip(position, 0, size - 1))
    return np.where(is_inside, tensor[tuple(clipped)], np.int64(access.outside))


def _index_arrays(access: Access, nest: Nest) -> tuple[NDArray[np.int64], ...]:
    """The index in each dimension, as arrays with one axis for each loop that broadcast against each other."""
    arrays = []
    for affine in access.index:
        total = np.full((1,) * len(nest.loops), affine.constant, np.int64)
        steps = dict(affine.terms)
        for axis, loop in enumerate(nest.loops):
            if loop.name in steps:
                shape = [1] * len(nest.loops)
                shape[axis] = loop.trip
                total = total + (np.arange(loop.trip) * steps[loop.name]).reshape(shape)
        arrays.append(total)
    return tuple(arrays)


def _contract(a: Values, b: Values, trips: list[int], reduce: list[int]) -> Values:
    """The sum of a · b over the reduce axes as one matrix product; exact, or in integers where float64 is not."""
    largest = int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) * math.prod(trips[axis] for axis in reduce)
    repeats = math.prod(trips[axis] for axis in reduce if a.shape[axis] == b.shape[axis] == 1)
    if largest.bit_length() > EXACT_FLOAT_BITS:
        return (a * b).sum(axis=tuple(reduce), keepdims=True) * repeats
    kept = [axis for axis in range(len(trips)) if axis not in reduce and max(a.shape[axis], b.shape[axis]) > 1]
    (a_values, a_axes), (b_values, b_axes) = _squeezed(a), _squeezed(b)
    einsum: Any = np.einsum  # numpy's stubs do not know the form with lists of axes
    total = einsum(a_values, a_axes, b_values, b_axes, kept, optimize=True)
    shape = [1 if axis in reduce else max(sizes) for axis, sizes in enumerate(zip(a.shape, b.shape, strict=True))]
    return np.rint(total).astype(np.int64).reshape(shape) * repeats


def _squeezed(array: Values) -> tuple[NDArray[np.float64], list[int]]:
    """The array as float64 without axes of length 1, and the axes that are left."""
    axes = [axis for axis, size in enumerate(array.shape) if size > 1]
    return array.astype(np.float64).reshape([array.shape[axis] for axis in axes]), axes
