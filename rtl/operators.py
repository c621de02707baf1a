"""The operations of the vector datapath: each computes in as many registers as `isa.timing` gives its circuit stages.

Which table an operation is in follows from its row: `tests/rtl/test_operators.py` names one that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import WORD_BITS, Rounding
from tilewright.isa.language.operations import Op, combining
from tilewright.isa.timing import WORDS_A_STAGE
from tilewright.rtl.delay import delayed


def leading_zeros(x: Value) -> Value:
    """The zeros before the first 1 of `x` as a 64-bit word: those of its own bits, and those that extend it to 64."""
    own_bits = Value.cast(x)
    count = _leading_zeros(own_bits.as_unsigned()) + (WORD_BITS - len(own_bits))
    return Mux(x < 0, 0, count)


def _leading_zeros(bits: Value) -> Value:
    """A tree: the zeros of the high half, or if it has nothing else, its length and the zeros of the low half."""
    if len(bits) == 1:
        return ~bits
    low, high = bits[: len(bits) // 2], bits[len(bits) // 2 :]
    return Mux(high.any(), _leading_zeros(high), len(high) + _leading_zeros(low))


COMBINATIONAL: Mapping[Op, Callable[..., Value]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.SHIFT_RIGHT: lambda a, n: a >> n,
    Op.LESS: lambda a, b: a < b,
    Op.LESS_EQUAL: lambda a, b: a <= b,
    Op.EQUAL: lambda a, b: a == b,
    Op.NOT_EQUAL: lambda a, b: a != b,
    Op.MIN: lambda a, b: Mux(a < b, a, b),
    Op.MAX: lambda a, b: Mux(a < b, b, a),
    Op.ABS: lambda a: Mux(a < 0, -a, a),
    Op.CLZ: leading_zeros,
    Op.WHERE: lambda condition, a, b: Mux(condition != 0, a, b),
}
"""Operations of one step: the value before its register."""


def combined(reduction: Op, a: Value, b: Value) -> Value:
    """The one value that a reduction, over loops or across lanes, makes of two."""
    return COMBINATIONAL[combining(reduction)](a, b)


def build_shift_left(m: Module, value: Value, count: Value, shifted: Signal, stages: int) -> None:
    """Drive `shifted`, which has room for it, with `value << count`: one multiplexer for each bit of the count."""
    assert stages == 1
    shape = shifted.shape()
    for position, bit in enumerate(count):
        wide = Value.cast(value).shift_left(1 << position)[: shape.width]
        value = Mux(bit, wide.as_signed() if shape.signed else wide, value)
    m.d.sync += shifted.eq(value)


def build_product(m: Module, a: Value, b: Value, product: Signal, stages: int) -> None:
    """Drive `product` with `a * b`, the wider first: that is the order in which a multiplier is smaller.

    Of further registers, the first is before the multiplier, so that what chooses its factors has a cycle of its own;
    all others are behind it, for multipliers of FPGAs, which have registers inside.
    """
    wide, narrow = (a, b) if len(a) >= len(b) else (b, a)
    before = min(1, stages - 1)
    factors = [delayed(m, value, before, f"{product.name}_{which}") for which, value in (("a", wide), ("b", narrow))]
    m.d.sync += product.eq(delayed(m, factors[0] * factors[1], stages - 1 - before, f"{product.name}_inside"))


@dataclass(frozen=True, slots=True)
class _Shifted:
    """x / 2**n as its low bits, the first of them below the point; `rest` is whether any bit below that is set.

    `is_outside`: it takes more bits.
    """

    low: Value
    rest: Value
    is_outside: Value


def _shifted(m: Module, x: Value, n: Value, bits: int, registers: int, name: str) -> _Shifted:
    """Shift right by the bits of `n`, the highest first: then ever fewer bits of `x` can still reach the low ones.

    So many `registers` stand between the bits, at about equal distances.
    """
    sign = x[-1] if x.shape().signed else Const(0, 1)
    low: Value = Cat(Const(0, 1), x, sign)
    rest: list[Value] = []
    outside: list[Value] = []
    registers_at = [len(n) * (i + 1) // (registers + 1) for i in range(registers)]
    for level, position in enumerate(reversed(range(len(n)))):
        if here := registers_at.count(level):
            values = {"low": low, "by": n, "sign": sign, "rest": Cat(rest).any(), "outside": Cat(outside).any()}
            low, n, sign, *found = (delayed(m, v, here, f"{name}_{what}_{level}") for what, v in values.items())
            rest, outside = found[:1], found[1:]
        step = 1 << position
        needed = min(len(low), bits + step)
        rest.append(n[position] & low[:step].any())
        shifted = Mux(n[position], Cat(low, sign.replicate(step))[step:], low)
        low = Signal(len(low), name=f"{name}_shifted_{position}")  # a name, or each level would be written out twice
        m.d.comb += low.eq(shifted)
        outside.append((low[needed:] ^ sign.replicate(len(low) - needed)).any())
        low = low[:needed]
    missing = max(0, bits - len(low))
    low = Cat(low, sign.replicate(missing))
    outside.append((low[bits - 1 :] ^ sign.replicate(len(low) - bits + 1)).any())
    return _Shifted(low[:bits], Cat(rest).any(), Cat(outside).any())


def build_round_shift(m: Module, x: Value, n: Value, node: Expr, quotient: Signal, stages: int) -> None:
    """Drive `quotient` with `round_shift(x, n)` through two registers: a shift, then the increment.

    The first keeps floor(x / 2**n), the first bit below it and whether any bit below that is set. Example, ties to
    even: x = 7, n = 1 → floor 3, half 1, rest 0: a tie, and 3 is odd, so 4. If the node has a type, the second
    register takes its least or largest value for what is outside. Further registers divide the shift.
    """
    bits = node.type.bits if node.type is not None else len(quotient) + (not quotient.shape().signed)
    name = quotient.name
    shifted = _shifted(m, x, n, bits + 1, stages - 2, name)
    floor = Signal(signed(bits), name=f"{name}_floor", reset_less=True)
    half = Signal(name=f"{name}_half", reset_less=True)
    rest = Signal(name=f"{name}_rest", reset_less=True)
    m.d.sync += [floor.eq(shifted.low[1:]), half.eq(shifted.low[0]), rest.eq(shifted.rest)]
    match node.rounding:
        case Rounding.EVEN:
            is_up = half & (rest | floor[0])
        case Rounding.UP:
            is_up = half
        case Rounding.AWAY:
            is_up = half & (rest | ~floor[-1])
    if node.type is None:
        m.d.sync += quotient.eq(floor + is_up)
        return
    most, is_outside = node.type.interval.high, Signal(name=f"{name}_is_outside", reset_less=True)
    is_negative = Signal(name=f"{name}_is_negative", reset_less=True)
    m.d.sync += [is_outside.eq(shifted.is_outside), is_negative.eq(delayed(m, x < 0, stages - 2, f"{name}_is_below"))]
    rounded = Signal(signed(bits + 1), name=f"{name}_rounded")  # outside of the type where its highest bits differ
    m.d.comb += rounded.eq(floor + is_up)
    is_beyond = is_outside | (rounded[-1] ^ rounded[-2])
    m.d.sync += quotient.eq(Mux(is_beyond, Mux(is_negative, ~most, most), rounded[:bits].as_signed()))


def build_word_tree(m: Module, *values: Value, stages: int) -> None:
    """Drive the last of `values` with what the others, one for each word, add up to: WORDS_A_STAGE a register."""
    *level, output = values
    for _ in range(stages - 1):
        groups = [level[i : i + WORDS_A_STAGE] for i in range(0, len(level), WORDS_A_STAGE)]
        level = []
        for group in groups:
            total = reduce(add, group)
            register = Signal(total.shape(), name=f"{output.name}_part{len(level)}_of_{len(groups)}", reset_less=True)
            m.d.sync += register.eq(total)
            level.append(register)
    m.d.sync += output.eq(reduce(add, level))


SEQUENTIAL: Mapping[Op, Callable[..., None]] = {
    Op.SHIFT_LEFT: build_shift_left,
    Op.MUL: build_product,
    Op.ROUND_SHIFT: build_round_shift,
    Op.WORDS_SUM: build_word_tree,
}
"""Operations with registers inside, or that need the shape of their result: called with the module, arguments, node
(where the operation has a setting), output register and stages: the registers from arguments to output, with that.
"""


def build_operator(m: Module, node: Expr, args: Sequence[Value], output: Signal, stages: int) -> None:
    """Drive the output register of a unit for operations like `node`, of kind LANE or WORDS, from its arguments."""
    if node.op in SEQUENTIAL:
        settings = () if node.setting is None else (node,)
        SEQUENTIAL[node.op](m, *args, *settings, output, stages=stages)
    else:
        m.d.sync += output.eq(COMBINATIONAL[node.op](*args))


def build_reduction(m: Module, reduction: Op, value: Value, output: Signal, is_first: Value, valid: Value) -> None:
    """Drive the register of a reduction over the reduce loops; only valid iterations count."""
    if combining(reduction) is Op.ADD:  # a gate for each bit in place of a multiplexer: to begin with 0, and to add 0
        m.d.sync += output.eq(Mux(valid & is_first, 0, output) + Mux(valid, value, 0))
        return
    with m.If(valid):
        m.d.sync += output.eq(Mux(is_first, value, combined(reduction, output, value)))
