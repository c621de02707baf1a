"""What is refused in a model before anything of it is computed: what asks for too much, does harm, or is damaged.

A few bytes of a model can ask for any number of nodes, by functions that call functions, and of elements, by sizes.
What it asks for follows from its nodes and shapes alone. Some nodes end the process when the onnx package infers their
shapes. Every tensor that a node reads must come from somewhere before, and constants must be numbers: the package's
checker finds some of this too; here each fault names the node, the tensor and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tilewright.compiler.errors import CompileError, DamagedModel, NodeName, describe
from tilewright.isa.machine.memory import BYTE_BITS
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import STORED_TYPES

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


# -- nodes that end the process ----------------------------------------------------------------------------------------


def require_harmless(model: onnx.ModelProto, name: str) -> None:
    """Raises DamagedModel for a node, in a subgraph or a function too, that the onnx package does not survive.

    Split with another number of `num_outputs` than of results: its shape inference writes beyond a list, or fills the
    memory with sizes (seen in onnx 1.23).
    """
    for node in _nodes((*model.graph.node, *(node for function in model.functions for node in function.node))):
        wanted = [attribute.i for attribute in node.attribute if attribute.name == "num_outputs"]
        if node.op_type == "Split" and any(count != len(node.output) for count in wanted):
            fact = f"num_outputs = {wanted[0]} for {len(node.output)} results"
            place = describe(NodeName(node.name, node.op_type)) if node.name else f"{name}: a Split"
            error = DamagedModel(place, fact, expected="as many of both")
            error.nodes = (node.name,)
            raise error


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These nodes and those of their subgraphs, however deep."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                left.extend(graph.node)


# -- what nodes read ---------------------------------------------------------------------------------------------------


SMALL_FLOATS_BY_NAME = {each.onnx_name: each for each in SMALL_FLOATS.values()}

FLOATS = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.FLOAT8E8M0),
    *(TensorProto.DataType.Value(name.upper()) for name in SMALL_FLOATS_BY_NAME),
)

READS_NUMBERS = frozenset(
    {"BatchNormalization", "Conv", "ConvTranspose", "DequantizeLinear", "Gemm", "MatMul", "QuantizeLinear"}
)
"""Operators whose constants must be finite; elsewhere an infinite one may be a limit or a mask."""


def check_links(model: onnx.ModelProto, name: str) -> None:
    """Raise DamagedModel for a tensor that nothing makes, nodes in a cycle or out of order, and NaN in constants."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    known = {value.name for value in graph.input} | set(constants) | {t.values.name for t in graph.sparse_initializer}
    producers = {output: node for node in graph.node for output in node.output if output}
    checked: set[tuple[str, bool]] = set()  # constants, and whether they must be finite
    for node in graph.node:
        reads_numbers = node.op_type in READS_NUMBERS
        for tensor in filter(None, node.input):
            if tensor in known:
                if tensor in constants and (tensor, reads_numbers) not in checked:
                    checked.add((tensor, reads_numbers))
                    _check_numbers(constants[tensor], node, name)
                    _check_codes(constants[tensor], node, name)
                continue
            reads = f"{_describe(node)} reads {tensor!r}"
            if tensor not in producers:
                fact = f"{reads}, which no node, input or initializer gives"
                raise DamagedModel(name, fact, remedy="export the model with its weights")
            later = _describe(producers[tensor])
            if _depends_on(producers[tensor], node, producers):
                fact = f"{reads}, the result of {later}, which needs this node's: a cycle"
                raise DamagedModel(name, fact, remedy="export it anew")
            fact = f"{reads}, the result of {later}, which comes later"
            raise DamagedModel(name, fact, remedy="sort the nodes topologically")
        known.update(filter(None, node.output))


def _check_numbers(tensor: TensorProto, node: onnx.NodeProto, name: str) -> None:
    if tensor.data_type not in FLOATS or tensor.data_location == TensorProto.EXTERNAL:
        return
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return  # its size and its data differ: the checker says so
    is_bad = np.isnan(values) if node.op_type not in READS_NUMBERS else ~np.isfinite(values)
    if is_bad.any():
        raise DamagedModel(
            name,
            f"{_describe(node)} reads {tensor.name!r}, which holds NaN or infinity in {int(is_bad.sum())} of "
            f"{values.size} places",
            remedy="train or export the model anew",
        )


def _check_codes(tensor: TensorProto, node: onnx.NodeProto, name: str) -> None:
    """Integers are such that their type holds; elements of less than a byte share bytes, as many as they need."""
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_location == TensorProto.EXTERNAL:
        return  # the checker says so
    stored = TensorProto.DataType.Name(tensor.data_type).lower()
    small = SMALL_FLOATS_BY_NAME.get(stored)
    if stored not in STORED_TYPES and small is None:
        return
    reads = f"{_describe(node)} reads {tensor.name!r}"
    bits = STORED_TYPES[stored].values.bits if small is None else small.bits
    if bits < BYTE_BITS:
        _check_packed(tensor, stored, bits, reads, name)
        return
    low, high = STORED_TYPES[stored].limits if small is None else (0, (1 << bits) - 1)
    if wrong := [value for value in tensor.int32_data if not low <= value <= high]:
        raise DamagedModel(name, f"{reads}, {stored} that holds {wrong[0]}", expected=f"{low} to {high}")


def _check_packed(tensor: TensorProto, stored: str, bits: int, reads: str, name: str) -> None:
    in_a_byte = BYTE_BITS // bits
    count = prod(tensor.dims)
    needed = -(-count // in_a_byte)
    held = tensor.raw_data if tensor.HasField("raw_data") else tensor.int32_data
    if len(held) != needed:
        fact = f"{reads}, which has {len(held)} bytes for {count} elements of {stored}"
        raise DamagedModel(name, fact, expected=f"{needed}, with {in_a_byte} elements in each")
    if wrong := [value for value in held if not 0 <= value < 1 << BYTE_BITS]:
        fact = f"{reads}, which has {wrong[0]} in place of a byte with {in_a_byte} elements of {stored}"
        raise DamagedModel(name, fact, expected=f"0 to {(1 << BYTE_BITS) - 1}")


def _depends_on(node: onnx.NodeProto, other: onnx.NodeProto, producers: dict[str, onnx.NodeProto]) -> bool:
    """Whether one node needs a result of another, directly or through others."""
    wanted, seen, pending = set(other.output), set(), list(node.input)
    while pending:
        tensor = pending.pop()
        if tensor in wanted:
            return True
        if tensor not in seen and tensor in producers:
            seen.add(tensor)
            pending += producers[tensor].input
    return False


def _describe(node: onnx.NodeProto) -> str:
    return describe(NodeName(node.name or next(iter(node.output), ""), node.op_type))
