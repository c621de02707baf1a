"""The operators of the vector datapath: each computes in as many registers as `isa.timing` gives it stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed

from tilewright.isa.language.numeric import Rounding
from tilewright.isa.language.operations import Op


def _minimum(a: Value, b: Value) -> Value:
    return Mux(a < b, a, b)


def _maximum(a: Value, b: Value) -> Value:
    return Mux(a < b, b, a)


COMBINATIONAL: Mapping[Op, Callable[..., Value]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.SHIFT_RIGHT: lambda a, n: a >> n,
    Op.LESS: lambda a, b: a < b,
    Op.LESS_EQUAL: lambda a, b: a <= b,
    Op.EQUAL: lambda a, b: a == b,
    Op.NOT_EQUAL: lambda a, b: a != b,
    Op.MIN: _minimum,
    Op.MAX: _maximum,
    Op.ABS: lambda a: Mux(a < 0, -a, a),
    Op.WHERE: lambda condition, a, b: Mux(condition != 0, a, b),
}
"""Operators of one stage: the value before its register."""

REDUCING: Mapping[Op, Callable[[Value, Value], Value]] = {
    Op.SUM: lambda total, value: total + value,
    Op.MAX_OVER: _maximum,
    Op.MIN_OVER: _minimum,
}
"""Reductions: the new value of the register from its old value and the iteration's."""


def shifted_left(value: Value, count: Value, shape: Shape) -> Value:
    """`value << count` in a shape that the result is known to fit: one multiplexer for each bit of the count."""
    for position, bit in enumerate(count):
        wide = Value.cast(value).shift_left(1 << position)[: shape.width]
        value = Mux(bit, wide.as_signed() if shape.signed else wide, value)
    return value


def build_product(m: Module, a: Value, b: Value, product: Signal) -> None:
    """Drive `product` with `a * b` through two registers: the products of both halves of the wider, then their sum."""
    wide, narrow = (a, b) if len(a) >= len(b) else (b, a)
    middle = len(wide) // 2
    high = wide[middle:].as_signed() if wide.shape().signed else wide[middle:]
    low_product = Signal((wide[:middle] * narrow).shape(), name=f"{product.name}_low", reset_less=True)
    high_product = Signal((high * narrow).shape(), name=f"{product.name}_high", reset_less=True)
    m.d.sync += [
        low_product.eq(wide[:middle] * narrow),
        high_product.eq(high * narrow),
        product.eq(low_product + high_product.shift_left(middle)),
    ]


def build_round_shift(m: Module, x: Value, n: Value, rounding: Rounding, quotient: Signal) -> None:
    """Drive `quotient` with `round_shift(x, n)` through two registers: a shift, then the increment.

    The first keeps floor(x / 2**n), the first bit below it and whether any bit below that is set. Example, ties to
    even: x = 7, n = 1 → floor 3, half 1, rest 0: a tie, and 3 is odd, so 4.
    """
    doubled = Cat(Const(0, 1), x, Const(0, 0) if x.shape().signed else Const(0, 1)).as_signed()
    ones = (1 << len(n)) - 1
    below_half = (Const((1 << ones) - 1, max(ones, 1)) >> ~n)[: len(doubled)]  # n ones
    name = quotient.name
    floor_and_half = Signal(signed(len(doubled)), name=f"{name}_floor", reset_less=True)
    rest = Signal(name=f"{name}_rest", reset_less=True)
    is_negative = Signal(name=f"{name}_is_negative", reset_less=True)
    m.d.sync += [
        floor_and_half.eq(doubled >> n),
        rest.eq((doubled[: len(below_half)] & below_half).any()),
        is_negative.eq(x < 0),
    ]
    floor, half = floor_and_half[1:].as_signed(), floor_and_half[0]
    match rounding:
        case Rounding.EVEN:
            is_up = half & (rest | floor[0])
        case Rounding.UP:
            is_up = half
        case Rounding.AWAY:
            is_up = half & (rest | ~is_negative)
    m.d.sync += quotient.eq(floor + is_up)


def build_operator(
    m: Module, op: Op, args: Sequence[Value], rounding: Rounding, output: Signal, is_first: Value, valid: Value
) -> None:
    """Drive a unit's output register from its arguments; `is_first` and `valid` are for reductions."""
    if op in REDUCING:
        with m.If(valid):
            m.d.sync += output.eq(Mux(is_first, args[0], REDUCING[op](output, args[0])))
    elif op is Op.MUL:
        build_product(m, args[0], args[1], output)
    elif op is Op.ROUND_SHIFT:
        build_round_shift(m, args[0], args[1], rounding, output)
    elif op is Op.SHIFT_LEFT:
        m.d.sync += output.eq(shifted_left(args[0], args[1], output.shape()))
    else:
        m.d.sync += output.eq(COMBINATIONAL[op](*args))
