"""The operations of the vector datapath: each computes in as many registers as `isa.timing` gives its circuit stages.

Which table an operation is in follows from its row: `tests/rtl/test_operators.py` names one that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add

from amaranth.hdl import Module, Mux, Signal, Value, signed

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.language.operations import Op, combining
from tilewright.isa.timing import WORDS_A_STAGE
from tilewright.rtl.delay import delayed
from tilewright.rtl.float_codes import build_nearest, build_steps
from tilewright.rtl.shifts import leading_zeros, shifted_right

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


def build_round_shift(m: Module, x: Value, n: Value, node: Expr, quotient: Signal, stages: int) -> None:
    """Drive `quotient` with `round_shift(x, n)` through two registers: a shift, then the increment.

    The first keeps floor(x / 2**n), the first bit below it and whether any bit below that is set. Example, ties to
    even: x = 7, n = 1 → floor 3, half 1, rest 0: a tie, and 3 is odd, so 4. If the node has a type, the second
    register takes its least or largest value for what is outside. Further registers divide the shift.
    """
    bits = node.type.bits if node.type is not None else len(quotient) + (not quotient.shape().signed)
    name = quotient.name
    shifted = shifted_right(m, x, n, bits + 1, name, stages - 2)
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
    Op.NEAREST: build_nearest,
    Op.STEPS: build_steps,
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
