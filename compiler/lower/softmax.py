"""Softmax and the largest value over channels, as nests whose reductions go on across lanes.

    m = lanes_max(max_over(a))                          the largest of a pixel's channels
    s = lanes_sum(sum(lut(e, m - a)))                   e[d] = exp(-d · scale), of 16 bits
    r = lut(guess, s >> shift) << 8                     about K / s, then Newton steps r ← r · (2 - s · r / K):
    r = (r >> 8) · (2 · k - s · (r >> 8) / 2**8) / 2**16        each squares the relative error
    y = clamp(round_shift(r · lut(e, m - a), n) + zero, low, high)

All of it is one nest: what is the same for all channels of a pixel stands in it wherever it is used and is computed
once. A step multiplies r by a constant as well, so that K becomes what the result's scale asks for:
K' = (K / 2**8)² / 2**24.

Channels fill whole vectors: lanes beyond them hold anything, and a limit for each channel takes them out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, Named
from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.lower.network import Network, activation, affine, identity_index, result_loops, target_of
from tilewright.compiler.nest.element_types import ACTIVATION
from tilewright.compiler.nest.expressions import across_lanes, clamp, scope_of_rounding, source
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, round_shift
from tilewright.isa.language.statement import Expr, Op, const, make

ENTRY, FACTOR, RECIPROCAL = IntegerType(16, False), IntegerType(16, False), IntegerType(24, False)
INDEX, WIDE, BIAS = IntegerType(8, False), IntegerType(32, True), IntegerType(32, True)
UNIT = ENTRY.interval.high
"""What stands for the exponential of 0, and so for the least sum."""

BELOW = RECIPROCAL.bits - FACTOR.bits
"""Bits of a reciprocal that a Newton step leaves out."""

ERROR_SHIFT, STEP_SHIFT = 8, 16
"""What products of a step lose: s · (r >> 8), of 32 bits, becomes 24; that times r >> 8, of 40 bits, becomes 24."""

TOLERANCE = 1 / 400
"""In steps of the result: Newton steps go on until reciprocals are the cause of no larger error."""

MAX_STEPS = 8

HEADROOM = 1 - 1 / 64
"""Of the largest reciprocal, so that none before the last Newton step, whose constants are larger, is too large."""

BELOW_TIES = 1 - 2.0**-22
"""Of the reciprocal, so that what lies a little below the middle between two results stays there.

Example: 1 / 2 with float32's 1 / 255, which is a little too large: 127.49999, so 127.
"""

MAX_ERROR = 1 / 4
"""In steps of the result: what reciprocals may be off by, together with all roundings never a whole step."""

MAX_CHANNELS = 1 << 14
"""So that sums stay far inside int32, and guesses above 0."""

Integers = NDArray[np.int64]


def lower_channel_max(operator: Operator, network: Network) -> list[Nest]:
    """The largest value of each pixel's channels."""
    x, y = operator.inputs[0], operator.outputs[0]
    reads, largest = _largest(operator, network)
    target = target_of(operator, network)
    if (target.low, target.high) != (ACTIVATION.interval.low, ACTIVATION.interval.high):
        largest = clamp(largest, target.low, target.high)
    loops = result_loops(network.shape(y), i=_padded(network.shape(x)[1], network))
    return [Nest(operator.name, operator.nodes, loops, reads, _result(operator, network), largest, 0)]


def lower_softmax(operator: Operator, network: Network) -> list[Nest]:
    """Exponentials of the distance to the largest value, times the reciprocal of their sum."""
    x, y = operator.inputs[0], operator.outputs[0]
    channels = network.shape(x)[1]
    if channels > MAX_CHANNELS:
        raise CompileError(operator, f"{channels} channels", expected=f"at most {MAX_CHANNELS}")
    scale, _ = network.quantization(x)
    target = target_of(operator, network)
    reciprocal = reciprocal_of(channels, network.quantization(y)[0], network.number.rounding, operator)
    reads, largest = _largest(operator, network)
    reads["x"] = Access(network.buffer_of[x], identity_index())
    exponentials = np.rint(np.exp(-np.arange(1 << INDEX.bits) * np.float64(scale)) * UNIT)
    for name, table in (("e", exponentials), ("guess", reciprocal.guesses)):
        constant = network.add_constant(f"{operator.name}.{name}", table[None], ENTRY)
        reads[name] = Access(constant, (affine(),))
    term = _exponential(network.values(reads["e"].tensor), largest, activation("a"))
    if _padded(channels, network) > channels:
        weights = np.where(np.arange(_padded(channels, network)) < channels, UNIT, 0)
        reads["weight"] = Access(network.add_constant(f"{operator.name}.weight", weights, ENTRY), (affine(("i", 1)),))
        term = make(Op.MIN, term, source("weight", Interval(0, UNIT)))
    total = across_lanes(Op.LANES_SUM, Expr(Op.SUM, Interval(UNIT, channels * UNIT), (term,)))
    share = reciprocal.expression(total, network.values(reads["guess"].tensor))
    factor = _exponential(network.values(reads["e"].tensor), largest, activation("x"))
    product = make(Op.MUL, make(Op.WRAP, share, type=RECIPROCAL), factor)
    scope = scope_of_rounding(network.number.rounding)
    rounded = make(Op.ROUND_SHIFT, product, const(reciprocal.shift), scope=scope)
    expr = clamp(make(Op.ADD, rounded, const(target.zero)), target.low, target.high)
    loops = result_loops(network.shape(y), i=_padded(channels, network))
    return [Nest(operator.name, operator.nodes, loops, reads, _result(operator, network), expr, 0)]


# -- parts of the expressions ------------------------------------------------------------------------------------------


