"""Normalisation over channels as a nest whose reductions go on across lanes.

    m = round(sum(a) / C · 2**7)                        the mean, in a finer unit than a
    v = sum(round((2**7 · a - m)**2 / 2**n)) + epsilon  C times the variance, in another unit
    s = (clz(v) - 33) >> 1                              so v · 4**s has a 1 in one of its first two bits
    r = lut(t, v · 4**s >> 23) << 8                     about K / √(v · 4**s), then Newton steps
    d = (2**7 · a - m) · (r >> 8) / 2**(15 - s)         the normalised value, in a unit that is the same for all pixels;
                                                        15 - s lies in the low bits of r, which no product takes
    y = clamp(round_shift((d + bias) · scale, shift) + zero, low, high)

All widths and constant shifts are the machine's (`compiler.lower.normalize_format`); those above are sequence16's.

It is all one nest: values that all channels of a pixel share stand in it wherever they are used, and are computed once.
A limit for each channel takes the lanes beyond the last channel out of both sums. Scales may be negative, where the
machine's are. Without a mean (RMSNormalization) a's zero point stands for m, before the shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Operator
from tilewright.compiler.lower.network import (
    SPACE,
    Integers,
    LoweringNetwork,
    affine,
    identity_index,
    padded_channels,
    result_loops,
    target_of,
)
from tilewright.compiler.lower.normalize_format import NormalizeFormat
from tilewright.compiler.lower.reciprocal_root import reciprocal_root
from tilewright.compiler.nest.expressions import across_lanes, requantized, scope_of_rounding, source
from tilewright.compiler.nest.nest import Access, Nest
from tilewright.isa.language.expressions import Expr, Scope, const, make
from tilewright.isa.language.numeric import WORD_BITS, IntegerType, Interval
from tilewright.isa.language.operations import Op

LEAST_FACTOR = 2.0**-22
"""Scales below this add less than a hundredth of a step; with it, a bias beside a scale of 0 still fits its field."""


def lower_normalize(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """Each channel less the mean, times the reciprocal root of the variance, requantised channel by channel."""
    x, y = operator.inputs[0], operator.outputs[0]
    channels, widths = network.shape(x)[CHANNEL], network.normalize
    padded = padded_channels(channels, network)
    _require_room(operator, channels, network)
    units = _units_of(operator, channels, network)
    scope = scope_of_rounding(network.arithmetic.rounding)
    root = reciprocal_root(widths)
    guesses = network.add_constant(f"{operator.name}.guess", root.guesses[None], widths.guesses.element)
    index = (affine(("n", 1)), affine(("i", 1)), affine(("y", 1)), affine(("x", 1)))
    reads = {
        "a": Access(network.buffer_of[x], index, 0 if padded > channels else None),
        "there": _there(operator, channels, network),
        "guess": Access(guesses, (affine(),)),
        "x": Access(network.buffer_of[x], identity_index()),
    }
    nest = _Expressions(network, units, network.quantization(x)[1], scope)
    mean = nest.mean(channels) if operator.attributes["is_centred"] else None
    variance = nest.variance(mean, channels)
    packed = nest.packed(root.expression(nest.leading(variance), network.values(guesses), scope), variance)
    divided = nest.deviation(mean, packed)
    parameters = _parameters(operator, operator.attributes["scale"] * units.result, network)
    for name, (values, element_type) in parameters.items():
        reads[name] = _of_result(f"{operator.name}.{name}", values, element_type, network)
    bias, scale, shift = (source(name, network.values(reads[name].tensor)) for name in parameters)
    expr = requantized(divided, bias, scale, shift, target_of(operator, network), network.from_sums)
    loops = result_loops(network.shape(y), i=padded)
    result = Access(network.buffer_of[y], identity_index())
    return [Nest(operator.name, operator.nodes, loops, reads, result, expr, 0)]


def _require_room(operator: Operator, channels: int, network: LoweringNetwork) -> None:
    """Raise CompileError for rows that no tile can hold: a row is all there before any of it is complete."""
    words = network.normalize.row_words
    if padded_channels(channels, network) > words * network.lanes:
        raise CompileError(
            operator,
            f"normalises rows of {channels} values",
            expected=f"at most {words * network.lanes}, which is what the machine holds of a row at once",
        )


def _there(operator: Operator, channels: int, network: LoweringNetwork) -> Access:
    """A read of 1 for each channel and 0 for the lanes beyond; of one number where there are no such lanes."""
    padded = padded_channels(channels, network)
    values = np.arange(padded) < channels if padded > channels else np.array([True])
    constant = network.add_constant(f"{operator.name}.there", values, network.from_sums.scale)
    return Access(constant, (affine(("i", 1)) if padded > channels else affine(),))


def _of_result(name: str, values: Integers, element_type: IntegerType, network: LoweringNetwork) -> Access:
    """A read of constants that broadcast against [N, C, H, W]: one number, one for each channel, or for each pixel."""
    if (values == values.flat[0]).all():
        return Access(network.add_constant(name, values.reshape(-1)[:1], element_type), (affine(),))
    if values.shape[CHANNEL] == values.size:
        return Access(network.add_constant(name, values.reshape(-1), element_type), (affine(("o", 1)),))
    index = tuple(affine((loop, 1)) if size > 1 else affine() for loop, size in zip(SPACE, values.shape, strict=True))
    return Access(network.add_constant(name, values, element_type), index)


def _parameters(
    operator: Operator, factors: NDArray[np.float64], network: LoweringNetwork
) -> dict[str, tuple[Integers, IntegerType]]:
    """Bias, scale and shift of each channel or pixel; raises CompileError for a bias beyond its field."""
    number = network.from_sums
    y_scale, _ = network.quantization(operator.outputs[0])
    factors = np.where(np.abs(factors) < LEAST_FACTOR, LEAST_FACTOR, factors)
    scales, shifts = network.multipliers(np.abs(factors), number, operator)
    bias = np.rint(operator.attributes["bias"] / y_scale / factors)
    of_each = [np.broadcast_to(operator.attributes[name], bias.shape) for name in ("bias", "scale")]
    field = number.bias
    if np.abs(bias).max(initial=0) > field.interval.high:
        worst = int(np.argmax(np.abs(bias)))
        raise CompileError(
            operator,
            f"its bias of {of_each[0].flat[worst]:g} beside a scale of {of_each[1].flat[worst]:g} does not fit {field}",
            expected="a smaller bias",
        )
    return {
        "bias": (bias.astype(np.int64), field),
        "scale": (np.where(factors < 0, -scales, scales), IntegerType(number.scale_bits + 1, True)),
        "shift": (shifts, number.shift),
    }


# -- units -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Units:
    """How real values and the integers of an operator's expressions go together."""

    square_shift: int  # squares are divided by two to the power of this
    epsilon: int  # in the unit of the sum of squares
    mean_scale: int  # a sum times this, over 2**mean_shift, is the mean in the unit of deviations
    mean_shift: int
    result: float  # one of a normalised value is so many steps of the result, before the operator's own scale


