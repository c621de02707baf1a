"""Masks of a softmax, found again before anything else is simplified.

    Softmax(x + m)              m is a constant of 0 and -∞, or a computed tensor that can be nothing else
    Softmax(Where(c, x, -∞))    c is constant
    Softmax(x + m1 + m2)        or x + (m1 + m2), or a Where among them: what either leaves out is left out

Constants become one array, an attribute. What is computed becomes one tensor of 1 and 0 that is read beside the scores,
the product of all masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.rewrite import Replacement, View
from tilewright.compiler.simplify.softmax import ALONG_ONE, MASK

NEGLIGIBLE = -5000.0
"""What is added to a score that counts for nothing: at most this, often -10000, float32's least number or -∞."""


DIGITS = 16
"""Of a constant's hash in its name."""


@dataclass(frozen=True)
class _Masked:
    """A tensor as scores and what is added to them; masks alone have no scores."""

    scores: str | None
    kept: tuple[NDArray[np.bool_], ...] = ()  # where constants leave the scores as they are
    computed: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()

    def joined(self, other: _Masked, operator: Operator) -> _Masked:
        scores = other.scores if self.scores is None else self.scores
        operators = (*self.operators, *other.operators, operator)
        return _Masked(scores, self.kept + other.kept, self.computed + other.computed, operators)


def masked(operator: Operator, view: View) -> Replacement | None:
    """Softmax of scores and masks that are added or chosen → Softmax with one mask."""
    if MASK in operator.attributes or len(operator.inputs) > 1 or view.opset < ALONG_ONE:
        return None
    source = operator.inputs[0]
    shape, found = view.type(source).shape, _masked(source, view)
    if found.scores is None or found.scores == source or view.type(found.scores).shape != shape:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1) % max(1, len(shape))
    kept = reduce(np.logical_and, found.kept, np.ones((1,) * len(shape), bool))
    if not np.broadcast_to(kept, shape).any(axis=axis).all():
        return None  # a row of which nothing is left is no number
    sums = tuple(dict.fromkeys(node for each in found.operators for node in each.nodes))
    nodes = tuple(dict.fromkeys((*sums, *operator.nodes)))
    if not found.computed:
        attributes_with = {**operator.attributes, MASK: np.broadcast_to(kept, shape).astype(np.int8)}
        return Replacement((replace(operator, inputs=(found.scores,), attributes=attributes_with, nodes=nodes),))
    whole = np.broadcast_shapes(*(view.type(mask).shape for mask in found.computed), *(k.shape for k in found.kept))
    if not _fits(whole, shape, axis):
        return None
    beside = _Kept(found.operators[-1].name, sums, view)
    tensor = beside.of(found.computed, kept if found.kept else None)
    made = replace(operator, inputs=(found.scores, tensor), nodes=nodes)
    return Replacement((*beside.operators, made), beside.tensors, beside.constants)


def _masked(name: str, view: View) -> _Masked:
    """A tensor with its masks taken off, as far as they are ones."""
    value, plain = view.constant(name), _Masked(name)
    if value is not None:
        return _Masked(None, (value == 0,)) if value.size > 1 and is_zero_or_negligible(value) else plain
    if _is_mask(name, view):
        return _Masked(None, (), (name,))
    producer = view.producer(name, "onnx.Add", "onnx.Where")
    if producer is None:
        return plain
    if producer.kind == "onnx.Where":
        chosen = _chosen(producer, view)
        return chosen if chosen is not None and view.is_read_once(name) else plain
    one, other = (_masked(each, view) for each in producer.inputs)
    both = one.joined(other, producer)
    if one.scores is not None and other.scores is not None:
        return plain
    return both if both.scores is None or view.is_read_once(name) else plain


def _chosen(choice: Operator, view: View) -> _Masked | None:
    """Where that puts a negligible number in the place of scores."""
    condition, first, second = choice.inputs
    is_first, values = view.constant(condition), (view.constant(first), view.constant(second))
    for scores, value, is_kept in ((first, values[1], True), (second, values[0], False)):
        if is_first is not None and value is not None and (value <= NEGLIGIBLE).all():
            return _masked(scores, view).joined(_Masked(None, (is_first.astype(bool) == is_kept,)), choice)
    return None


