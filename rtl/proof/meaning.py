"""What a statement means, as bit-vector terms wide enough that they are integers.

Written without the rows of `isa.language.operations` and without the hardware's functions, on purpose: a proof is worth
what its two sides do not share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import z3

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, WORD_BITS, FloatType, IntegerType, Rounding
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op
from tilewright.rtl.proof.logic import all_of

WIDTH = 2 * MAX_INTEGER_BITS + 2
"""A value of a statement, shifted left by any count that the language allows, still fits with its sign."""

Product = Callable[[z3.BitVecRef, z3.BitVecRef], z3.BitVecRef]

LookUp = Callable[[Expr, z3.BitVecRef], z3.BitVecRef]
"""The element that a `lut(…)` finds, from the index less the least of its range."""


def integer(value: int) -> z3.BitVecRef:
    return z3.BitVecVal(value, WIDTH)


def as_integer(bits: z3.BitVecRef, is_signed: bool) -> z3.BitVecRef:
    extend = z3.SignExt if is_signed else z3.ZeroExt
    return extend(WIDTH - bits.size(), bits)


def flag(condition: z3.BoolRef) -> z3.BitVecRef:
    return z3.If(condition, integer(1), integer(0))


@dataclass(frozen=True, slots=True)
class Meaning:
    """Evaluates expressions over integers: `leaves` gives sources and immediates.

    A source's key is its operand, field and word of its block; an immediate's its name, "" and 0.

    `reduction` stands for the value of the reduction over the reduce loops; `product` multiplies,
    `look_up` reads tables. What goes across lanes goes across this one alone.
    """

    leaves: Mapping[tuple[str, str, int], z3.BitVecRef]
    product: Product
    reduction: z3.BitVecRef | None = None
    known: dict[Expr, z3.BitVecRef] = field(default_factory=dict)
    look_up: LookUp | None = None

    def of(self, expr: Expr) -> z3.BitVecRef:
        if expr not in self.known:
            self.known[expr] = self.evaluate(expr)
        return self.known[expr]

    def evaluate(self, expr: Expr) -> z3.BitVecRef:
        if expr.op is Op.CONST:
            return integer(expr.value)
        if expr.op in (Op.SOURCE, Op.IMMEDIATE):
            return self.leaves[expr.name, expr.field, expr.value]
        if expr.op in REDUCTIONS:
            assert self.reduction is not None
            return self.reduction
        args = [self.of(arg) for arg in expr.args]
        if expr.op in ACROSS_LANES:
            return args[0]  # of one lane
        match expr.op:
            case Op.WORDS_SUM:
                return sum(args, integer(0))
            case Op.MUL | Op.DOT:  # a dot product is of one row here
                return self.product(args[0], args[1])
            case Op.WRAP:
                assert expr.type is not None
                return as_integer(z3.Extract(expr.type.bits - 1, 0, args[0]), expr.type.is_signed)
            case Op.ROUND_SHIFT:
                value = rounded(args[0], args[1], expr.rounding)
                return value if expr.type is None else nearest(value, expr.type)
            case Op.STEPS:
                assert isinstance(expr.type, FloatType)
                return steps(args[0], expr.type)
            case Op.NEAREST:
                assert isinstance(expr.type, FloatType)
                return nearest_code(args[0], args[1], expr.type)
            case Op.LUT:
                assert self.look_up is not None
                return self.look_up(expr, args[0] - expr.args[0].range.low)
        return _PLAIN[expr.op](*args)


_PLAIN: Mapping[Op, Callable[..., z3.BitVecRef]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.SHIFT_LEFT: lambda a, n: a << n,
    Op.SHIFT_RIGHT: lambda a, n: a >> n,
    Op.LESS: lambda a, b: flag(a < b),
    Op.LESS_EQUAL: lambda a, b: flag(a <= b),
    Op.EQUAL: lambda a, b: flag(a == b),
    Op.NOT_EQUAL: lambda a, b: flag(a != b),
    Op.MIN: lambda a, b: z3.If(a <= b, a, b),
    Op.MAX: lambda a, b: z3.If(a >= b, a, b),
    Op.ABS: lambda a: z3.If(a >= 0, a, -a),
    Op.CLZ: lambda a: z3.If(a < 0, integer(0), sum((flag(a < 1 << n) for n in range(WORD_BITS)), integer(0))),
    Op.WHERE: lambda condition, a, b: z3.If(condition != 0, a, b),
}

REDUCE: Mapping[Op, Callable[[z3.BitVecRef, z3.BitVecRef], z3.BitVecRef]] = {
    Op.SUM: lambda total, value: total + value,
    Op.MAX_OVER: _PLAIN[Op.MAX],
    Op.MIN_OVER: _PLAIN[Op.MIN],
}
"""A reduction's value after one more iteration."""


def nearest(value: z3.BitVecRef, of: IntegerType) -> z3.BitVecRef:
    """The value of a type that is nearest to a value: the least or the largest, if that is outside."""
    least, largest = integer(of.interval.low), integer(of.interval.high)
    return z3.If(value < least, least, z3.If(value > largest, largest, value))


def rounded(x: z3.BitVecRef, n: z3.BitVecRef, rounding: Rounding) -> z3.BitVecRef:
    """The integer nearest to x / 2**n: of the two neighbours that with the smaller distance, by the rule if equal.

    Distances are in units of 2**-n: 7 / 2 lies 1 above 3 and 1 below 4, a tie.
    """
    one = integer(1) << n
    low = x >> n
    above = x - (low << n)
    below = one - above
    match rounding:
        case Rounding.EVEN:
            takes_high = (low & 1) == 1
        case Rounding.UP:
            takes_high = z3.BoolVal(True)
        case Rounding.AWAY:
            takes_high = x > 0
    return z3.If(above < below, low, z3.If(above > below, low + 1, z3.If(takes_high, low + 1, low)))


def steps(code: z3.BitVecRef, of: FloatType) -> z3.BitVecRef:
    """What a code stands for: by exponent, how often its mantissa with the 1 before it is doubled."""
    magnitude = code & ((1 << of.sign_bit) - 1)
    exponent, mantissa = z3.LShR(magnitude, of.mantissa_bits), magnitude & ((1 << of.mantissa_bits) - 1)
    number = mantissa
    for doublings in range(of.most_doublings + 1):
        number = z3.If(exponent == doublings + 1, (mantissa + (1 << of.mantissa_bits)) << doublings, number)
    number = z3.If(z3.UGT(magnitude, of.greatest), integer(0), number)
    return z3.If(code & (1 << of.sign_bit) != 0, -number, number)


def nearest_code(x: z3.BitVecRef, n: z3.BitVecRef, to: FloatType) -> z3.BitVecRef:
    """The code of the number nearest to x / 2**n steps: the nearest multiple of what numbers lie apart there.

    Codes count these multiples, from one power of two to the next.
    """
    size = z3.If(x < 0, -x, x)
    binade = integer(0)
    for doublings in range(1, to.most_doublings + 2):
        least = integer(1 << (to.mantissa_bits + doublings)) << n
        binade = z3.If(size >= least, integer(doublings), binade)
    code = (binade << to.mantissa_bits) + rounded(size, n + binade, Rounding.EVEN)
    code = z3.If(code > to.greatest, integer(to.greatest), code)
    return z3.If(all_of(x < 0, code != 0), code + (1 << to.sign_bit), code)