def _units_of(operator: Operator, channels: int, network: LoweringNetwork) -> Units:
    """Squares keep as many bits as their sum has room for, with epsilon in it."""
    widths = network.normalize
    (x_scale, _), (y_scale, _) = network.quantization(operator.inputs[0]), network.quantization(operator.outputs[0])
    step = x_scale / (1 << widths.fraction)
    half = network.arithmetic.activation.interval.span / 2
    epsilon = operator.attributes["epsilon"] / step**2
    most = channels * ((half * (1 << widths.fraction)) ** 2 + epsilon) + channels
    square_shift = max(0, math.ceil(math.log2(most / widths.magnitude.interval.high)))
    if not np.isfinite(most) or square_shift > widths.square_shift.interval.high:
        raise CompileError(
            operator,
            f"epsilon = {operator.attributes['epsilon']:g} beside steps of {x_scale:g}, for {channels} channels",
            expected=f"sums of squares below 2**{widths.magnitude.bits + widths.square_shift.interval.high}",
        )
    factor = (1 << widths.fraction) / channels
    mean_shift = widths.mean_scale.bits - math.frexp(factor)[1]
    mean_scale = round(math.ldexp(factor, mean_shift))
    if mean_scale > widths.mean_scale.interval.high:
        mean_scale, mean_shift = round(math.ldexp(factor, mean_shift - 1)), mean_shift - 1
    root = reciprocal_root(widths)
    # d = (2**7 a - m) · K / √(v · 4**s) / 2**(15 - s), with v = C · variance / 2**square_shift
    unit = root.unit * 2.0**-widths.exponent
    result = math.sqrt(channels * 2.0**-square_shift) / unit / y_scale
    return Units(square_shift, round(channels * epsilon * 2.0**-square_shift), mean_scale, mean_shift, result)


