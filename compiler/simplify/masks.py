"""Masks of a softmax, found again before anything else is simplified.

    Softmax(x + m)              m is a constant of 0 and -∞, or a computed tensor that can be nothing else
    Softmax(Where(c, x, -∞))    c is constant, or computed from quantised tensors (`compiler/simplify/truths.py`)
    Softmax(x + m1 + m2)        or x + (m1 + m2), or a Where among them: what either leaves out is left out

Constants become one array, an attribute. What is computed becomes one tensor of 1 and 0 that is read beside the scores,
the product of all masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.rewrite import Replacement, View
from tilewright.compiler.simplify.softmax import ALONG_ONE, MASK
from tilewright.compiler.simplify.truths import Truths

NEGLIGIBLE = -5000.0
"""What is added to a score that counts for nothing: at most this, often -10000, float32's least number or -∞."""


@dataclass(frozen=True)
class _Masked:
    """A tensor as scores and what is added to them; masks alone have no scores."""

    scores: str | None
    kept: tuple[NDArray[np.bool_], ...] = ()  # where constants leave the scores as they are
    computed: tuple[str, ...] = ()
    chosen: tuple[tuple[str, bool], ...] = ()  # conditions, and what they are where the scores stay
    operators: tuple[Operator, ...] = ()

    def joined(self, other: _Masked, operator: Operator) -> _Masked:
        scores = other.scores if self.scores is None else self.scores
        operators = (*self.operators, *other.operators, operator)
        kept, computed = self.kept + other.kept, self.computed + other.computed
        return _Masked(scores, kept, computed, self.chosen + other.chosen, operators)


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
    if not found.computed and not found.chosen:
        attributes_with = {**operator.attributes, MASK: np.broadcast_to(kept, shape).astype(np.int8)}
        return Replacement((replace(operator, inputs=(found.scores,), attributes=attributes_with, nodes=nodes),))
    given = (*found.computed, *(condition for condition, _ in found.chosen))
    whole = np.broadcast_shapes(*(view.type(mask).shape for mask in given), *(k.shape for k in found.kept))
    if not _fits(whole, shape, axis):
        return None
    beside = Truths(f"{found.operators[-1].name}.kept", sums, view)
    tensor = _kept(found, kept if found.kept else None, beside)
    if tensor is None:
        return None
    made = replace(operator, inputs=(found.scores, tensor), nodes=tuple(dict.fromkeys((*beside.nodes, *nodes))))
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
        if value is None or not (value <= NEGLIGIBLE).all():
            continue
        if is_first is not None:
            return _masked(scores, view).joined(_Masked(None, (is_first.astype(bool) == is_kept,)), choice)
        return _masked(scores, view).joined(_Masked(None, chosen=((condition, is_kept),)), choice)
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


def _kept(found: _Masked, constant: NDArray[np.bool_] | None, truths: Truths) -> str | None:
    """The product of what all masks keep, 1 or 0; None if a condition is of a form that is not known."""
    parts: list[str] = []
    for mask in found.computed:
        sign = truths.operator("Sign", (mask,))
        parts.append(truths.whole(truths.operator("Add", (sign, truths.constant(np.array(1, np.float32))))))
    for condition, is_kept in found.chosen:
        truth = truths.of(condition)
        if truth is None:
            return None
        parts.append(truth if is_kept else truths.opposite(truth))
    if constant is not None:
        rank = max(len(truths.shape(part)) for part in parts)
        values = truths.constant(constant.reshape(constant.shape[-rank:]).astype(np.int8))
        parts.append(truths.operator("DequantizeLinear", (values, *truths.steps)))
    return reduce(lambda one, other: truths.whole(truths.operator("Mul", (one, other))), parts)


MASK_FORMS = {"onnx.Softmax": (masked,)}
"""Tried before all other rules."""
