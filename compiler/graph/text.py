"""Graphs as text and back: level 1 in MLIR's generic syntax, quantised tensors with types of the `quant` dialect.

%y = "graph.conv"(%x, %w) {strides = [1, 1], …, name = "conv1", nodes = ["Conv conv1"]}
    : (tensor<1x3x8x8x!quant.uniform<i8:f32, 0.05:-3>>, …) -> tensor<1x4x6x6x!quant.uniform<i8:f32, 0.1:5>>
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from tilewright.compiler.errors import CompileError, parse_nodes, print_nodes
from tilewright.compiler.graph.graph import CANONICAL, Graph, Operator, Quantization, TensorType, scales_of_parts
from tilewright.compiler.text.attributes import at_line, attribute, entry, require_attributes, strings
from tilewright.compiler.text.mlir import (
    ELEMENTS,
    NUMPY_NAMES,
    MlirBlock,
    MlirOperation,
    shaped_type,
    split_shaped_type,
)
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_number, print_operation
from tilewright.isa.program.stored_types import FLOATS

DIALECT = "graph."
ONNX = "onnx."
NETWORK = DIALECT + "network"
CONSTANT = DIALECT + "constant"
RETURN = DIALECT + "return"
LEFT_OUT = "none"
"""The type of an optional operand or result that is not there."""


def print_graph(graph: Graph) -> str:
    """The graph as text; `parse_graph` gives an equal graph back."""
    constants = [_print_constant(name, graph) for name in graph.constants]
    operators = [_print_operator(operator, graph) for operator in graph.operators]
    tensors = tuple(graph.outputs.values())
    types = tuple(_type_of(name, graph) for name in tensors)
    end = MlirOperation(RETURN, tensors, attributes={"outputs": tuple(graph.outputs)}, operand_types=types)
    arguments = tuple((name, print_type(graph.tensors[name])) for name in graph.inputs)
    block = MlirBlock(arguments, (*constants, *operators, end))
    return (
        print_operation(MlirOperation(NETWORK, (), (), {"name": graph.name, "opset": graph.opset}, region=block)) + "\n"
    )


def parse_graph(text: str) -> Graph:
    """The graph of a text; raises CompileError for a fault of the text."""
    whole = parse_program(text)
    if whole.name != NETWORK or whole.region is None:
        raise CompileError(fact=f"expected a {NETWORK!r} with a region, got {whole.name!r}")
    *inside, end = whole.region.operations or (whole,)
    if end.name != RETURN:
        raise CompileError(fact=f"expected {RETURN!r} at the end, got {end.name!r}")
    tensors = {name: parse_type(type_text) for name, type_text in whole.region.arguments}
    constants, operators = {}, []
    for operation in inside:
        with at_line(operation):
            for name, type_text in zip(operation.results, operation.result_types, strict=True):
                if name:
                    tensors[name] = parse_type(type_text)
            if operation.name == CONSTANT and len(operation.results) == 1:
                require_attributes(operation, "value")
                constants[operation.results[0]] = attribute(operation, "value", np.ndarray)
            else:
                operators.append(_parse_operator(operation, tensors))
    with at_line(end):
        require_attributes(end, "outputs")
        names = strings(end, "outputs")
        if len(set(names)) != len(end.operands) or len(names) > len(set(names)):
            raise CompileError(RETURN, f"{len(names)} names for {len(end.operands)} tensors", expected="one for each")
    return Graph(
        attribute(whole, "name", str),
        tuple(operators),
        tensors,
        constants,
        tuple(name for name, _ in whole.region.arguments),
        dict(zip(names, end.operands, strict=True)),
        attribute(whole, "opset", int),
    )


# -- operators ---------------------------------------------------------------------------------------------------------


def _print_constant(name: str, graph: Graph) -> MlirOperation:
    value = {"value": graph.constants[name]}
    return MlirOperation(CONSTANT, results=(name,), attributes=value, result_types=(_type_of(name, graph),))


def _print_operator(operator: Operator, graph: Graph) -> MlirOperation:
    name = operator.kind if operator.kind.startswith(ONNX) else DIALECT + operator.kind
    attributes = {**operator.attributes, "name": operator.name, "nodes": print_nodes(operator.nodes)}
    before, after = (tuple(_type_of(n, graph) for n in names) for names in (operator.inputs, operator.outputs))
    return MlirOperation(name, operator.inputs, operator.outputs, attributes, before, after)


def _parse_operator(operation: MlirOperation, tensors: dict[str, TensorType]) -> Operator:
    kind = operation.name.removeprefix(DIALECT)
    if kind not in CANONICAL and not kind.startswith(ONNX):
        raise CompileError(
            fact=f"unknown operator {operation.name!r}", expected=f"onnx.… or {DIALECT}{'|'.join(CANONICAL)}"
        )
    for name in operation.operands:
        if name and name not in tensors:
            raise CompileError(operation.name, f"operand {name!r} is read before it is made")
    attributes = {name: value for name, value in operation.attributes.items() if name not in ("name", "nodes")}
    if kind in CANONICAL:
        counts, required = CANONICAL[kind]
        if len(operation.operands) not in counts or len(operation.results) != 1:
            wanted = " or ".join(map(str, counts)) if len(counts) < 4 else f"{counts[0]} or more"
            raise CompileError(operation.name, expected=f"{wanted} operands and one result")
        for attribute_name in required:
            entry(attributes, attribute_name, object, operation.name)
    name, nodes = attribute(operation, "name", str), parse_nodes(strings(operation, "nodes"))
    return Operator(name, kind, operation.operands, operation.results, attributes, nodes)


# -- types -------------------------------------------------------------------------------------------------------------


def _type_of(name: str, graph: Graph) -> str:
    return print_type(graph.tensors[name]) if name else LEFT_OUT


def print_type(tensor_type: TensorType) -> str:
    """`tensor<1x3xf32>`, or with `!quant.uniform<storage:f32, scale:zero>` as its element.

    Scales for each index of axis 1 are `!quant.uniform<storage:f32:1, {scale:zero, …}>`, those for blocks of two along
    it `!quant.uniform<storage:f32:{0:1, 1:2}, {{scale:zero, …}, …}>`.
    """
    element = ELEMENTS[tensor_type.dtype]
    if tensor_type.quantization is not None:
        pairs = zip(tensor_type.quantization.scales, tensor_type.quantization.zero_points, strict=True)
        entries = [f"{print_number(scale)}:{zero}" for scale, zero in pairs]
        storage = f"u{element.removeprefix('ui')}" if element.startswith("ui") else element
        element = f"!quant.uniform<{storage}:f32{_print_scales(tensor_type.quantization, tensor_type.shape, entries)}>"
    return shaped_type("tensor", tensor_type.shape, element)


def _print_scales(quantization: Quantization, shape: tuple[int, ...], entries: list[str]) -> str:
    if quantization.axis is None:
        return f", {entries[0]}"
    if not quantization.block:
        return f":{quantization.axis}, {{{', '.join(entries)}}}"
    box = scales_of_parts(quantization, shape).box
    sizes = ", ".join(f"{axis}:{size}" for axis, size in enumerate(box))
    for size, in_box in reversed(list(zip(shape, box, strict=True))):
        count = -(-size // in_box)
        groups = [entries[first : first + count] for first in range(0, len(entries), count)]
        entries = [f"{{{', '.join(group)}}}" for group in groups]
    return f":{{{sizes}}}, {entries[0]}"


_QUANTIZED = re.compile(r"!quant\.uniform<([iu]\d+|f\dE\w+):f32(?::(\d+)|:\{([\d:, ]*)\})?,\s*([^<>]*)>")

_FLOATS: Mapping[str, str] = {ELEMENTS[name]: name for name in FLOATS}
"""Floats that a quantised tensor may hold, by their names in MLIR."""


def parse_type(text: str) -> TensorType:
    """The inverse of `print_type`; raises CompileError for any other text."""
    _, shape, element = split_shaped_type(text)
    match = _QUANTIZED.fullmatch(element)
    if match is None:
        if element not in NUMPY_NAMES:
            raise CompileError(fact=f"{text!r} is not a type of level 1: expected one of {', '.join(NUMPY_NAMES)}")
        return TensorType(NUMPY_NAMES[element], shape)
    if match[1] not in _FLOATS and match[1].startswith("f"):
        raise CompileError(fact=f"{text!r} is not a type of level 1: expected integers or {', '.join(_FLOATS)}")
    dtype = _FLOATS.get(match[1]) or f"{'uint' if match[1][0] == 'u' else 'int'}{match[1][1:]}"
    try:
        axis, block = None if match[2] is None else int(match[2]), 0
        if match[3] is not None:
            sizes = [int(entry.split(":")[1]) for entry in match[3].split(",")]
            block = max(sizes)
            axis = sizes.index(block)
        pairs = [pair.split(":") for pair in re.sub("[{}]", "", match[4]).split(",")]
        scales, zeros = tuple(float(scale) for scale, _ in pairs), tuple(int(zero) for _, zero in pairs)
    except (ValueError, IndexError):
        raise CompileError(repr(text), expected="scale:zero_point pairs of numbers") from None
    return TensorType(dtype, shape, Quantization(scales, zeros, axis, block))