def _padded(channels: int, network: Network) -> int:
    vector = network.lanes * network.group
    return -(-channels // vector) * vector


def _largest(operator: Operator, network: Network) -> tuple[dict[str, Access], Expr]:
    """The largest of a pixel's channels, and what it reads."""
    x = operator.inputs[0]
    channels = network.shape(x)[1]
    padded = _padded(channels, network)
    low, high = ACTIVATION.interval.low, ACTIVATION.interval.high
    index = (affine(("n", 1)), affine(("i", 1)), affine(("y", 1)), affine(("x", 1)))
    reads = {"a": Access(network.buffer_of[x], index, low if padded > channels else None)}
    value = activation("a")
    if padded > channels:
        limits = np.where(np.arange(padded) < channels, high, low)
        reads["limit"] = Access(network.add_constant(f"{operator.name}.limit", limits, BIAS), (affine(("i", 1)),))
        value = make(Op.MIN, value, source("limit", ACTIVATION.interval))
    return reads, across_lanes(Op.LANES_MAX, make(Op.MAX_OVER, value))


def _exponential(values: Interval, largest: Expr, value: Expr) -> Expr:
    distance = make(Op.WRAP, make(Op.SUB, largest, value), type=INDEX)
    return Expr(Op.LUT, values, (distance,), name="e")


def _result(operator: Operator, network: Network) -> Access:
    return Access(network.buffer_of[operator.outputs[0]], identity_index())


# -- reciprocals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reciprocal:
    """How integers of a sum s become K / s: a table for its leading bits, then a Newton step for each of `twice`."""

    first: int  # bits that the table's index leaves out
    guesses: Integers
    twice: tuple[int, ...]  # by step: 2 · K / 2**16
    shift: int  # the result is e · r / 2**shift
    rounding: Rounding

    def expression(self, total: Expr, guesses: Interval) -> Expr:
        """The reciprocal of an expression, in the form of the instructions for it."""
        scope = scope_of_rounding(self.rounding)
        index = make(Op.WRAP, make(Op.SHIFT_RIGHT, total, const(self.first)), type=INDEX)
        found = make(Op.SHIFT_LEFT, Expr(Op.LUT, guesses, (index,), name="guess"), const(BELOW))
        for twice in self.twice:
            leading = make(Op.WRAP, make(Op.SHIFT_RIGHT, found, const(BELOW)), type=FACTOR)
            product = make(Op.ROUND_SHIFT, make(Op.MUL, total, leading), const(ERROR_SHIFT), scope=scope)
            error = make(Op.WRAP, make(Op.SUB, const(twice), product), type=WIDE)
            corrected = make(Op.ROUND_SHIFT, make(Op.MUL, error, leading), const(STEP_SHIFT), scope=scope)
            found = make(Op.WRAP, corrected, type=WIDE)
        return found

    def values(self, sums: Integers) -> Integers:
        """The reciprocals of sums, computed as the expression computes them."""
        found = self.guesses[sums >> self.first] << BELOW
        for twice in self.twice:
            leading = found >> BELOW
            error = twice - round_shift(sums * leading, ERROR_SHIFT, self.rounding)
            found = round_shift(error * leading, STEP_SHIFT, self.rounding)
        return found


def reciprocal_of(channels: int, result_scale: float, rounding: Rounding, place: str | Named) -> Reciprocal:
    """With as few Newton steps as the result's scale allows; raises CompileError for a scale out of all proportion."""
    most = channels * UNIT
    first = max(0, most.bit_length() - INDEX.bits)
    shift = math.floor(math.log2(HEADROOM * RECIPROCAL.interval.high * UNIT * result_scale))
    sums = _samples(most, first)
    found: dict[float, Reciprocal] = {}  # by largest error
    for steps in range(MAX_STEPS + 1) if 0 <= shift < 1 << 6 else ():
        reciprocal = _with_steps(steps, BELOW_TIES * 2.0**shift / result_scale, first, most, shift, rounding)
        relative = np.abs(reciprocal.values(sums) * (sums / 2.0**shift * result_scale) - 1)
        largest = np.minimum(UNIT / (sums * result_scale), ACTIVATION.interval.high - ACTIVATION.interval.low)
        error = float((relative * largest).max())
        found.setdefault(error, reciprocal)
        if error <= TOLERANCE:
            break
    if not found or min(found) > MAX_ERROR:
        raise CompileError(place, f"{channels} channels, and a result's scale of {result_scale:g}", expected="1 / 256")
    return found[min(found)]


def _samples(most: int, first: int) -> Integers:
    """Sums from the least to the greatest, the ends of all entries of the table among them."""
    starts = np.arange(1 << INDEX.bits, dtype=np.int64) << first
    parts = np.linspace(starts, starts + (1 << first) - 1, 17).astype(np.int64)
    return np.unique(np.clip(parts, UNIT, most))


def _with_steps(
    steps: int, constant: float, first: int, most: int, shift: int, rounding: Rounding
) -> Reciprocal:
    """`constant` is K after the last step; each step before it has the K that becomes the next one's."""
    constants = [constant]
    for _ in range(steps):
        constants.append(math.sqrt(constants[-1] * 2.0 ** (ERROR_SHIFT + STEP_SHIFT + 2 * BELOW)))
    starts = np.arange(1 << INDEX.bits, dtype=np.int64) << first
    low, high = np.clip(starts, UNIT, most), np.clip(starts + (1 << first) - 1, UNIT, most)
    # Of c / s between two ends, 2 · c / (low + high) has the least relative error.
    guesses = np.rint(2 * constants[-1] / (low + high) / (1 << BELOW)).astype(np.int64)
    twice = tuple(round(2 * each / 2.0 ** (BELOW + ERROR_SHIFT)) for each in reversed(constants[1:]))
    return Reciprocal(first, np.minimum(guesses, UNIT), twice, shift, rounding)
