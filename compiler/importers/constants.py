"""Evaluates once, when a model is read, what depends on constants only: it would be computed again in every run.

Quantised constants stay quantised. A DequantizeLinear of stored integers, and what only orders or shapes its result, is
left for its reader, which may need the integers; what computes anything of it gives a float constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, Operator, TensorType, spread_scales
from tilewright.compiler.graph.interpreter import quantization_of, run_onnx_quantizer
from tilewright.compiler.graph.reference import evaluate_onnx_operator
from tilewright.compiler.importers.control_flow import GRAPHS, reads
from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN, check_node
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import SHORT, STORED_TYPES

Values = NDArray[Any]

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
"""Operators whose results vary even if their operands are constant."""

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")

STORED = tuple(name for name in STORED_TYPES if name not in SHORT)
"""Element types of integers for which numpy has a type of its own."""

PLAIN = (*STORED, *SMALL_FLOATS, "bool", "int64", "uint32", "uint64", "float16", "float32", "float64")
"""Element types of results that become constants."""

ORDERING = ("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators after which quantised integers are the same integers."""

CONSTANT, SHAPE = "Constant", "Shape"

NUMBERS = (
    *(onnx.AttributeProto.TENSOR, onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS),
    *(onnx.AttributeProto.INT, onnx.AttributeProto.INTS),
)
"""What a Constant may hold."""

Named = Sequence[tuple[str, onnx.NodeProto]]
ReadAttributes = Callable[[onnx.NodeProto], Mapping[str, Attribute]]


def evaluate_constants(
    model: onnx.ModelProto, named: Named, types: Mapping[str, TensorType], opset: int, attributes: ReadAttributes
) -> bool:
    """Take out the nodes that compute constants, which become initialisers; whether there were any.

    `named` are its nodes with their names, which they keep; `types` those of its tensors that are known. A node stays
    where the onnx package's evaluator does not know it, or gives another type than was inferred.
    """
    known = _Constants(model, opset, attributes)
    is_gone = [known.evaluate(name, node, types) for name, node in named]
    if not any(is_gone):
        return False
    for node, (name, _) in zip(model.graph.node, named, strict=True):
        node.name = name
    left = [node for node, gone in zip(model.graph.node, is_gone, strict=True) if not gone]
    read = {name for node in left for name in reads(node)} | {value.name for value in model.graph.output}
    del model.graph.node[:]
    model.graph.node.extend(left)
    new = {name: value for name, value in known.results.items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in new.items())
    return True


def follows_from_operands(node: onnx.NodeProto) -> bool:
    """Whether a node's results follow from its operands: they are not drawn, and it has no graph that reads others."""
    return node.op_type not in RANDOM and not any(attribute.type in GRAPHS for attribute in node.attribute)


