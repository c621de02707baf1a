"""Masks of a softmax, found again before anything else is simplified.

    Softmax(x + m)              m is a constant of 0 and -∞, or a computed tensor that can be nothing else
    Softmax(Where(c, x, -∞))    c is constant, or computed from quantised tensors (`compiler/simplify/truths.py`)
    Softmax(x + m1 + m2)        or x + (m1 + m2), or a Where among them: what either leaves out is left out

Constants become one array, an attribute. What is computed becomes one tensor of 1 and 0 that is read beside the scores,
the product of all masks. A row of which nothing is left keeps what is greatest in it, as float32 sums do
(`compiler/simplify/full_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.full_rows import (
    NEGLIGIBLE,
    MaskPart,
    computed_rows,
    constant_rows,
    is_zero_or_negligible,
    of_rank,
    with_live_rows,
)
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.softmax import ALONG_ONE, MASK
from tilewright.compiler.simplify.truths import Truths


@dataclass(frozen=True)
class _Mask:
    """A constant, or a tensor that is computed: a mask that is added, or a condition for scores to be replaced."""

    value: NDArray[np.float32] | None = None  # of a constant; 0 leaves the scores as they are
    name: str = ""
    replaces: bool = False
    is_kept: bool = True  # what a condition is where the scores stay
    least: float = -np.inf  # what a condition puts in the scores' place


@dataclass(frozen=True)
class _Masked:
    """A tensor as scores and what is done to them, in this order; masks alone have no scores."""

    scores: str | None
    masks: tuple[_Mask, ...] = ()
    operators: tuple[Operator, ...] = ()

    def joined(self, other: _Masked, operator: Operator) -> _Masked:
        scores = other.scores if self.scores is None else self.scores
        return _Masked(scores, self.masks + other.masks, (*self.operators, *other.operators, operator))

    @property
    def computed(self) -> list[str]:
        return [mask.name for mask in self.masks if mask.name]


def masked(operator: Operator, view: GraphView) -> Replacement | None:
    """Softmax of scores and masks that are added or chosen → Softmax with one mask."""
    if MASK in operator.attributes or len(operator.inputs) > 1 or view.opset < ALONG_ONE:
        return None
    source = operator.inputs[0]
    shape, found = view.type(source).shape, _masked(source, view)
    if found.scores is None or found.scores == source or view.type(found.scores).shape != shape:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1) % max(1, len(shape))
    sums = tuple(dict.fromkeys(node for each in found.operators for node in each.nodes))
    nodes = tuple(dict.fromkeys((*sums, *operator.nodes)))
    beside = Truths(f"{found.operators[-1].name}.kept", sums, view)
    if not found.computed:
        constants = [(mask.value, mask.replaces) for mask in found.masks if mask.value is not None]
        rows = constant_rows(constants, shape, axis, _largest(found.scores, view))
        if rows is None:
            return None
        live = beside.constant_truth(rows.live) if rows.live.size else None
        attributes_with = {**operator.attributes, MASK: rows.kept}
        made = replace(
            operator, inputs=(_with_live(found.scores, live, beside),), attributes=attributes_with, nodes=nodes
        )
        return Replacement((*beside.operators, made), beside.tensors, beside.constants)
    sizes = [view.type(mask).shape for mask in found.computed]
    sizes += [mask.value.shape for mask in found.masks if mask.value is not None]
    if not _fits(np.broadcast_shapes(*sizes), shape, axis):
        return None
    parts = _parts(found.masks, max(3, *map(len, sizes[: len(found.computed)])), beside)
    if parts is None:
        return None
    kept, live = computed_rows(parts, beside)
    inputs = (_with_live(found.scores, live, beside), kept)
    made = replace(operator, inputs=inputs, nodes=tuple(dict.fromkeys((*beside.nodes, *nodes))))
    return Replacement((*beside.operators, made), beside.tensors, beside.constants)


def _with_live(scores: str, live: str | None, truths: Truths) -> str:
    return scores if live is None else with_live_rows(scores, live, truths)


def _masked(name: str, view: GraphView) -> _Masked:
    """A tensor with its masks taken off, as far as they are ones."""
    value, plain = view.constant(name), _Masked(name)
    if value is not None:
        is_mask = value.size > 1 and is_zero_or_negligible(value)
        return _Masked(None, (_Mask(value.astype(np.float32)),)) if is_mask else plain
    if _is_mask(name, view):
        return _Masked(None, (_Mask(name=name),))
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


def _chosen(choice: Operator, view: GraphView) -> _Masked | None:
    """Where that puts a negligible number in the place of scores."""
    condition, first, second = choice.inputs
    is_first, values = view.constant(condition), (view.constant(first), view.constant(second))
    for scores, value, is_kept in ((first, values[1], True), (second, values[0], False)):
        if value is None or not (value <= NEGLIGIBLE).all():
            continue
        mask = _Mask(name=condition, replaces=True, is_kept=is_kept, least=float(value.max()))
        if is_first is not None:
            replacing = np.where(is_first.astype(bool) == is_kept, np.float32(0), value.astype(np.float32))
            mask = _Mask(replacing, replaces=True)
        return _masked(scores, view).joined(_Masked(None, (mask,)), choice)
    return None


def _is_mask(name: str, view: GraphView) -> bool:
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


def _parts(masks: Sequence[_Mask], rank: int, truths: Truths) -> list[MaskPart] | None:
    """Each mask with what it keeps, 1 or 0; None if a condition is of a form that is not known."""
    parts: list[MaskPart] = []
    for mask in masks:
        if mask.value is not None:
            value = of_rank(mask.value, rank)
            parts.append(MaskPart(truths.constant_truth(value == 0), mask.replaces, value=value))
        elif mask.replaces:
            truth = truths.of(mask.name)
            if truth is None:
                return None
            truth = truths.of_more_dimensions(truth)
            parts.append(MaskPart(truth if mask.is_kept else truths.opposite(truth), True, least=mask.least))
        else:
            steps, added = truths.numbers_of(mask.name), truths.of_more_dimensions(mask.name)
            sign = truths.operator("Sign", (added,))
            kept = truths.whole(truths.operator("Add", (sign, truths.constant(np.array(1, np.float32)))))
            parts.append(MaskPart(kept, False, added, steps))
    return parts


def _largest(scores: str, view: GraphView) -> float:
    """The largest absolute value that quantised scores can have; of others nothing is known."""
    dequantize = view.producer(scores, "onnx.DequantizeLinear")
    if dequantize is None or len(dequantize.inputs) < 3:
        return 0.0
    scale, zero = (view.constant(each) for each in dequantize.inputs[1:3])
    if scale is None or zero is None or zero.dtype.kind not in "iu":
        return 0.0
    limits = np.iinfo(zero.dtype)
    return float(scale.max()) * max(limits.max - int(zero.min()), int(zero.max()) - limits.min)


MASK_FORMS = {"onnx.Softmax": (masked,)}
"""Tried before all other rules."""
