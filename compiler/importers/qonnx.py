"""QONNX's quantisers as ONNX's own: Quant, BipolarQuant and Trunc, as Brevitas and QKeras write them.

https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops has their meaning:

    Quant         (clip(round(x / scale + zero), low, high) - zero) · scale      low, high: of so many bits
    BipolarQuant  scale where x >= 0, else -scale
    Trunc         (floor(round(x / scale + zero) / 2^(bits in - bits out)) - zero) · scale

Quant of a constant becomes its integers behind DequantizeLinear; of anything else QuantizeLinear, Clip where its type
has more values, and DequantizeLinear. These round before they add the zero point: with an odd one, a value half way
between two steps goes to the other of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.compiler.errors import CompileError, DamagedModel, NodeName
from tilewright.compiler.importers.opsets import WRITTEN_IR_VERSION, WRITTEN_OPSET, convert, opset_of

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")

ROUNDED = ("ROUND", "HALF_EVEN")
"""The rounding that ONNX's QuantizeLinear has: to the nearest, half way to the even."""

KNOWN: Mapping[str, tuple[str, ...]] = {
    "Quant": ("signed", "narrow", "rounding_mode"),
    "BipolarQuant": (),
    "Trunc": ("rounding_mode",),
}
"""Operator → its attributes."""

ACTIVATION_BITS = (8, 16)
CONSTANT_BITS = (4, 8, 16, 32)
"""Bits of ONNX's integers; 32 have only a sign."""

Values = NDArray[np.float64]


