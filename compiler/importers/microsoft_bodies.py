"""Operators that ONNX Runtime adds to ONNX's, each as nodes of ONNX's own: one table for shapes, machine and quantiser.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.graph.graph import Attribute

Rank = Callable[[str], int | None]
"""A tensor's number of dimensions; None where it is not known."""

Setting = int | float | str | Sequence[int] | Sequence[float]
"""What an attribute holds."""

AXES_ARE_OPERANDS = 18
"""From this opset on, the axes of ReduceMean are an operand; before, an attribute."""

GELU_IS_THERE = 20
"""The first opset with Gelu."""


class Body:
    """The nodes that compute an operator, so far. `op` adds one and returns its result's name."""

    def __init__(self, node: onnx.NodeProto, opset: int, rank: Rank) -> None:
        self.node = node
        self.opset = opset
        self.rank = rank
        self.nodes: list[onnx.NodeProto] = []
        self._attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        self._counter = 0

    def input(self, position: int) -> str:
        """The operand at a position; empty where it is left out."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def output(self, position: int) -> str:
        return self.node.output[position] if position < len(self.node.output) else ""

    def number(self, name: str, default: float) -> float:
        return float(self._attributes.pop(name, default))

    def integer(self, name: str, default: int) -> int:
        return int(self._attributes.pop(name, default))

    def text(self, name: str) -> str:
        return bytes(self._attributes.pop(name, b"")).decode()

    def numbers(self, name: str) -> list[float]:
        return list(map(float, self._attributes.pop(name, ())))

    def rest(self, *names: str) -> dict[str, Setting]:
        """The attributes of these names that the node gives, to be handed on."""
        return {name: self._attributes.pop(name) for name in names if name in self._attributes}

    def op(
        self, kind: str, *inputs: str, to: str = "", given: Mapping[str, Setting] | None = None, **attributes: Setting
    ) -> str:
        """Add a node with the attributes `given` and others; its result has the name `to`, or one of its own."""
        name = to or self._fresh(kind)
        settings: dict[str, Attribute] = {**(given or {}), **attributes}
        self.nodes.append(helper.make_node(kind, inputs, [name], **settings))
        return name

    def constant(self, values: float | Sequence[int]) -> str:
        """A number as a float32, or a list of indices."""
        dtype = np.float32 if isinstance(values, float) else np.int64
        name = self._fresh("constant")
        value = numpy_helper.from_array(np.array(values, dtype), name)
        self.nodes.append(helper.make_node("Constant", (), [name], value=value))
        return name

    def require_no_more(self) -> None:
        """Raise CompileError for an attribute that no one read."""
        for name in self._attributes:
            raise self.fault(f"attribute {name!r} has no lowering", "none of this name")

    def fault(self, fact: str, expected: str) -> CompileError:
        return CompileError(NodeName(self.node.name, self.node.op_type), fact, expected=expected)

    def _fresh(self, kind: str) -> str:
        self._counter += 1
        return f"{kind}_{self._counter}"


Write = Callable[[Body], None]


def body_of(node: onnx.NodeProto, opset: int, rank: Rank) -> list[onnx.NodeProto]:
    """The nodes that compute a node of one of BODIES, in an opset; raises CompileError for a form that has none.

    Its operands and results keep their names. Those between are numbered, and unique among the nodes.
    """
    body = Body(node, opset, rank)
    BODIES[node.op_type](body)
    body.require_no_more()
    return body.nodes


# -- quantised ---------------------------------------------------------------------------------------------------------


def _dequantized(body: Body, first: int) -> str:
    """The operand at a position, with the scale and zero point that follow it."""
    integers, scale, zero = (body.input(first + offset) for offset in range(3))
    if not integers or not scale:
        raise body.fault("an operand or a scale is left out", "all of them")
    return body.op("DequantizeLinear", *filter(None, (integers, scale, zero)))


def _quantize(body: Body, real: str, scale: int, source_zero: int = 2) -> None:
    """The result, with the scale at a position and the zero point after it: 0 of the operands' type if left out."""
    if not body.input(scale):
        raise body.fault("the scale of its result is left out", "it")
    zero, like = body.input(scale + 1), body.input(source_zero)
    if not zero and not like:
        raise body.fault("all zero points are left out", "one")
    body.op("QuantizeLinear", real, body.input(scale), zero or body.op("Sub", like, like), to=body.output(0))