def is_zero_or_negligible(value: NDArray[Any]) -> bool:
    return bool(((value == 0) | (value <= NEGLIGIBLE)).all())


def _is_mask(name: str, view: View) -> bool:
    """Whether every value that a quantised tensor can have is 0 or negligible."""
    dequantize = view.producer(name, "onnx.DequantizeLinear")
    if dequantize is None or len(dequantize.inputs) < 3 or view.constant(dequantize.inputs[0]) is not None:
        return False
    scale, zero = (view.constant(each) for each in dequantize.inputs[1:3])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or zero.dtype.kind not in "iu":
        return False
    return bool(-scale.max() <= NEGLIGIBLE) and int(zero.max()) == np.iinfo(zero.dtype).max


def _fits(mask: Sequence[int], shape: Sequence[int], axis: int) -> bool:
    """Whether a mask is along the last dimension, and the same for all or none of those before the last two."""
    if axis != len(shape) - 1 or not 2 <= len(mask) <= len(shape) or len(shape) < 3 or mask[-1] != shape[-1]:
        return False
    return mask[-2] in (1, shape[-2]) and (prod(mask[:-2]) == 1 or tuple(mask[:-2]) == tuple(shape[:-2]))


class _Kept:
    """Masks as one tensor of 1 and 0, quantised in steps of 1: the operators that make it."""

    def __init__(self, masking: str, nodes: tuple[str, ...], view: View) -> None:
        self.operators: list[Operator] = []
        self.tensors: dict[str, TensorType] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self._title, self._nodes, self._view = f"{masking}.kept", nodes, view
        self._steps = self._constant(np.array(1, np.float32)), self._constant(np.array(0, np.int8))

    def of(self, computed: Sequence[str], kept: NDArray[np.bool_] | None) -> str:
        """The product of what computed masks keep, and constant ones, if any."""
        parts = [self._kept(mask) for mask in computed]
        if kept is not None:
            rank = max(len(self._shape(part)) for part in parts)
            constant = self._constant(kept.reshape(kept.shape[-rank:]).astype(np.int8))
            parts.append(self._operator("DequantizeLinear", (constant, *self._steps)))
        return reduce(lambda one, other: self._whole(self._operator("Mul", (one, other))), parts)

    def _kept(self, mask: str) -> str:
        sign = self._operator("Sign", (mask,))
        return self._whole(self._operator("Add", (sign, self._constant(np.array(1, np.float32)))))

    def _whole(self, name: str) -> str:
        """A tensor of 0 and 1, quantised and dequantised."""
        integers = self._operator("QuantizeLinear", (name, *self._steps))
        return self._operator("DequantizeLinear", (integers, *self._steps))

    def _constant(self, value: NDArray[Any]) -> str:
        """Named after its value, so that softmaxes with the same masks read the same tensors."""
        sizes = "x".join(map(str, value.shape))
        name = f"kept.{value.dtype}.{sizes}.{sha256(value.tobytes()).hexdigest()[:DIGITS]}"
        self.constants[name], self.tensors[name] = value, TensorType(value.dtype.name, value.shape)
        return name

    def _operator(self, kind: str, inputs: tuple[str, ...]) -> str:
        name = self._view.fresh(f"{self._title}.{len(self.operators)}")
        shape = np.broadcast_shapes(*(self._shape(each) for each in inputs))
        self.tensors[name] = TensorType("int8" if kind == "QuantizeLinear" else "float32", shape)
        self.operators.append(Operator(self._title, f"onnx.{kind}", inputs, (name,), {}, self._nodes))
        return name

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self.tensors.get(name) or self._view.type(name)).shape


MASK_FORMS = {"onnx.Softmax": (masked,)}
"""Tried before all other rules."""
