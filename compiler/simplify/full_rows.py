"""Rows of a softmax of which masks leave nothing: they mean what float32 sums of scores and masks give.

    x + m, all of a row masked      what is least masked of it stays; the rest is far below and counts for nothing
    |m| is small, such as 10000     the scores of what stays are as they were
    |m| is large, such as 1e9       x + m = m: the scores are lost, and what stays has equal shares
    Where(c, x, v)                  equal shares, too

So each row keeps at least one score, and scores that are lost are multiplied by 0. Between the small and the large a
float32 sum rounds scores to steps of its own: a constant such as -1e6 in a whole row is no mask of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.simplify.truths import Truths
from tilewright.isa.program.stored_types import COMPUTED, DEFAULT_TYPE, STORED_TYPES

NEGLIGIBLE = -5000.0
"""What is added to a score that counts for nothing: at most this, often -10000, float32's least number or -∞."""

FINE = 2.0 ** (1 - DEFAULT_TYPE.values.bits)
"""Scores that a sum rounds to steps of at most this give shares that differ by less than a step of the default type."""

LOST = -(2.0**22)
"""A sum with less than this is taken as the mask alone: float32 then has steps of a half or more."""

HUGE = np.float32(1e38)
"""Any score is lost beside this; float32's greatest number has no step above it."""

LEAST, TOP = DEFAULT_TYPE.limits
"""The zero point of masks that are computed here: nothing is above 0."""

LEVELS = TOP - LEAST
"""The steps from the greatest to the least of the default type."""


def is_zero_or_negligible(value: NDArray[Any]) -> bool:
    return bool(((value == 0) | (value <= NEGLIGIBLE)).all())


# -- constants ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskedRows:
    """What constant masks keep, of the scores' shape; `live` is 0 for rows whose scores are lost, empty if none is."""

    kept: NDArray[Any]
    live: NDArray[Any]


def constant_rows(
    masks: Sequence[tuple[NDArray[np.float32], bool]], shape: tuple[int, ...], axis: int, largest: float
) -> MaskedRows | None:
    """What masks in this order keep of each row along an axis of scores whose absolute values are at most `largest`.

    Each mask is added, or replaces what is there. None if a row is no number, or if its sums are neither exact enough
    nor lost.
    """
    total, is_replaced = np.zeros(shape, np.float32), np.zeros(shape, bool)
    for mask, replaces in masks:
        with np.errstate(over="ignore"):
            total = np.where(mask != 0, mask, total) if replaces else total + mask
        is_replaced |= replaces & (mask != 0)
    top = total.max(axis=axis, keepdims=True)
    if not np.isfinite(top).all():
        return None
    is_full = top <= NEGLIGIBLE
    below = np.where(is_full, total - top, total)
    if not is_zero_or_negligible(below):
        return None
    kept, none = below == 0, np.zeros(0, DEFAULT_TYPE.dtype)
    if not is_full.any():
        return MaskedRows(kept.astype(DEFAULT_TYPE.dtype), none)
    steps = np.spacing(np.nextafter(np.minimum(np.abs(top), HUGE), np.float32(0)))
    counts, replaced = (each.sum(axis=axis, keepdims=True) for each in (kept, kept & is_replaced))
    is_lost = is_full & ((steps > 2 * largest) | (replaced == counts))
    if not (is_lost | ((steps <= FINE) & (replaced == 0)) | ~is_full).all():
        return None
    return MaskedRows(kept.astype(DEFAULT_TYPE.dtype), (~is_lost).astype(DEFAULT_TYPE.dtype) if is_lost.any() else none)


def with_live_rows(scores: str, live: str, truths: Truths) -> str:
    """The scores in their own steps, those of rows that are lost as 0; of a product, its first operand has zeros."""
    computing = truths.product_before(scores)
    first = computing[0].inputs[0] if computing else scores
    steps, made = truths.steps_of(first), truths.operator("Mul", (first, live))
    made = made if steps is None else truths.quantized(made, steps)
    for each in computing:
        made = truths.remade(each, (made, *each.inputs[1:]))
    return made


