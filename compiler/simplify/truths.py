"""Conditions that a network computes, as quantised tensors of 1 and 0.

    x > y        max(sign(x - y), 0), where y is one number, or x and y are quantised alike
    a and b      a · b;    a or b: max(a, b);    not a: 1 - a

The difference of tensors that are quantised alike has their steps and is limited as they are, which leaves its sign.
What is computed from one tensor becomes a table (`compiler/simplify/tables.py`). So all of it is exact. Conditions of
another form, such as those that the host gives, are not known here.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.rewrite import GraphView
from tilewright.isa.program.stored_types import DEFAULT_TYPE

COMPARISONS = {
    "onnx.Greater": (False, False),
    "onnx.Less": (True, False),
    "onnx.LessOrEqual": (False, True),
    "onnx.GreaterOrEqual": (True, True),
}
"""Operator → whether it is the first operand that must be less, and whether it is the opposite of that."""

EQUAL, NOT, XOR = "onnx.Equal", "onnx.Not", "onnx.Xor"
JOINED = {"onnx.And": "Mul", "onnx.Or": "Max"}
MOVES = frozenset(f"onnx.{name}" for name in ("Expand", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators that move the elements of their first operand."""

KEEPS_ZERO = frozenset(f"onnx.{name}" for name in ("DequantizeLinear", "Div", "Mul", "QuantizeLinear", "Reshape"))
"""Operators whose result is 0 where their first operand is, if the others are constants."""

DIGITS = 16
"""Of a constant's hash in its name."""