class _Constants:
    """Constant tensors: those of the file, those that stay nodes, and the `results` of nodes that are gone."""

    def __init__(self, model: onnx.ModelProto, opset: int, attributes: ReadAttributes) -> None:
        self._opset = opset
        self._attributes = attributes
        self._stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._nodes: dict[str, tuple[Operator, onnx.NodeProto]] = {}  # that give a constant and stay
        self._dequantized: set[str] = set()
        self._values: dict[str, Values] = {}
        self.results: dict[str, Values] = {}

    def evaluate(self, name: str, node: onnx.NodeProto, types: Mapping[str, TensorType]) -> bool:
        """Whether a node is gone; constants before it are known."""
        outputs = [output for output in node.output if output]
        if not outputs or any(output not in types for output in outputs):
            return False
        if not (self._is_shape(node, types) or self._is_constant(node)):
            return False
        try:
            check_node(name, node, self._opset)
            operator = Operator(
                name, f"onnx.{node.op_type}", tuple(node.input), tuple(node.output), self._attributes(node)
            )
            if self._stays(node):
                self._nodes |= dict.fromkeys(outputs, (operator, node))
                return False
            values = (
                {outputs[0]: _shape(operator, types)} if self._is_shape(node, types) else self._run(operator, types)
            )
        except CompileError:
            return False
        if not all(_is_of(value, types[output]) for output, value in values.items()):
            return False
        self._values |= values
        self.results |= values
        return True

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        if node.domain not in NAMES_OF_DEFAULT_DOMAIN or not follows_from_operands(node):
            return False
        if node.op_type == CONSTANT:
            return all(attribute.type in NUMBERS for attribute in node.attribute)
        known = (self._stored, self._nodes, self._values)
        return all(any(name in each for each in known) for name in node.input if name)

    def _is_shape(self, node: onnx.NodeProto, types: Mapping[str, TensorType]) -> bool:
        """Whether a node asks for a shape that is known, whatever has it."""
        return node.op_type == SHAPE and node.domain in NAMES_OF_DEFAULT_DOMAIN and node.input[0] in types

    def _stays(self, node: onnx.NodeProto) -> bool:
        """Whether a node's result is a constant that its readers see through it."""
        if node.op_type == CONSTANT:
            return True
        stays = node.op_type == "DequantizeLinear" or (node.op_type in ORDERING and node.input[0] in self._dequantized)
        if stays:
            self._dequantized.update(node.output)
        return stays

    def _value(self, name: str, types: Mapping[str, TensorType]) -> Values:
        if name not in self._values:
            if name in self._stored:
                self._values[name] = _stored_value(self._stored[name])
            else:
                operator, _ = self._nodes[name]
                self._values |= self._run(operator, types)
        return self._values[name]

    def _run(self, operator: Operator, types: Mapping[str, TensorType]) -> dict[str, Values]:
        """The results of a node; raises CompileError where it cannot be evaluated."""
        operands = [self._value(name, types) if name else None for name in operator.inputs]
        kind = operator.kind.removeprefix("onnx.")
        if kind == "QuantizeLinear" and types[operator.outputs[0]].dtype in SMALL_FLOATS:
            found = [_small_floats(operator, operands, types[operator.outputs[0]])]
        elif kind in QUANTIZERS:
            found = [_quantizer(operator, operands, types[operator.outputs[0]])]
        else:
            found = evaluate_onnx_operator(operator, operands, self._opset)
        return {name: value for name, value in zip(operator.outputs, found, strict=False) if name}


def _shape(operator: Operator, types: Mapping[str, TensorType]) -> Values:
    first, last = operator.attributes.get("start", 0), operator.attributes.get("end")
    return np.array(types[operator.inputs[0]].shape, np.int64)[first:last]


def _stored_value(tensor: onnx.TensorProto) -> Values:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError) as error:
        raise CompileError(fact=f"initialiser {tensor.name!r} is damaged") from error


def _quantizer(operator: Operator, operands: Sequence[Values | None], result: TensorType) -> Values:
    """QuantizeLinear or DequantizeLinear of a constant; raises CompileError for other integers than STORED."""
    value, scale, *rest = (operand for operand in operands if operand is not None)
    integers = result.dtype if operator.kind == "onnx.QuantizeLinear" else value.dtype.name
    if integers not in STORED or not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise CompileError(operator, f"its integers are {integers}, or its scale is no positive number")
    found = run_onnx_quantizer(operator, [value, scale, *rest], result)
    return found.astype(result.dtype)


def _small_floats(operator: Operator, operands: Sequence[Values | None], result: TensorType) -> Values:
    """QuantizeLinear of a constant to floats of few bits, saturated; raises CompileError for what is not read."""
    value, scale, *rest = (operand for operand in operands if operand is not None)
    is_plain = operator.attributes.get("saturate", 1) == 1 and not any(np.any(zero.astype(np.float32)) for zero in rest)
    scales = scale.astype(np.float32)
    if not is_plain or not np.all(np.isfinite(scales) & (scales > 0)) or not np.all(np.isfinite(value)):
        raise CompileError(operator, "it does not saturate, has a zero point, or what is no number")
    axis = operator.attributes.get("axis", 1) % max(1, value.ndim)
    meant = quantization_of(scales, np.zeros(scales.shape), axis, operator.attributes.get("block_size", 0))
    spread, _ = spread_scales(meant, value.shape)
    element = SMALL_FLOATS[result.dtype]
    return element.values(element.nearest(value.astype(np.float32) / spread.astype(np.float32)))


def _is_of(value: Values, known: TensorType) -> bool:
    return value.dtype.name == known.dtype and value.shape == known.shape and known.dtype in PLAIN
