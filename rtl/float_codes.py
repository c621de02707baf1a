"""Floating types in hardware: what a code stands for, the product of two, and the code nearest to a number."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed, unsigned

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import WORD_BITS, FloatType, Interval
from tilewright.rtl.shifts import leading_zeros, shifted_right


@dataclass(frozen=True, slots=True)
class CodeParts:
    """A number as ± significand · 2 ** (doublings - 1) steps, with `doublings` from 1 on."""

    is_negative: Value
    significand: Value
    doublings: Value


def parts_of(code: Value, of: FloatType) -> CodeParts:
    """The parts of a code that is a number's.

    An exponent of 0 has the same steps as one of 1, but no 1 before the mantissa.
    """
    exponent = code[of.mantissa_bits : of.sign_bit]
    has_one = exponent.any()
    return CodeParts(
        code[of.sign_bit], Cat(code[: of.mantissa_bits], has_one), Cat(exponent[0] | ~has_one, exponent[1:])
    )


def numbers_only(code: Value, of: FloatType) -> Value:
    """A code, or that of zero in place of one that is no number's."""
    if of.greatest + 1 == 1 << of.sign_bit:
        return code
    return Mux(code[: of.sign_bit] > of.greatest, 0, code)


def steps(code: Value, of: FloatType) -> Value:
    """What a code stands for, in steps."""
    parts = parts_of(numbers_only(code, of), of)
    magnitude = _shifted_left(parts.significand, parts.doublings, 1, of.values)
    return Mux(parts.is_negative, -magnitude, magnitude)


def magnitude_of_product(a: Value, w: Value, of_a: FloatType, of_w: FloatType, product: Interval) -> Value:
    """That of what two codes of numbers stand for; `product` is the range of such products.

    The significands are multiplied as they are, so what takes room is the shift.
    """
    x, y = parts_of(a, of_a), parts_of(w, of_w)
    return _shifted_left(x.significand * y.significand, x.doublings + y.doublings, 2, product)


def with_signed(total: Value, magnitude: Value, is_negative: Value) -> Value:
    """`total` plus or minus a magnitude, by one adder: -x is ~x + 1, and 1 is its carry."""
    term = Cat(magnitude ^ is_negative.replicate(len(magnitude)), is_negative)
    return (Cat(Const(1, 1), total).as_signed() + Cat(is_negative, term).as_signed())[1:].as_signed()


def _shifted_left(value: Value, count: Value, least: int, numbers: Interval) -> Value:
    """`value << (count - least)`, for a count that is at least that, in as many bits as the greatest number has."""
    return (value << count)[least : least + numbers.high.bit_length()]


def build_steps(m: Module, code: Value, node: Expr, number: Signal, stages: int) -> None:
    """Drive `number` with what a code stands for."""
    assert isinstance(node.type, FloatType) and stages == 1
    m.d.sync += number.eq(steps(code, node.type))


def build_nearest(m: Module, x: Value, n: Value, node: Expr, code: Signal, stages: int) -> None:
    """Drive `code` with that of the number nearest to x / 2**n steps, through four registers.

    They hold the magnitude; how often a step is doubled there, limited to what is surely beyond the greatest number;
    the magnitude in these steps, rounded down, and what is below; the code.
    """
    of, name = node.type, code.name
    assert isinstance(of, FloatType) and stages == 4
    most = of.most_doublings + 2
    is_signed = x.shape().signed

    def register(shape: ShapeLike, of_what: str) -> Signal:
        return Signal(shape, name=f"{name}_{of_what}", reset_less=True)

    magnitude, count = register(unsigned(len(x)), "magnitude"), register(unsigned(len(n)), "count")
    is_negative = register(unsigned(3), "is_negative")
    m.d.sync += [
        magnitude.eq(Mux(x < 0, -x, x) if is_signed else x),
        count.eq(n),
        is_negative.eq(Cat(x < 0 if is_signed else Const(0, 1), is_negative)),
    ]
    highest = Signal(signed(8), name=f"{name}_highest")  # the position of the first 1, less that of a first number's
    m.d.comb += highest.eq(WORD_BITS - 1 - of.mantissa_bits - leading_zeros(magnitude) - count)
    doublings = register(range(most + 1), "doublings")
    shift = register(range(len(x) + (1 << len(n))), "shift")
    waiting = register(unsigned(len(x)), "waiting")
    limited = Signal(range(most + 1), name=f"{name}_limited")
    m.d.comb += limited.eq(Mux(highest < 0, 0, Mux(highest > most, most, highest)))
    m.d.sync += [doublings.eq(limited), shift.eq(count + limited), waiting.eq(magnitude)]
    shifted = shifted_right(m, waiting, shift, of.mantissa_bits + 2, name)
    floor, binade = register(unsigned(of.mantissa_bits + 1), "floor"), register(range(most + 1), "binade")
    half, rest = register(unsigned(1), "half"), register(unsigned(1), "rest")
    m.d.sync += [floor.eq(shifted.low[1:]), half.eq(shifted.low[0]), rest.eq(shifted.rest), binade.eq(doublings)]
    rounded = Signal(range(2 << of.sign_bit), name=f"{name}_rounded")
    m.d.comb += rounded.eq((binade << of.mantissa_bits) + floor + (half & (rest | floor[0])))
    limit = Mux(rounded > of.greatest, of.greatest, rounded)
    m.d.sync += code.eq(Cat(limit[: of.sign_bit], is_negative[2] & rounded.any()))
