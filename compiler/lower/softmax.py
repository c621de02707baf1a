"""Softmax and the largest value over channels, as nests whose reductions go on across lanes.

    m = lanes_max(max_over(a))                          the largest of a pixel's channels
    s = lanes_sum(sum(lut(e, m - a)))                   e[d] = exp(-d · scale), as an integer
    r = lut(guess, s >> shift) << 8                     about K / s, then Newton steps r ← r · (2 - s · r / K):
    r = (r >> 8) · (2 · k - s · (r >> 8) / 2**8) / 2**16        each squares the relative error
    y = clamp(round_shift(r · lut(e, m - a), n) + zero, low, high)

All widths and constant shifts are the machine's (`compiler.lower.softmax_format`); those above are vector16's. Where a
table of all distances would be too long, e[d] is the product of two entries, for the high and for the low bits of d.

It is all one nest: values that all channels of a pixel share stand in it wherever they are used, and are computed once.
A step also multiplies r by a constant, so that K ends as what the result's scale asks for. With vector16's shifts the
next K is (K / 2**8)² / 2**24.

Channels fill whole vectors. The lanes beyond them may hold anything, and a limit for each channel takes them out. A
mask takes out channels of each pixel by itself, and those lanes with them: then a is `where(mask, a, least)` in m, and
the table's entry is `where(mask, lut(…), 0)` in s and y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, Named
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW, Operator
from tilewright.compiler.lower.network import (
    LoweringNetwork,
    affine,
    identity_index,
    padded_channels,
    result_loops,
    target_of,
)
from tilewright.compiler.lower.softmax_format import SoftmaxFormat, TableFormat
from tilewright.compiler.nest.expressions import across_lanes, clamp, scope_of_rounding, source
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, round_shift
from tilewright.isa.language.operations import Op

TOLERANCE = 1 / 400
"""In steps of the result. Newton steps are added until the reciprocals cause no larger error than this."""

MAX_STEPS = 8

HEADROOM = 1 - 1 / 64
"""Part of the largest reciprocal that is used: before the last Newton step constants are larger, and so are they."""

BELOW_TIES = 2.0**-14
"""In steps of a full result: by so much reciprocals are less than exact, so that a share a little below the middle
between two results stays below it.

Example: 1 / 2 with float32's 1 / 255, which is a little too large: 127.49999, so 127.
"""

MAX_ERROR = 1 / 4
"""In steps of the result: the largest error that reciprocals may cause. With all roundings it stays below one step."""

Integers = NDArray[np.int64]


def lower_channel_max(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """The largest value of each pixel's channels."""
    x, y = operator.inputs[0], operator.outputs[0]
    reads, largest = _largest(operator, network)
    target = target_of(operator, network)
    if target != network.unlimited(target.zero):
        largest = clamp(largest, target.low, target.high)
    loops = result_loops(network.shape(y), i=padded_channels(network.shape(x)[CHANNEL], network))
    return [Nest(operator.name, operator.nodes, loops, reads, _result(operator, network), largest, 0)]