def with_plain_quantizers(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with QONNX's operators as ONNX's own, in an opset that has their types.

    Raises CompileError for what is not done, DamagedModel for numbers without a meaning.
    """
    if not any(node.domain in DOMAINS for node in model.graph.node):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if opset_of(made) < WRITTEN_OPSET:
        made = convert(made, name, WRITTEN_OPSET)
    made.ir_version = max(made.ir_version, WRITTEN_IR_VERSION)
    constants = dict(_constants(made.graph))
    nodes: list[onnx.NodeProto] = []
    for node in made.graph.node:
        if node.domain not in DOMAINS:
            nodes.append(node)
            continue
        written = _Quantizer(node, constants)
        nodes += written.nodes()
        made.graph.initializer.extend(written.held)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Initialisers and Constant nodes."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            yield from ((node.output[0], each.t) for each in node.attribute if each.name == "value")


class _Quantizer:
    """One node, as nodes of ONNX's own and the constants that they read."""

    def __init__(self, node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> None:
        self._node, self._constants = node, constants
        self.held: list[onnx.TensorProto] = []
        if node.op_type not in KNOWN:
            known = ", ".join(KNOWN)
            raise CompileError(self._place, f"is of the domain {node.domain!r}", expected=f"one of its {known}")
        self._said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        for attribute in self._said.keys() - set(KNOWN[node.op_type]):
            raise CompileError(self._place, f"attribute {attribute!r} has no lowering", remedy="remove it")

    def nodes(self) -> list[onnx.NodeProto]:
        """What computes the same."""
        match self._node.op_type:
            case "Quant":
                return self._quant()
            case "BipolarQuant":
                return self._bipolar()
            case _:
                return self._trunc()

    def _quant(self) -> list[onnx.NodeProto]:
        self._require_rounding("ROUND", ROUNDED)
        scale, zero, bits = self._scale(), self._number("zero point", 2), self._bits(3)
        is_signed, is_narrow = bool(self._said.get("signed", 1)), bool(self._said.get("narrow", 0))
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
        low, high = (low + (is_narrow and is_signed), high - (is_narrow and not is_signed))
        if not low <= zero <= high:
            raise DamagedModel(self._place, f"its zero point is {zero}", expected=f"{low} to {high}")
        if (real := self._constant(0)) is not None:
            codes = np.clip(np.rint(real / scale + zero), low, high)
            return [self._dequantize(codes, self._type(bits, is_signed, CONSTANT_BITS), scale, zero)]
        element = self._type(bits, is_signed, ACTIVATION_BITS)
        return self._activation(element, scale, zero, low, high)

    def _activation(self, element: str, scale: Values, zero: int, low: int, high: int) -> list[onnx.NodeProto]:
        node, dtype = self._node, np.dtype(element)
        scales, axis = self._along(scale)
        read = [self._hold("scale", scales), self._hold("zero", np.full(scales.shape, zero, dtype))]
        integers = self._name("integers")
        made = [helper.make_node("QuantizeLinear", [node.input[0], *read], [integers], node.name, axis=axis)]
        limits = np.iinfo(dtype)
        if (low, high) != (limits.min, limits.max):
            ends = [self._hold(name, np.array(value, dtype)) for name, value in (("low", low), ("high", high))]
            clipped = self._name("clipped")
            made.append(helper.make_node("Clip", [integers, *ends], [clipped], f"{node.name}.clip"))
            integers = clipped
        back = f"{node.name}.dequantize"
        return [*made, helper.make_node("DequantizeLinear", [integers, *read], [node.output[0]], back, axis=axis)]

    def _bipolar(self) -> list[onnx.NodeProto]:
        scale, real = self._scale(), self._constant(0)
        if real is not None:
            return [self._dequantize(np.where(real >= 0, 1.0, -1.0), "int4", scale, 0)]
        node = self._node
        ends = [self._hold(name, value.astype(np.float32)) for name, value in (("high", scale), ("low", -scale))]
        zero, is_high = self._hold("zero", np.float32(0)), self._name("is_high")
        return [
            helper.make_node("GreaterOrEqual", [node.input[0], zero], [is_high], f"{node.name}.compare"),
            helper.make_node("Where", [is_high, *ends], [node.output[0]], node.name),
        ]

    def _trunc(self) -> list[onnx.NodeProto]:
        self._require_rounding("FLOOR", ("FLOOR",))
        scale, zero = self._scale().astype(np.float32), np.float32(self._number("zero point", 2))
        less = self._bits(3) - self._bits(4)
        if less < 0:
            raise DamagedModel(self._place, f"{-less} bits more come out than go in", expected="fewer, or as many")
        steps: list[tuple[str, ArrayLike | None]]
        steps = [("Div", scale), ("Add", zero), ("Round", None), ("Div", np.float32(2.0**less)), ("Floor", None)]
        made, value = [], self._node.input[0]
        for number, (kind, operand) in enumerate([*steps, ("Sub", zero), ("Mul", scale)]):
            is_last = number == len(steps) + 1
            operands = [value] if operand is None else [value, self._hold(str(number), operand)]
            value = self._node.output[0] if is_last else self._name(f"step{number}")
            made.append(helper.make_node(kind, operands, [value], f"{self._node.name}.{number}"))
        return made

    # -- operands ------------------------------------------------------------------------------------------------------

    def _dequantize(self, codes: Values, element: str, scale: Values, zero: int) -> onnx.NodeProto:
        scales, axis = self._along(scale)
        kind = TensorProto.DataType.Value(element.upper())
        for part, values in (("codes", codes), ("zero", np.full(scales.shape, zero))):
            integers = np.asarray(values).astype(np.int64)
            self.held.append(helper.make_tensor(self._name(part), kind, integers.shape, integers.ravel().tolist()))
        read = [self._name("codes"), self._hold("scale", scales), self._name("zero")]
        return helper.make_node("DequantizeLinear", read, [self._node.output[0]], self._node.name, axis=axis)

    def _scale(self) -> Values:
        scale = self._require(1, "scale")
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise DamagedModel(self._place, f"its scale is {scale.min()}", expected="positive numbers")
        return scale

    def _along(self, scale: Values) -> tuple[NDArray[np.float32], int]:
        """The scale as a number or a list, and the dimension along which it goes, counted from the last."""
        long = [axis for axis, size in enumerate(scale.shape) if size > 1]
        if len(long) > 1:
            raise CompileError(
                self._place, f"its scales are {list(scale.shape)}", expected="one, or one for each index of a dimension"
            )
        return scale.astype(np.float32).reshape([-1] if long else []), long[0] - scale.ndim if long else 0

    def _number(self, what: str, position: int) -> int:
        values = self._require(position, what)
        if values.size != 1 or values.flat[0] != np.rint(values.flat[0]):
            raise CompileError(self._place, f"its {what} is {values.tolist()}", expected="one whole number")
        return int(values.flat[0])

    def _bits(self, position: int) -> int:
        bits = self._number("number of bits", position)
        if not 1 <= bits <= CONSTANT_BITS[-1]:
            raise DamagedModel(self._place, f"it has {bits} bits", expected=f"1 to {CONSTANT_BITS[-1]}")
        return bits

    def _type(self, bits: int, is_signed: bool, known: Sequence[int]) -> str:
        """The narrowest of ONNX's types that holds so many bits."""
        wide = next((each for each in known if each >= bits and (is_signed or each < CONSTANT_BITS[-1])), None)
        if wide is None:
            sign = "with" if is_signed else "without"
            raise CompileError(self._place, f"it has {bits} bits {sign} a sign", expected=f"at most {known[-1]}")
        return f"{'' if is_signed else 'u'}int{wide}"

    def _require(self, position: int, what: str) -> Values:
        values = self._constant(position)
        if values is None:
            raise CompileError(self._place, f"its {what} is computed", expected="a constant")
        return values

    def _constant(self, position: int) -> Values | None:
        name = self._node.input[position] if position < len(self._node.input) else ""
        return numpy_helper.to_array(self._constants[name]).astype(np.float64) if name in self._constants else None

    def _require_rounding(self, usual: str, known: Sequence[str]) -> None:
        said = self._said.get("rounding_mode", usual.encode()).decode(errors="replace")
        if said.upper() not in known:
            expected = " or ".join(map(repr, known))
            raise CompileError(self._place, f"rounding_mode = {said!r} has no lowering", expected=expected)

    def _hold(self, part: str, values: ArrayLike) -> str:
        self.held.append(numpy_helper.from_array(np.asarray(values), self._name(part)))
        return self._name(part)

    def _name(self, part: str) -> str:
        return f"{self._node.output[0]}.{part}"

    @property
    def _place(self) -> NodeName:
        return NodeName(self._node.name or self._node.output[0], self._node.op_type)
