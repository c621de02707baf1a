"""Softmax along any dimension: `softmax`, which is over channels, with the moves of elements around it.

Source: https://onnx.ai/onnx/operators/onnx__Softmax.html. From opset 13 on it is along `axis`; before, along `axis` and
all dimensions after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.over_channels import as_channels, over_channels
from tilewright.compiler.simplify.rewrite import Replacement, View, joined

ALONG_ONE = 13
"""From this opset on, a softmax is along one dimension."""

MASK = "mask"
"""An attribute that `masked` gives a Softmax; no model has one of this name."""

NEGLIGIBLE = -5000.0
"""What is added to a score that counts for nothing: at most this, often -10000, float32's least number or -∞."""


def masked(operator: Operator, view: View) -> Replacement | None:
    """Softmax of scores plus a constant of 0 and -∞, or of a Where that puts -∞ in their place."""
    if MASK in operator.attributes or len(operator.inputs) > 1:
        return None
    found = _added_mask(operator.inputs[0], view) or _chosen_mask(operator.inputs[0], view)
    if found is None:
        return _masked_by_tensor(operator, view)
    maker, scores, kept = found
    shape = view.type(operator.inputs[0]).shape
    if view.type(scores).shape != shape or not view.is_read_once(operator.inputs[0]):
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1 if view.opset >= ALONG_ONE else 1)
    kept = np.broadcast_to(kept, shape)
    if view.opset < ALONG_ONE or not kept.any(axis=axis).all():
        return None  # a row of which nothing is left is no number
    attributes_with = {**operator.attributes, MASK: kept.astype(np.int8)}
    nodes = tuple(dict.fromkeys((*maker.nodes, *operator.nodes)))
    return Replacement((replace(operator, inputs=(scores,), attributes=attributes_with, nodes=nodes),))


Mask = tuple[Operator, str, NDArray[np.bool_]]
"""The operator that masks, the scores, and where they count."""


def _added_mask(name: str, view: View) -> Mask | None:
    add = view.producer(name, "onnx.Add")
    for scores, other in () if add is None else (add.inputs, add.inputs[::-1]):
        value = view.constant(other)
        if add is not None and value is not None and value.size > 1 and _is_zero_or_negligible(value):
            return add, scores, value == 0
    return None


def _chosen_mask(name: str, view: View) -> Mask | None:
    choice = view.producer(name, "onnx.Where")
    if choice is None:
        return None
    condition, first, second = choice.inputs
    is_first, values = view.constant(condition), (view.constant(first), view.constant(second))
    for scores, value, is_kept in ((first, values[1], True), (second, values[0], False)):
        if is_first is not None and value is not None and (value <= NEGLIGIBLE).all():
            return choice, scores, is_first.astype(bool) == is_kept
    return None


def _masked_by_tensor(operator: Operator, view: View) -> Replacement | None:
    """Softmax of scores plus a computed tensor that can only be 0 or negligible: that tensor as 1 and 0 beside them."""
    add = view.producer(operator.inputs[0], "onnx.Add")
    if add is None or not view.is_read_once(operator.inputs[0]) or view.opset < ALONG_ONE:
        return None
    shape = view.type(operator.inputs[0]).shape
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1) % len(shape)
    for scores, mask in (add.inputs, add.inputs[::-1]):
        if _is_mask(mask, view) and view.type(scores).shape == shape and _fits(view.type(mask).shape, shape, axis):
            nodes = tuple(dict.fromkeys((*add.nodes, *operator.nodes)))
            kept = _Kept(mask, add, view)
            made = replace(operator, inputs=(scores, kept.result), nodes=nodes)
            return Replacement((*kept.operators, made), kept.tensors, kept.constants)
    return None


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
    """A tensor of 0 and negligible numbers as 1 and 0, quantised in steps of 1."""

    def __init__(self, mask: str, add: Operator, view: View) -> None:
        self.operators: list[Operator] = []
        self.tensors: dict[str, TensorType] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self._add, self._view, self._shape = add, view, view.type(mask).shape
        sign = self._operator("Sign", (mask,), "float32")
        more = self._operator("Add", (sign, self._constant("one", np.float32(1))), "float32")
        steps = self._constant("step", np.float32(1)), self._constant("zero", np.int8(0))
        whole = self._operator("QuantizeLinear", (more, *steps), "int8")
        self.result = self._operator("DequantizeLinear", (whole, *steps), "float32")

    def _constant(self, what: str, value: np.generic) -> str:
        name = self._view.fresh(f"{self._add.name}.{what}")
        self.constants[name] = np.array(value)
        self.tensors[name] = TensorType(value.dtype.name, ())
        return name

    def _operator(self, kind: str, inputs: tuple[str, ...], dtype: str) -> str:
        name = self._view.fresh(f"{self._add.name}.kept.{kind}")
        self.tensors[name] = TensorType(dtype, self._shape)
        title = f"{self._add.name}.kept"
        self.operators.append(Operator(title, f"onnx.{kind}", inputs, (name,), {}, self._add.nodes))
        return name


def _is_zero_or_negligible(value: NDArray[Any]) -> bool:
    return bool(((value == 0) | (value <= NEGLIGIBLE)).all())


def _without_repetition(mask: NDArray[Any]) -> NDArray[Any]:
    """One for all images, if they have the same."""
    return mask[:1] if (mask == mask[:1]).all() else mask


MASK_FORMS = {"onnx.Softmax": (masked,)}
"""Tried before all other rules."""


def softmax(operator: Operator, view: View) -> Replacement | None:
    """The softmax over channels; a last dimension becomes the channels by a transposition, any other by a reshape."""
    source = operator.inputs[0]
    shape = view.type(source).shape
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1 if view.opset >= ALONG_ONE else 1)
        mask = attributes.array(MASK)
    axis %= max(1, len(shape))
    if view.opset < ALONG_ONE:
        shape = (prod(shape[:axis]), prod(shape[axis:]))
        axis = 1
    settings = {"mask": () if mask is None else _without_repetition(as_channels(mask, shape, axis))}
    if len(operator.inputs) == 1:
        return over_channels(operator, view, "softmax", settings, shape, axis)
    kept, change = _in_channels(operator, view)
    return joined(change, over_channels(operator, view, "softmax", settings, shape, axis, (kept,)))


def _in_channels(operator: Operator, view: View) -> tuple[str, Replacement]:
    """The second operand, its last two dimensions exchanged: [1 or N, C, 1, 1 or W]; the first is [N, C, 1, W]."""
    kept = operator.inputs[1]
    given = view.type(kept)
    *outer, rows, along = given.shape
    turned, stored = (view.fresh(f"{kept}.{suffix}") for suffix in ("turned", "stored"))
    rank = len(given.shape)
    axes = (*range(rank - 2), rank - 1, rank - 2)
    transpose = Operator(f"{operator.name}.kept", "transpose", (kept,), (turned,), {"axes": axes}, operator.nodes)
    reshape = Operator(f"{operator.name}.kept", "reshape", (turned,), (stored,), {}, operator.nodes)
    types = {
        turned: replace(given, shape=(*outer, along, rows)),
        stored: replace(given, shape=(prod(outer), along, 1, rows)),
    }
    return stored, Replacement((transpose, reshape), types)
