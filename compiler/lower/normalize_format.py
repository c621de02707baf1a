"""The widths with which a machine normalises rows, from its statements.

Each is in one form of expression, wherever a vector instruction has it:

    wrap((a << fraction) - m, …)                 how far a value is from the mean, squared
    round_shift(wrap(…) * wrap(…), n)            that square
    wrap(round_shift(…), …)                      the type that it is wrapped to, where more would not fit a statement
    wrap(round_shift(a * scale, n), …)           a sum times a constant: its mean
    wrap(a + epsilon, …)                         the sum of squares
    … + constant - ((clz(…) - n) >> 1)           by how much a product is shifted, in the low bits of a root
    round_shift(… * wrap(r >> n, …), wrap(r, …)) the bits of a root above that shift, and the shift
    wrap(round_shift(…, wrap(r, …)), …)          the normalised value

The table of guesses, the leading bits of a root and the errors in Newton steps are as in a softmax
(`compiler.lower.softmax_format`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.arithmetic import Arithmetic
from tilewright.compiler.lower.softmax_format import (
    LeadingBits,
    SoftmaxFormat,
    TableFormat,
    first_found,
    leading_bits,
)
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, make, walk
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, WORD_BITS, IntegerType, Rounding, type_of
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class NormalizeFormat:
    """What the instructions for normalisation can hold."""

    fraction: int  # bits that deviations have after the point of an activation
    deviation: IntegerType
    square_shift: IntegerType
    square: IntegerType | None  # of a shifted square; None: the statement needs no such limit
    mean_scale: IntegerType
    magnitude: IntegerType  # of a sum of squares
    exponent: int  # the shift of a product with the root of a magnitude that has no zeros before it
    count: IntegerType
    divided: IntegerType  # of a normalised value
    guesses: TableFormat
    guess_shift: int
    leading: LeadingBits  # of a root in a Newton step
    packed: LeadingBits  # of a root in a normalised value: those above the count
    minuend: IntegerType
    rounding: Rounding
    row_words: int  # of the memory of sums: it holds what is left of a whole row
    sums: IntegerType  # which all steps are wrapped to
    result: IntegerType

    @property
    def most_moved(self) -> int:
        """Half as many bits as a magnitude can move up at once, in what a statement's values hold."""
        return (MAX_INTEGER_BITS - self.magnitude.bits) // 2

    def wrapped(self, value: Expr) -> Expr:
        """A value as a word of sums holds it."""
        return make(Op.WRAP, value, type=self.sums)


def normalize_format(machine: Machine, softmax: SoftmaxFormat, arithmetic: Arithmetic) -> NormalizeFormat:
    """The widths that the machine's statements have.

    One that no statement has is such as activations and sums suggest: selection finds no instruction for the
    expression, and says so.
    """
    nodes = [node for format in formats_with(machine, Role.COMPUTES) for node in walk(format.statement.expr)]
    sums, half = arithmetic.sum, arithmetic.sum.bits // 2
    suggested = arithmetic.activation.bits - 1, IntegerType(half, True)
    fraction, deviation = first_found(_deviation, nodes, suggested)
    # plus a bias, times a scale, it fits the bits of a statement's values
    number = arithmetic.requantization(sums, arithmetic.activation)
    divided = IntegerType(min(sums.bits, WORD_BITS - 2 - number.scale_bits), True)
    magnitude = first_found(_magnitude, nodes, IntegerType(sums.bits - 1, False))
    return NormalizeFormat(
        fraction=fraction,
        deviation=deviation,
        square_shift=first_found(_square_shift, nodes, IntegerType((sums.bits - 1).bit_length(), False)),
        square=next((found for node in nodes if (found := _square(node)) is not None), None),
        mean_scale=first_found(_mean_scale, nodes, IntegerType(half, False)),
        magnitude=magnitude,
        exponent=first_found(_exponent, nodes, magnitude.bits // 2),
        count=first_found(_count, nodes, number.shift),
        divided=first_found(_divided, nodes, divided),
        guesses=softmax.guesses,
        guess_shift=softmax.guess_shift,
        leading=softmax.leading,
        packed=first_found(_packed, nodes, softmax.leading),
        minuend=softmax.minuend,
        rounding=arithmetic.rounding,
        row_words=_row_words(machine, sums),
        sums=sums,
        result=arithmetic.activation,
    )


def _row_words(machine: Machine, sums: IntegerType) -> int:
    """The depth of the memory of sums."""
    memories = machine.memories.values()
    depths = (each.depth for each in memories if not each.element.fields and each.element.type == sums)
    return max(depths, default=0)


def _deviation(node: Expr) -> tuple[int, IntegerType] | None:
    match node:
        case Expr(
            op=Op.WRAP,
            type=IntegerType() as deviation,
            args=(Expr(op=Op.SUB, args=(Expr(op=Op.SHIFT_LEFT, args=(_, Expr(op=Op.CONST, value=fraction))), _)),),
        ):
            return fraction, deviation
    return None


def _square_shift(node: Expr) -> IntegerType | None:
    match node:
        case Expr(op=Op.ROUND_SHIFT, args=(Expr(op=Op.MUL, args=(a, b)), Expr(op=Op.IMMEDIATE, range=counts))):
            return type_of(counts) if a == b and _deviation(a) is not None else None
    return None


def _square(node: Expr) -> IntegerType | None:
    return node.type if node.op is Op.WRAP and _square_shift(node.args[0]) is not None else None


def _mean_scale(node: Expr) -> IntegerType | None:
    match node:
        case Expr(
            op=Op.WRAP,
            args=(
                Expr(
                    op=Op.ROUND_SHIFT,
                    args=(
                        Expr(op=Op.MUL, args=(Expr(op=Op.SOURCE), Expr(op=Op.IMMEDIATE, range=values))),
                        Expr(op=Op.IMMEDIATE),
                    ),
                ),
            ),
        ):
            return type_of(values)
    return None


def _magnitude(node: Expr) -> IntegerType | None:
    match node:
        case Expr(
            op=Op.CLZ,
            args=(
                Expr(op=Op.WRAP, type=IntegerType() as kept, args=(Expr(op=Op.ADD, args=(_, Expr(op=Op.IMMEDIATE))),)),
            ),
        ):
            return kept
    return None


def _exponent(node: Expr) -> int | None:
    match node:
        case Expr(op=Op.SUB, args=(Expr(op=Op.ADD, args=(_, Expr(op=Op.CONST, value=constant))), half)):
            return constant if half.op is Op.SHIFT_RIGHT and any(inner.op is Op.CLZ for inner in walk(half)) else None
    return None


def _count(node: Expr) -> IntegerType | None:
    match node:
        case Expr(op=Op.ROUND_SHIFT, args=(_, Expr(op=Op.WRAP, type=IntegerType() as count, args=(counted,)))):
            return count if counted.op is Op.SOURCE else None
    return None


def _packed(node: Expr) -> LeadingBits | None:
    return leading_bits(node.args[0]) if _count(node) is not None else None


def _divided(node: Expr) -> IntegerType | None:
    return node.type if node.op is Op.WRAP and _count(node.args[0]) is not None else None