# -- expressions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Expressions:
    """The pieces of the nest's expression, in the form of the instructions for them."""

    network: LoweringNetwork
    units: Units
    zero: int  # of the operand
    scope: Scope

    @property
    def widths(self) -> NormalizeFormat:
        return self.network.normalize

    def mean(self, channels: int) -> Expr:
        there = make(Op.WHERE, source("there", Interval(0, 1)), self.network.activation("a"), const(0))
        bound = Interval(channels * there.range.low, channels * there.range.high)
        total = self.widths.wrapped(across_lanes(Op.LANES_SUM, Expr(Op.SUM, bound, (there,))))
        scaled = make(Op.MUL, total, const(self.units.mean_scale))
        rounded = make(Op.ROUND_SHIFT, scaled, const(self.units.mean_shift), scope=self.scope)
        return self.widths.wrapped(rounded)

    def variance(self, mean: Expr | None, channels: int) -> Expr:
        """The sum of squares, without epsilon."""
        distance = self._distance(self.network.activation("a"), mean)
        square = make(Op.MUL, distance, distance)
        rounded = make(Op.ROUND_SHIFT, square, const(self.units.square_shift), scope=self.scope)
        kept = rounded if self.widths.square is None else make(Op.WRAP, rounded, type=self.widths.square)
        there = make(Op.WHERE, source("there", Interval(0, 1)), kept, const(0))
        bound = Interval(0, self.widths.magnitude.interval.high - self.units.epsilon)
        return self.widths.wrapped(across_lanes(Op.LANES_SUM, Expr(Op.SUM, bound, (there,))))

    def leading(self, variance: Expr) -> Expr:
        magnitude, half = self._magnitude(variance), self._half_zeros(variance)
        at_once = self.widths.most_moved
        if self.widths.magnitude.bits // 2 > at_once:
            moved = self._moved(magnitude, make(Op.MIN, half, const(at_once)))
            magnitude = make(Op.WRAP, moved, type=self.widths.magnitude)
            half = make(Op.SUB, make(Op.MAX, half, const(at_once)), const(at_once))
        return self.widths.wrapped(self._moved(magnitude, half))

    def packed(self, root: Expr, variance: Expr) -> Expr:
        """A root, and in the bits that products leave out by how much these are shifted."""
        below = const(self.widths.packed.below)
        leading = make(Op.SHIFT_LEFT, make(Op.SHIFT_RIGHT, root, below), below)
        most = make(Op.ADD, leading, const(self.widths.exponent))
        return self.widths.wrapped(make(Op.SUB, most, self._half_zeros(variance)))

    def deviation(self, mean: Expr | None, packed: Expr) -> Expr:
        """The normalised value; the root and the shift are packed into one word."""
        value, widths = self.network.activation("x"), self.widths
        leading = make(Op.WRAP, make(Op.SHIFT_RIGHT, packed, const(widths.packed.below)), type=widths.packed.type)
        product = make(Op.MUL, self._distance(value, mean), leading)
        count = make(Op.WRAP, packed, type=widths.count)
        return make(Op.WRAP, make(Op.ROUND_SHIFT, product, count, scope=self.scope), type=widths.divided)

    def _distance(self, value: Expr, mean: Expr | None) -> Expr:
        """How far a value is from the mean, or from the zero point, in the finer unit."""
        if mean is None:
            return self._fine(make(Op.SUB, value, const(self.zero)))
        return make(Op.WRAP, make(Op.SUB, self._fine(value), mean), type=self.widths.deviation)

    def _moved(self, magnitude: Expr, half: Expr) -> Expr:
        """A magnitude moved up by twice so many bits."""
        return make(Op.SHIFT_LEFT, magnitude, make(Op.SHIFT_LEFT, half, const(1)))

    def _fine(self, value: Expr) -> Expr:
        return make(Op.SHIFT_LEFT, value, const(self.widths.fraction))

    def _magnitude(self, variance: Expr) -> Expr:
        return make(Op.WRAP, make(Op.ADD, variance, const(self.units.epsilon)), type=self.widths.magnitude)

    def _half_zeros(self, variance: Expr) -> Expr:
        """Half as many bits as are free above a magnitude."""
        zeros = make(Op.SUB, make(Op.CLZ, self._magnitude(variance)), const(WORD_BITS - self.widths.magnitude.bits))
        return make(Op.SHIFT_RIGHT, zeros, const(1))
