"""Operators that only move elements. The host's own runtime says where each goes: it is run once on their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.bundle.nodes.code import CNode, Code, Elements, ElementWalk, NoCode, NodeOperand, row_major
from tilewright.host.model import HostModel

MOST_PLACES = 1 << 16
"""Where each of so many elements comes from may be a table; of more, only where loops say it."""


def move(node: CNode, code: Code) -> list[str]:
    """Copy each result's elements from where the operator takes them."""
    computed = [operand for operand in node.inputs if operand is not None and operand.value is None]
    kinds = {operand.dtype for operand in (*computed, *node.outputs)}
    if len(kinds) > 1:
        raise NoCode(f"it is of {', '.join(sorted(kinds))}, or an operand that says how to move is not constant")
    sources = [node.required(position) for position in range(len(node.inputs) if node.op_type == "Concat" else 1)]
    ends = np.cumsum([0, *(source.elements for source in sources)])
    lines: list[str] = []
    for output, numbers in zip(node.outputs, _moved_numbers(node, sources, ends), strict=True):
        for source, (first, end) in zip(sources, pairwise(ends), strict=True):
            lines += _copy(code, output, source, numbers, int(first), int(end))
    return lines


def _moved_numbers(node: CNode, sources: Sequence[NodeOperand], ends: NDArray[Any]) -> list[NDArray[Any]]:
    """The results of the operator on the numbers 0, 1, … of its sources' elements, which are its first operands.

    What else it has says how they move. Raises NoCode where that is computed.
    """
    if ends[-1] == 0:
        raise NoCode("it moves nothing")
    given = {
        f"x{position}": np.arange(first, end, dtype=np.int64).reshape(source.shape)
        for position, (source, (first, end)) in enumerate(zip(sources, pairwise(ends), strict=True))
    }
    names, constants = list(given), []
    for position in range(len(sources), len(node.inputs)):
        values = node.constant(position, f"operand {position}, which says how to move,")
        names.append("" if values is None else f"x{position}")
        if values is not None:
            constants.append(onnx.numpy_helper.from_array(values, names[-1]))
    results = [f"y{position}" for position in range(len(node.outputs))]
    made = onnx.helper.make_node(node.op_type, names, results, **node.attributes)
    kind = onnx.TensorProto.INT64
    graph = onnx.helper.make_graph(
        [made],
        "moved",
        [onnx.helper.make_tensor_value_info(name, kind, array.shape) for name, array in given.items()],
        [onnx.helper.make_tensor_value_info(r, kind, o.shape) for r, o in zip(results, node.outputs, strict=True)],
        constants,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", node.opset)], ir_version=8)
    moved = HostModel(model.SerializeToString()).run(results, given)
    return [np.asarray(moved[name]).reshape(o.shape) for name, o in zip(results, node.outputs, strict=True)]


def _copy(code: Code, y: NodeOperand, x: NodeOperand, numbers: NDArray[Any], first: int, end: int) -> list[str]:
    """Loops that copy what of a result comes from one operand, whose elements have the numbers `first` to `end`."""
    is_of_it = (numbers >= first) & (numbers < end)
    if not is_of_it.any():
        return []
    taken, places = numbers[is_of_it] - first, np.flatnonzero(is_of_it)
    if is_of_it.all():
        found = _affine(taken.reshape(y.shape))
        if found is not None:
            return _loops(code, y.shape, ElementWalk(y, row_major(y.shape)), ElementWalk(x, found[1], found[0]))
    if taken.size == x.elements and np.unique(taken).size == taken.size:  # each element goes to one place
        goes = np.empty(x.elements, np.int64)
        goes[taken] = places
        found = _affine(goes.reshape(x.shape))
        if found is not None:
            return _loops(code, x.shape, ElementWalk(y, found[1], found[0]), ElementWalk(x, row_major(x.shape)))
    return _by_table(code, y, x, taken, places)


def _loops(code: Code, sizes: Sequence[int], y: ElementWalk, x: ElementWalk) -> list[str]:
    def body(at: Elements) -> list[str]:
        return [f"{at['y']} = {at['x']};"]

    return code.loops(sizes, {"y": y, "x": x}, body)


def _by_table(code: Code, y: NodeOperand, x: NodeOperand, taken: NDArray[Any], places: NDArray[Any]) -> list[str]:
    if taken.size > MOST_PLACES:
        raise NoCode(f"no loops say where its {taken.size:,} elements come from, and a table has {MOST_PLACES:,}")
    for operand in (y, x):
        code.use(operand)
    source = code.table("uint32_t", [f"{place}U" for place in taken])
    counter = code.variable("size_t", f"i{code.level}")
    is_all = bool((places == np.arange(places.size)).all())
    to = counter if is_all else f"{code.table('uint32_t', [f'{place}U' for place in places])}[{counter}]"
    return [
        f"for ({counter} = 0; {counter} < {taken.size}U; {counter}++) {{",
        f"    {y.name}[{to}] = {x.name}[{source}[{counter}]];",
        "}",
    ]


def _affine(numbers: NDArray[Any]) -> tuple[int, tuple[int, ...]] | None:
    """`first` and strides with which numbers are first + Σ stride · index; None without, or if one is negative."""
    first = int(numbers.reshape(-1)[0])
    steps = []
    for axis, size in enumerate(numbers.shape):
        second = tuple(int(at == axis) for at in range(numbers.ndim))
        steps.append(int(numbers[second]) - first if size > 1 else 0)
    made = first + sum(
        step * np.arange(size).reshape([-1 if at == axis else 1 for at in range(numbers.ndim)])
        for axis, (size, step) in enumerate(zip(numbers.shape, steps, strict=True))
    )
    return (first, tuple(steps)) if min(steps, default=0) >= 0 and np.array_equal(made + 0 * numbers, numbers) else None