def lower_softmax(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """Exponentials of the distance to the largest value, times the reciprocal of their sum."""
    x, y = operator.inputs[0], operator.outputs[0]
    channels, widths = network.shape(x)[CHANNEL], network.softmax
    if channels > widths.most_channels:
        raise CompileError(operator, f"{channels} channels", expected=f"at most {widths.most_channels}")
    reciprocal = reciprocal_of(channels, network.quantization(y)[0], widths, network.arithmetic.rounding, operator)
    reads, largest = _largest(operator, network)
    reads["x"] = Access(network.buffer_of[x], identity_index())
    for name, (values, table) in (
        _exponentials(operator, network) | {"guess": (reciprocal.guesses, widths.guesses)}
    ).items():
        constant = network.add_constant(f"{operator.name}.{name}", values[None], table.element)
        reads[name] = Access(constant, (affine(),))
    entries: dict[str, Interval] = {name: network.values(reads[name].tensor) for name in ("e", "low") if name in reads}
    term = _exponential(entries, largest, network.activation("a"), network)
    if "kept" in reads:
        term = _kept("kept", term, 0)
    elif padded_channels(channels, network) > channels:
        mask = np.where(np.arange(padded_channels(channels, network)) < channels, widths.unit, 0)
        constant = network.add_constant(f"{operator.name}.weight", mask, widths.mask)
        reads["weight"] = Access(constant, (affine(("i", 1)),))
        term = make(Op.MIN, term, source("weight", Interval(0, widths.unit)))
    total = across_lanes(Op.LANES_SUM, Expr(Op.SUM, Interval(widths.unit, channels * widths.unit), (term,)))
    share = reciprocal.expression(total, network.values(reads["guess"].tensor))
    factor = _exponential(entries, largest, network.activation("x"), network)
    factor = _kept("keeps", factor, 0) if "keeps" in reads else factor
    product = make(Op.MUL, make(Op.WRAP, share, type=widths.reciprocal), factor)
    target = target_of(operator, network)
    scope = scope_of_rounding(network.arithmetic.rounding)
    rounded = make(Op.ROUND_SHIFT, product, const(reciprocal.shift), scope=scope)
    expr = clamp(make(Op.ADD, rounded, const(target.zero)), target.low, target.high)
    loops = result_loops(network.shape(y), i=padded_channels(channels, network))
    return [Nest(operator.name, operator.nodes, loops, reads, _result(operator, network), expr, 0)]


# -- pieces of the expressions -----------------------------------------------------------------------------------------


def _largest(operator: Operator, network: LoweringNetwork) -> tuple[dict[str, Access], Expr]:
    """The largest of a pixel's channels, and what it reads."""
    x = operator.inputs[0]
    channels = network.shape(x)[CHANNEL]
    padded = padded_channels(channels, network)
    value = network.activation("a")
    values = value.range
    index = (affine(("n", 1)), affine(("i", 1)), affine(("y", 1)), affine(("x", 1)))
    reads = {"a": Access(network.buffer_of[x], index, values.low if padded > channels else None)}
    mask = _mask(operator, network)
    if mask is not None:
        buffer, shape = mask
        n, y, x_index = (
            affine((name, 1)) if shape[d] > 1 else affine() for name, d in (("n", BATCH), ("y", ROW), ("x", COLUMN))
        )
        reads["kept"] = Access(buffer, (n, index[1], y, x_index), 0 if padded > channels else None)
        reads["keeps"] = Access(buffer, (n, affine(("o", 1)), y, x_index))
        value = _kept("kept", value, values.low)
    elif padded > channels:
        limits = np.where(np.arange(padded) < channels, values.high, values.low)
        bias = network.from_sums.bias
        reads["limit"] = Access(network.add_constant(f"{operator.name}.limit", limits, bias), (affine(("i", 1)),))
        value = make(Op.MIN, value, source("limit", values))
    return reads, across_lanes(Op.LANES_MAX, make(Op.MAX_OVER, value))


def _mask(operator: Operator, network: LoweringNetwork) -> tuple[str, tuple[int, ...]] | None:
    """What says which scores count, and its shape."""
    if len(operator.inputs) > 1:
        return network.buffer_of[operator.inputs[1]], network.shape(operator.inputs[1])
    mask = operator.attributes.get("mask", ())
    if not len(mask):
        return None
    return network.add_constant(f"{operator.name}.kept", mask, network.arithmetic.activation), mask.shape


def _kept(mask: str, value: Expr, otherwise: int) -> Expr:
    """The value where a mask is not 0."""
    return make(Op.WHERE, source(mask, Interval(0, 1)), value, const(otherwise))


def _exponentials(operator: Operator, network: LoweringNetwork) -> dict[str, tuple[Integers, TableFormat]]:
    """The table of exponentials of all distances below the largest value; or two, of their high and their low bits.

    Raises CompileError for an index too short.
    """
    scale, _ = network.quantization(operator.inputs[0])
    widths = network.softmax
    index, farthest = widths.exponentials.index, network.arithmetic.activation.interval.span
    if index.interval.high < farthest:
        raise CompileError(
            operator,
            f"the machine looks exponentials up by {index}, and values may be {farthest} apart",
            expected=f"a table for all of {IntegerType(farthest.bit_length(), False)}",
        )
    distances = np.maximum(np.arange(index.interval.low, index.interval.high + 1), 0)
    if widths.low_bits is None:
        return {"e": (_table(distances, scale, widths.unit), widths.exponentials)}
    below = widths.low_bits.table
    one = below.element.interval.high
    others = widths.unit * 2.0**widths.low_bits.shift / one  # the product of both is a unit
    return {
        "e": (_table(distances[:: below.entries], scale, others), widths.exponentials),
        "low": (_table(distances[: below.entries], scale, one), below),
    }


def _table(distances: Integers, scale: float, unit: float) -> Integers:
    return np.rint(np.exp(-distances * np.float64(scale)) * unit).astype(np.int64)


def _exponential(entries: Mapping[str, Interval], largest: Expr, value: Expr, network: LoweringNetwork) -> Expr:
    """The entry for how far a value is below the largest; with two tables, the product of two."""
    widths, below = network.softmax, network.softmax.low_bits
    gap = make(Op.SUB, largest, value)
    distance = make(Op.WRAP, gap, type=widths.exponentials.index)
    if below is None:
        return Expr(Op.LUT, entries["e"], (distance,), name="e")
    high = Expr(Op.LUT, entries["e"], (make(Op.SHIFT_RIGHT, distance, const(below.count)),), name="e")
    low = Expr(Op.LUT, entries["low"], (make(Op.WRAP, gap, type=below.table.index),), name="low")
    scope = scope_of_rounding(network.arithmetic.rounding)
    return make(Op.ROUND_SHIFT, make(Op.MUL, high, low), const(below.shift), scope=scope)


def _result(operator: Operator, network: LoweringNetwork) -> Access:
    return Access(network.buffer_of[operator.outputs[0]], identity_index())


# -- reciprocals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reciprocal:
    """How integers of a sum s become K / s: a table for its leading bits, then a Newton step for each of `twice`."""

    first: int  # bits that the table's index leaves out
    guesses: Integers
    twice: tuple[int, ...]  # by step: 2 · K in the unit of the error
    shift: int  # the result is e · r / 2**shift
    widths: SoftmaxFormat
    rounding: Rounding

    def expression(self, total: Expr, guesses: Interval) -> Expr:
        """The reciprocal of an expression, in the form of the instructions for it."""
        widths, scope = self.widths, scope_of_rounding(self.rounding)
        index = make(Op.WRAP, make(Op.SHIFT_RIGHT, total, const(self.first)), type=widths.guesses.index)
        guess = Expr(Op.LUT, guesses, (index,), name="guess")
        found = make(Op.SHIFT_LEFT, guess, const(widths.guess_shift))
        for twice in self.twice:
            shifted = make(Op.SHIFT_RIGHT, found, const(widths.leading.below))
            leading = make(Op.WRAP, shifted, type=widths.leading.type)
            product = make(Op.ROUND_SHIFT, make(Op.MUL, total, leading), const(widths.error_shift), scope=scope)
            error = make(Op.WRAP, make(Op.SUB, const(twice), product), type=widths.error)
            corrected = make(Op.ROUND_SHIFT, make(Op.MUL, error, leading), const(widths.step_shift), scope=scope)
            found = make(Op.WRAP, corrected, type=widths.corrected)
        return found

    def values(self, sums: Integers) -> Integers:
        """The reciprocals of sums, computed as the expression computes them."""
        found = self.guesses[sums >> self.first] << self.widths.guess_shift
        for twice in self.twice:
            leading = found >> self.widths.leading.below
            error = twice - round_shift(sums * leading, self.widths.error_shift, self.rounding)
            found = round_shift(error * leading, self.widths.step_shift, self.rounding)
        return found


def reciprocal_of(
    channels: int, result_scale: float, widths: SoftmaxFormat, rounding: Rounding, place: str | Named
) -> Reciprocal:
    """With as few Newton steps as the result's scale allows.

    Raises CompileError for a scale out of all proportion, and where the machine's widths leave too large an error.
    """
    unit, most = widths.unit, channels * widths.unit
    first = max(0, most.bit_length() - widths.guesses.index.interval.high.bit_length())
    shift = math.floor(math.log2(HEADROOM * widths.largest_reciprocal * unit * result_scale))
    sums = _samples(first, most, widths)
    constant = (1 - BELOW_TIES / widths.result.count) * 2.0**shift / result_scale
    found: dict[float, Reciprocal] = {}  # by largest error
    for steps in range(MAX_STEPS + 1) if 0 <= shift <= widths.shift.interval.high else ():
        reciprocal = _with_steps(steps, constant, first, most, shift, widths, rounding)
        relative = np.abs(reciprocal.values(sums) * (sums / 2.0**shift * result_scale) - 1)
        largest = np.minimum(unit / (sums * result_scale), widths.result.interval.span)
        error = float((relative * largest).max())
        found.setdefault(error, reciprocal)
        if error <= TOLERANCE or widths.step_shift < 0:
            break
    if not found:
        fact = f"{channels} channels, and a result's scale of {result_scale:g}"
        raise CompileError(place, fact, expected=f"1 / {widths.result.count}")
    if min(found) > MAX_ERROR:
        raise CompileError(
            place,
            f"with the machine's reciprocals of {widths.largest_reciprocal.bit_length()} bits, results for "
            f"{channels} channels would be off by up to {min(found):.2g} steps of {result_scale:g}",
            expected=f"at most {MAX_ERROR:g}: use a larger scale, or a machine with wider reciprocals",
        )
    return found[min(found)]


def _entry_starts(first: int, widths: SoftmaxFormat) -> Integers:
    """The least sum of each entry of the table of guesses."""
    return np.arange(widths.guesses.entries, dtype=np.int64) << first


def _samples(first: int, most: int, widths: SoftmaxFormat) -> Integers:
    """Sums from the least to the greatest, the ends of all entries of the table among them."""
    starts = _entry_starts(first, widths)
    between = np.linspace(starts, starts + (1 << first) - 1, 17).astype(np.int64)
    return np.unique(np.clip(between, widths.unit, most))


def _with_steps(
    steps: int, constant: float, first: int, most: int, shift: int, widths: SoftmaxFormat, rounding: Rounding
) -> Reciprocal:
    """`constant` is K after the last step; each step before it has the K that becomes the next one's."""
    below, constants = widths.leading.below, [constant]
    for _ in range(steps):
        constants.append(math.sqrt(constants[-1] * 2.0 ** (widths.error_shift + widths.step_shift + 2 * below)))
    starts = _entry_starts(first, widths)
    low, high = np.clip(starts, widths.unit, most), np.clip(starts + (1 << first) - 1, widths.unit, most)
    # Of c / s between two ends, 2 · c / (low + high) has the least relative error.
    guesses = np.rint(2 * constants[-1] / (low + high) / (1 << widths.guess_shift)).astype(np.int64)
    guesses = np.minimum(guesses, widths.guesses.element.interval.high)
    twice = tuple(round(2 * each / 2.0 ** (below + widths.error_shift)) for each in reversed(constants[1:]))
    return Reciprocal(first, guesses, twice, shift, widths, rounding)