def _quantized_function(kind: str, attributes: Mapping[str, float], body: Body) -> None:
    settings = {name: body.number(name, default) for name, default in attributes.items()}
    _quantize(body, body.op(kind, _dequantized(body, 0), given=settings), 3)


def _quantized_binary(kind: str, body: Body) -> None:
    _quantize(body, body.op(kind, _dequantized(body, 0), _dequantized(body, 3)), 6)


def _quantized_softmax(body: Body) -> None:
    """Before opset 13, along an axis and all dimensions after it."""
    x, axis = _dequantized(body, 0), body.rest("axis")
    if body.integer("opset", 13) >= 13:
        _quantize(body, body.op("Softmax", x, given={"axis": -1, **axis}), 3)
        return
    flat = body.op("Softmax", body.op("Flatten", x, given={"axis": 1, **axis}), axis=-1)
    _quantize(body, body.op("Reshape", flat, body.op("Shape", x)), 3)


def _quantized_mean(body: Body) -> None:
    axes, keepdims = body.rest("axes").get("axes", ()), body.integer("keepdims", 1)
    _quantize(body, _mean(body, _dequantized(body, 0), axes, keepdims), 3)  # type: ignore[arg-type]


def _quantized_where(body: Body) -> None:
    chosen = _dequantized(body, 1), _dequantized(body, 4)
    _quantize(body, body.op("Where", body.input(0), *chosen), 7)


def _mean(body: Body, x: str, axes: Sequence[int], keepdims: int) -> str:
    if body.opset >= AXES_ARE_OPERANDS:
        return body.op("ReduceMean", x, body.constant(list(axes)), keepdims=keepdims)
    return body.op("ReduceMean", x, axes=list(axes), keepdims=keepdims)


# -- functions ---------------------------------------------------------------------------------------------------------


def _gelu(is_approximate: bool, has_bias: bool, body: Body) -> None:
    x = body.input(0)
    if has_bias and body.input(1):
        x = body.op("Add", x, body.input(1))
    if body.opset >= GELU_IS_THERE:
        body.op("Gelu", x, to=body.output(0), approximate="tanh" if is_approximate else "none")
        return
    if is_approximate:
        cube = body.op("Mul", body.op("Mul", body.op("Mul", x, x), x), body.constant(0.044715))
        inner = body.op("Tanh", body.op("Mul", body.op("Add", x, cube), body.constant(sqrt(2 / np.pi))))
    else:
        inner = body.op("Erf", body.op("Div", x, body.constant(sqrt(2))))
    half = body.op("Mul", x, body.constant(0.5))
    body.op("Mul", half, body.op("Add", inner, body.constant(1.0)), to=body.output(0))


def _quick_gelu(body: Body) -> None:
    x = body.input(0)
    steep = body.op("Mul", x, body.constant(body.number("alpha", 1.702)))
    body.op("Mul", x, body.op("Sigmoid", steep), to=body.output(0))


# -- normalisation -----------------------------------------------------------------------------------------------------


def _skip_normalization(has_mean: bool, body: Body) -> None:
    """The sum of two tensors, and perhaps a bias, normalised along the last dimension."""
    scale, offset = body.input(2), body.input(3) if has_mean else ""
    bias = body.input(4 if has_mean else 3)
    if body.output(1) or body.output(2):
        raise body.fault("its mean or its deviation is read, too", "its first result, and the sum")
    total = body.op("Add", body.input(0), body.input(1), to="" if bias else body.output(3))
    if bias:
        total = body.op("Add", total, bias, to=body.output(3))
    epsilon = body.number("epsilon", 1e-12)
    if has_mean:
        operands = (total, scale, offset) if offset else (total, scale)
        body.op("LayerNormalization", *operands, to=body.output(0), axis=-1, epsilon=epsilon)
        return
    root = body.op("Sqrt", body.op("Add", _mean(body, body.op("Mul", total, total), [-1], 1), body.constant(epsilon)))
    body.op("Mul", body.op("Div", total, root), scale, to=body.output(0))


# -- products ----------------------------------------------------------------------------------------------------------