# -- masks that are computed -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskPart:
    """A mask as 1 and 0, and what it adds to scores or puts in their place: a tensor, a constant, or one number."""

    kept: str
    replaces: bool
    added: str | None = None
    steps: tuple[float, int] = (0.0, 0)  # of what is added: scale and zero point
    value: NDArray[np.float32] | None = None
    least: float = -np.inf


def computed_rows(parts: Sequence[MaskPart], truths: Truths) -> tuple[str, str | None]:
    """What is kept of each row, the last dimension, and which rows have scores, if some may lose theirs."""
    added = [(part.added, *part.steps) for part in parts if part.added is not None]
    if len(parts) == len(added) == 1:
        return _of_one(*added[0], truths)
    product = reduce(_times(truths), (part.kept for part in parts))
    some = truths.greatest(product)
    if not added and all(part.replaces for part in parts):  # equal scores, where nothing is left
        return truths.whole(truths.operator("Max", (product, truths.opposite(some)))), some
    coarse = max((scale for _, scale, _ in added), default=-NEGLIGIBLE) * len(parts)
    nearest, live = _of_one(_total(parts, coarse, truths), coarse, TOP, truths)
    others = _times(truths)(nearest, truths.opposite(some))
    return truths.whole(truths.operator("Max", (product, others))), None if live is None else some


def _times(truths: Truths) -> Callable[[str, str], str]:
    return lambda one, other: truths.whole(truths.operator("Mul", (one, other)))


def _total(parts: Sequence[MaskPart], scale: float, truths: Truths) -> str:
    """What all masks add to scores or put in their place, in steps of this scale; 0 and one step are not told apart."""
    steps, total = _steps(scale, TOP, truths), None
    for part in parts:
        level = part.added or _level(part, scale, truths)
        if total is not None and part.replaces:
            total = truths.quantized(truths.operator("Mul", (total, part.kept)), steps)
        total = truths.quantized(level if total is None else truths.operator("Add", (total, level)), steps)
    assert total is not None
    return total


def _level(part: MaskPart, scale: float, truths: Truths) -> str:
    """A constant or one number of a mask in steps of this scale, as far as there are such."""
    steps = _steps(scale, TOP, truths)
    if part.value is not None:
        levels = np.clip(np.rint(part.value / scale), -LEVELS, 0) + TOP
        return truths.operator("DequantizeLinear", (truths.constant(levels.astype(DEFAULT_TYPE.dtype)), *steps))
    least = truths.constant(np.array(max(part.least, -LEVELS * scale), np.float32))
    is_kept = truths.operator("Sub", (truths.constant(np.array(1, np.float32)), part.kept))
    return truths.quantized(truths.operator("Mul", (is_kept, least)), steps)


def _of_one(mask: str, scale: float, zero: int, truths: Truths) -> tuple[str, str | None]:
    """What is as great as the greatest of its row; and whether that is 0, if it may be too much for scores."""
    steps, one = _steps(scale, zero, truths), truths.constant(np.array(1, np.float32))
    greatest = truths.quantized(truths.greatest(mask), steps)
    below = truths.quantized(truths.operator("Sub", (mask, greatest)), steps)
    kept = truths.whole(truths.operator("Add", (truths.operator("Sign", (below,)), one)))
    if scale * LEVELS <= -LOST:
        return kept, None
    return kept, truths.whole(truths.operator("Add", (truths.operator("Sign", (greatest,)), one)))


def _steps(scale: float, zero: int, truths: Truths) -> tuple[str, str]:
    dtype = next(STORED_TYPES[name].dtype for name in COMPUTED if zero <= STORED_TYPES[name].limits[1])
    return truths.constant(np.array(scale, np.float32)), truths.constant(np.array(zero, dtype))


def of_rank(value: NDArray[np.float32], rank: int) -> NDArray[np.float32]:
    """An array with dimensions of one element in front, or without some of those that it has there."""
    shape = value.shape
    return value.reshape((1,) * (rank - len(shape)) + shape[max(0, len(shape) - rank) :])
