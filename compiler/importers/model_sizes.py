"""What a model asks for, from its nodes and shapes alone: nothing is computed before that is known to be little enough.

A few bytes of a model can ask for any number of nodes, by functions that call functions, and of elements, by sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import onnx

from tilewright.compiler.errors import CompileError, NodeName

MOST_NODES = 100_000
"""Nodes of a model, with those of its functions wherever they are called."""

MOST_NESTED = 30
"""Graphs or functions inside each other."""

MOST_ELEMENTS = 1 << 34
"""Elements of all tensors together; a large network on images of 1024 by 2048 pixels has a third of that."""

MOST_COMPUTED = 1 << 26
"""Elements of one tensor that follows from the inputs; an image of 4096 by 4096 pixels in three channels has less."""

MOST_FOLDED = 1 << 26
"""Elements of all tensors that follow from constants, beside four times the model's own constants."""

WITHOUT_DATA = ("Shape", "Size")
"""Operators whose results follow from the sizes of their operands."""

FunctionName = tuple[str, str, str]


def require_few_nodes(model: onnx.ModelProto, name: str) -> None:
    """Raise CompileError for functions that call themselves, and for more nodes or deeper nesting than there may be."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    known: dict[FunctionName, int] = {}

    def nodes_in(nodes: Iterable[onnx.NodeProto], above: tuple[FunctionName, ...], depth: int) -> int:
        if depth > MOST_NESTED:
            raise CompileError(name, f"has graphs or functions nested deeper than {MOST_NESTED}", remedy="flatten it")
        count = 0
        for node in nodes:
            count += 1 + called(node, above, depth)
            count += sum(nodes_in(graph.node, above, depth + 1) for graph in _graphs(node))
            if count > MOST_NODES:
                fact = f"has more than {MOST_NODES:,} nodes, with those of its functions"
                raise CompileError(name, fact, remedy="compile it in parts")
        return count

    def called(node: onnx.NodeProto, above: tuple[FunctionName, ...], depth: int) -> int:
        key = (node.domain, node.op_type, node.overload)
        if key not in functions:
            return 0
        if key in above:
            raise CompileError(name, f"function {node.op_type!r} calls itself", remedy="export the model anew")
        if key not in known:
            known[key] = nodes_in(functions[key].node, (*above, key), depth + 1)
        return known[key]

    nodes_in(model.graph.node, (), 0)
    for key, function in functions.items():
        if key not in known:
            nodes_in(function.node, (key,), 1)


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def require_small_tensors(model: onnx.ModelProto, name: str) -> None:
    """Raise CompileError for a model, its shapes inferred, that asks for too much.

    For tensors or folded constants that are too large together, and for one tensor that is too large by itself.
    """
    constants = {tensor.name: prod(tensor.dims) for tensor in model.graph.initializer}
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    elements = constants | {value.name: _elements(value) for value in values}
    total = 0
    for tensor, size in elements.items():
        total += size
        if total > MOST_ELEMENTS:
            raise CompileError(
                name,
                f"its tensors have {total:,} elements together, up to {tensor!r} with {size:,}",
                expected=f"at most {MOST_ELEMENTS:,}",
                remedy="Give its inputs smaller sizes, or compile it in parts",
            )
    _require_little_folding(model, elements, MOST_FOLDED + 4 * sum(constants.values()))


def _require_little_folding(model: onnx.ModelProto, elements: Mapping[str, int], most: int) -> None:
    constant = {tensor.name for tensor in model.graph.initializer}
    total = 0
    for node in model.graph.node:
        if node.op_type not in WITHOUT_DATA and not all(tensor in constant for tensor in node.input if tensor):
            _require_small_results(node, elements)
            continue
        constant.update(node.output)
        size = sum(elements.get(tensor, 0) for tensor in node.output)
        total += size
        if total > most:
            raise CompileError(
                NodeName(node.name or next(iter(node.output), ""), node.op_type),
                f"computes {size:,} elements from constants, {total:,} with those before it",
                expected=f"at most {most:,}",
                remedy="Make it an input, or let it be broadcast where it is read",
            )


def _require_small_results(node: onnx.NodeProto, elements: Mapping[str, int]) -> None:
    for tensor in node.output:
        size = elements.get(tensor, 0)
        if size > MOST_COMPUTED:
            raise CompileError(
                NodeName(node.name or tensor, node.op_type),
                f"computes {size:,} elements",
                expected=f"at most {MOST_COMPUTED:,} in a tensor",
                remedy="Give the model's inputs smaller sizes",
            )


def _elements(value: onnx.ValueInfoProto) -> int:
    """How many elements a tensor has; 1 for each size that is not known."""
    return prod(max(1, size.dim_value) for size in value.type.tensor_type.shape.dim)