def _fused_matmul(body: Body) -> None:
    """alpha · A · B, each perhaps transposed."""
    alpha = body.number("alpha", 1.0)
    if body.integer("transBatchA", 0) or body.integer("transBatchB", 0):
        raise body.fault("transBatchA or transBatchB is 1", "0: dimensions of the batch first")
    turned = bool(body.integer("transA", 0)), bool(body.integer("transB", 0))
    operands = [_turned(body, body.input(at)) if turned[at] else body.input(at) for at in range(2)]
    product = body.op("MatMul", *operands, to="" if alpha != 1.0 else body.output(0))
    if alpha != 1.0:
        body.op("Mul", product, body.constant(alpha), to=body.output(0))


def _turned(body: Body, name: str) -> str:
    """With the last two dimensions exchanged. An Einsum needs no number of dimensions."""
    rank = body.rank(name)
    if rank is None:
        return body.op("Einsum", name, equation="...ij->...ji")
    if rank < 2:
        raise body.fault(f"it transposes a tensor of {rank} dimensions", "two or more")
    return body.op("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])


def _fused_conv(body: Body) -> None:
    """A convolution, perhaps a sum, and an activation function."""
    window = body.rest("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    result = body.op("Conv", *filter(None, map(body.input, range(3))), given=window)
    if body.input(3):
        result = body.op("Add", result, body.input(3))
    _activation(body, result, body.text("activation"), body.numbers("activation_params"))


def _fused_gemm(body: Body) -> None:
    settings = body.rest("alpha", "beta", "transA", "transB")
    result = body.op("Gemm", *filter(None, map(body.input, range(3))), given=settings)
    given = [body.rest(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    parameters = [float(value) for each in given for value in each.values()]  # type: ignore[arg-type]
    _activation(body, result, body.text("activation"), parameters)


PARAMETERS: Mapping[str, Sequence[str]] = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "Softplus": (), "Softsign": (), "LeakyRelu": ("alpha",), "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip
"""Activation functions of the fused operators, and the attributes that their parameters are, in order."""


def _activation(body: Body, x: str, kind: str, parameters: Sequence[float]) -> None:
    if kind == "Clip" and len(parameters) == 2:
        body.op("Clip", x, *map(body.constant, parameters), to=body.output(0))
    elif kind in PARAMETERS and len(parameters) <= len(PARAMETERS[kind]):
        body.op(kind, x, to=body.output(0), given=dict(zip(PARAMETERS[kind], parameters, strict=False)))
    else:
        raise body.fault(f"its activation is {kind or 'missing'}", f"Clip, {', '.join(PARAMETERS)}")


def _dynamic_matmul(body: Body) -> None:
    """As it is meant: the first operand is quantised in each run, which no result needs."""
    axis = {"axis": 1} if body.rank(body.input(2)) == 1 else {}
    weights = body.op("DequantizeLinear", *filter(None, map(body.input, (1, 2, 3))), given=axis)
    product = body.op("MatMul", body.input(0), weights, to="" if body.input(4) else body.output(0))
    if body.input(4):
        body.op("Add", product, body.input(4), to=body.output(0))


def _integer_matmul(body: Body) -> None:
    """Two dequantised tensors, multiplied."""
    axis = {"axis": 1} if body.rank(body.input(3)) == 1 else {}
    a = body.op("DequantizeLinear", *filter(None, map(body.input, (0, 2, 4))))
    b = body.op("DequantizeLinear", *filter(None, map(body.input, (1, 3, 5))), given=axis)
    product = body.op("MatMul", a, b, to="" if body.input(6) else body.output(0))
    if body.input(6):
        body.op("Add", product, body.input(6), to=body.output(0))


BODIES: Mapping[str, Write] = {
    "QLinearSigmoid": partial(_quantized_function, "Sigmoid", {}),
    "QLinearLeakyRelu": partial(_quantized_function, "LeakyRelu", {"alpha": 0.01}),
    "QLinearSoftmax": _quantized_softmax,
    "QLinearReduceMean": _quantized_mean,
    "QLinearMul": partial(_quantized_binary, "Mul"),
    "QLinearWhere": _quantized_where,
    "Gelu": partial(_gelu, False, False),
    "BiasGelu": partial(_gelu, False, True),
    "FastGelu": partial(_gelu, True, True),
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": partial(_skip_normalization, True),
    "SkipSimplifiedLayerNormalization": partial(_skip_normalization, False),
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _integer_matmul,
}
"""Operators of the domain `com.microsoft` and what each computes."""

FLOAT = tuple(name for name in BODIES if not name.startswith("QLinear") and name != "MatMulIntegerToFloat")
"""Those of float networks, which `quantize` writes out."""