class Truths:
    """The operators that make tensors of 1 and 0 in steps of 1, their tensors and their constants."""

    def __init__(self, title: str, nodes: tuple[str, ...], view: GraphView) -> None:
        self.operators: list[Operator] = []
        self.tensors: dict[str, TensorType] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self.steps = (self.constant(np.array(1, np.float32)), self.constant(np.array(0, DEFAULT_TYPE.dtype)))
        self.nodes = nodes  # of all that the truths are computed by
        self._title, self._view = title, view

    def of(self, condition: str) -> str | None:
        """A condition as a real tensor of 1 and 0; None if it is of another form."""
        value, producer = self._view.constant(condition), self._view.producer(condition)
        if value is not None:
            return self.constant_truth(value)
        if producer is None:
            return None
        self.nodes = tuple(dict.fromkeys((*self.nodes, *producer.nodes)))
        if producer.kind in COMPARISONS or producer.kind == EQUAL:
            return self._compared(producer)
        if producer.kind in MOVES:
            source = self.of(producer.inputs[0])
            return None if source is None else self._moved(producer, source)
        operands = [self.of(name) for name in producer.inputs] if producer.kind in (*JOINED, NOT, XOR) else []
        known = tuple(operand for operand in operands if operand is not None)
        if not known or len(known) < len(operands):
            return None
        if producer.kind == NOT:
            return self.opposite(known[0])
        if producer.kind == XOR:
            return self.whole(self.operator("Abs", (self.whole(self.operator("Sub", known)),)))
        return self.whole(self.operator(JOINED[producer.kind], known))

    def constant_truth(self, value: NDArray[Any]) -> str:
        """A constant of 1 and 0, dequantised."""
        return self.operator("DequantizeLinear", (self.constant(value.astype(DEFAULT_TYPE.dtype)), *self.steps))

    def opposite(self, truth: str) -> str:
        """1 - a truth."""
        return self.whole(
            self.operator("Add", (self.operator("Neg", (truth,)), self.constant(np.array(1, np.float32))))
        )

    def whole(self, name: str) -> str:
        """A tensor of 0 and 1, quantised and dequantised."""
        return self.quantized(name, self.steps)

    def quantized(self, name: str, steps: tuple[str, ...]) -> str:
        """A tensor quantised and dequantised, in steps of a scale from a zero point."""
        return self.operator("DequantizeLinear", (self.operator("QuantizeLinear", (name, *steps)), *steps))

    def constant(self, value: NDArray[Any]) -> str:
        """Named after its value, so that operators with the same operands are the same."""
        sizes = "x".join(map(str, value.shape))
        name = f"kept.{value.dtype}.{sizes}.{sha256(value.tobytes()).hexdigest()[:DIGITS]}"
        self.constants[name], self.tensors[name] = value, TensorType(value.dtype.name, value.shape)
        return name

    def operator(self, kind: str, inputs: tuple[str, ...]) -> str:
        """One more operator on elements; what is quantised has the type of its zero point."""
        shape = np.broadcast_shapes(*(self.shape(each) for each in inputs))
        dtype = self._type(inputs[-1]).dtype if kind == "QuantizeLinear" else "float32"
        return self._made(Operator(self._title, f"onnx.{kind}", inputs, (), {}, self.nodes), TensorType(dtype, shape))

    def greatest(self, name: str) -> str:
        """The greatest value along the last dimension, which stays with one element."""
        shape = self.shape(name)
        attributes = {"axes": (len(shape) - 1,), "keepdims": 1}
        made = Operator(self._title, "onnx.ReduceMax", (name,), (), attributes, self.nodes)
        return self._made(made, TensorType("float32", (*shape[:-1], 1)))

    def of_more_dimensions(self, name: str) -> str:
        """The tensor with three dimensions, if it has two: then rows are no images, whose last words hold anything."""
        shape = self.shape(name)
        if len(shape) != 2:
            return name
        wanted = self.constant(np.array((1, *shape), np.int64))
        made = Operator(self._title, "onnx.Reshape", (name, wanted), (), {}, self.nodes)
        return self._made(made, TensorType("float32", (1, *shape)))

    def shape(self, name: str) -> tuple[int, ...]:
        return self._type(name).shape

    def steps_of(self, name: str) -> tuple[str, str] | None:
        """The tensors of scale and zero point of a quantised tensor with one of each."""
        producer = self._view.producer(name, "onnx.DequantizeLinear")
        return None if producer is None or self._steps_of(name) is None else (producer.inputs[1], producer.inputs[2])

    def product_before(self, name: str) -> list[Operator]:
        """What computes a tensor of a product of matrices, if zeros stay zeros in it and nothing else reads any of it.

        The first of them reads a quantised matrix with as many rows as the tensor. Empty if there is no such product.
        """
        found, view, source = list[Operator](), self._view, name
        while (producer := view.producer(source)) is not None:
            is_product = producer.kind == "onnx.MatMul"
            is_passed = all(view.constant(each) is not None for each in producer.inputs[1:])
            if is_product and not any(each.kind == "onnx.MatMul" for each in found):
                pass
            elif self.steps_of(source) is not None and any(each.kind == "onnx.MatMul" for each in found):
                return found[::-1] if self.shape(source)[:-1] == self.shape(name)[:-1] else []
            elif producer.kind not in KEEPS_ZERO or not is_passed:
                return []
            if source in view.outputs or not view.is_read_once(source):
                return []
            found.append(producer)
            source = producer.inputs[0]
        return []

    def remade(self, operator: Operator, inputs: tuple[str, ...]) -> str:
        """The result of an operator with other operands of the same shapes."""
        return self._made(replace(operator, inputs=inputs), self._type(operator.outputs[0]))

    def numbers_of(self, name: str) -> tuple[float, int]:
        """Scale and zero point of a quantised tensor with one of each."""
        found = self._steps_of(name)
        assert found is not None, name
        return found

    def _type(self, name: str) -> TensorType:
        return self.tensors.get(name) or self._view.type(name)

    def _made(self, operator: Operator, result: TensorType) -> str:
        name = self._view.fresh(f"{self._title}.{len(self.operators)}")
        self.tensors[name] = result
        self.operators.append(replace(operator, outputs=(name,)))
        return name

    def _moved(self, move: Operator, source: str) -> str:
        made = Operator(self._title, move.kind, (source, *move.inputs[1:]), (), move.attributes, self.nodes)
        return self._made(made, TensorType("float32", self._view.type(move.outputs[0]).shape))

    def _compared(self, comparison: Operator) -> str | None:
        is_less, is_opposite = COMPARISONS.get(comparison.kind, (False, False))
        one, other = reversed(comparison.inputs) if is_less else comparison.inputs
        difference = self._difference(one, other)
        if difference is None:
            return None
        sign = self.operator("Sign", (difference,))
        if comparison.kind == EQUAL:
            return self.opposite(self.operator("Abs", (sign,)))
        greater = self.operator("Max", (sign, self.constant(np.array(0, np.float32))))
        return self.opposite(greater) if is_opposite else self.whole(greater)

    def _difference(self, one: str, other: str) -> str | None:
        """A tensor of the sign of one less the other."""
        steps = [self._steps_of(name) for name in (one, other)]
        numbers = [value is not None and value.size == 1 for value in map(self._view.constant, (one, other))]
        if any(numbers) and any(each is not None for each in steps):
            return self.operator("Sub", (one, other))
        if steps[0] is None or steps[0] != steps[1]:
            return None
        scale, _ = steps[0]
        return self.quantized(
            self.operator("Sub", (one, other)), (self.constant(np.array(scale, np.float32)), self.steps[1])
        )

    def _steps_of(self, name: str) -> tuple[float, int] | None:
        """Scale and zero point of a computed tensor that is quantised with one of each."""
        producer = self._view.producer(name, "onnx.DequantizeLinear")
        if producer is None or len(producer.inputs) < 3 or self._view.constant(producer.inputs[0]) is not None:
            return None
        scale, zero = (self._view.constant(each) for each in producer.inputs[1:3])
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return None
        return float(scale.max()), int(zero.max())
