"""The widths with which a machine computes softmax (tables, reciprocals, Newton steps), from its statements.

Each is in one form of expression, wherever a vector instruction has it:

    lut(t, wrap(b - a, …))                       the table of exponentials: its elements, and the type of its index
    round_shift(lut(t, wrap(b - a, …) >> n) * lut(u, wrap(b - a, …)), n)
                                                 two such tables in place of one, for the high and the low bits of b - a
    min(lut(t, …), p.scale)                      the parameter that keeps a lane in the sum or takes it out
    wrap(lanes_sum(…), …)                        the sum
    lut(t, wrap(a >> n, …)) << shift             the table of first guesses
    a * wrap(b >> below, …)                      the leading bits of a reciprocal, which a Newton step multiplies by
    wrap(twice - round_shift(…, n), …)           the error of a reciprocal, and the constant that it is taken from
    wrap(round_shift(a * wrap(…), n), …)         the corrected reciprocal
    round_shift(wrap(r, …) * lut(t, …), shift)   the reciprocal that the result is computed with

Where one table has the exponentials of all distances, there may be two: e to the power of a sum is a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tilewright.compiler.arithmetic import Arithmetic
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType, type_of
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

Width = TypeVar("Width")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table's elements, and the type that its index is wrapped to."""

    element: IntegerType
    index: IntegerType

    @property
    def entries(self) -> int:
        return self.index.count


@dataclass(frozen=True, slots=True)
class LowBits:
    """A second table, of the exponentials of a distance's low bits; the first one then has those of the bits above."""

    table: TableFormat
    shift: int  # of the product of two entries

    @property
    def count(self) -> int:
        return self.table.index.bits


Exponentials = tuple[TableFormat, LowBits | None]
"""Its index is a distance; with low bits, it has an entry for each value of the bits above these."""


@dataclass(frozen=True, slots=True)
class LeadingBits:
    """The bits of a reciprocal that take part in a product: all but the `below` lowest, as a number of this type."""

    below: int
    type: IntegerType


@dataclass(frozen=True, slots=True)
class SoftmaxFormat:
    """What the softmax instructions of a machine can hold."""

    exponentials: TableFormat
    low_bits: LowBits | None  # None: one table has all distances
    mask: IntegerType  # of the parameter that takes lanes out of the sum
    sums: IntegerType
    guesses: TableFormat
    guess_shift: int  # a guess is an element of its table times 2**guess_shift
    leading: LeadingBits
    minuend: IntegerType  # of the constant that the error is taken from
    error: IntegerType
    corrected: IntegerType
    reciprocal: IntegerType
    shift: IntegerType  # of the count by which the result is shifted
    result: IntegerType  # of what is shifted

    @property
    def unit(self) -> int:
        """What stands for the exponential of 0, and so for the least sum."""
        one = self.exponentials.element.interval.high
        if self.low_bits is not None:
            one = (one * self.low_bits.table.element.interval.high) >> self.low_bits.shift
        return min(one, self.mask.interval.high)

    @property
    def largest_reciprocal(self) -> int:
        """The greatest that every instruction takes as it is."""
        leading = ((self.leading.type.interval.high + 1) << self.leading.below) - 1
        return min(self.reciprocal.interval.high, leading, self.corrected.interval.high)

    @property
    def leading_bits(self) -> int:
        """Bits of a reciprocal that a product keeps."""
        return self.largest_reciprocal.bit_length() - self.leading.below

    @property
    def error_bits(self) -> int:
        """Bits of K in the unit of the error: twice as much is the constant, and an error has a sign besides."""
        exact = self.unit.bit_length() + self.leading_bits
        return min(self.minuend.interval.high.bit_length() - 2, self.error.bits - 3, exact)

    @property
    def error_shift(self) -> int:
        """What a product of a sum with a reciprocal's leading bits is shifted by, to be in the unit of the error."""
        return self.unit.bit_length() + self.leading_bits - self.error_bits

    @property
    def step_shift(self) -> int:
        """What a product of an error with a reciprocal's leading bits is shifted by, to be a reciprocal."""
        return self.error_bits - self.leading.below

    @property
    def most_channels(self) -> int:
        """So many that sums stay far inside their type, and guesses above 0."""
        return 1 << max(0, min(self.sums.bits - self.unit.bit_length(), self.leading_bits) - 2)


def softmax_format(machine: Machine, arithmetic: Arithmetic) -> SoftmaxFormat:
    """The widths that the machine's statements have.

    One that no statement has is such as sums and activations suggest: selection finds no instruction for the
    expression, and says so.
    """
    nodes = [node for format in formats_with(machine, Role.COMPUTES) for node in walk(format.statement.expr)]
    sums, half = arithmetic.sum, IntegerType(arithmetic.sum.bits // 2, False)
    index = IntegerType(arithmetic.activation.bits, False)
    guesses, guess_shift = first_found(_guesses, nodes, (TableFormat(half, index), index.bits))
    of_one_table: Exponentials = first_found(_exponentials, nodes, TableFormat(half, index)), None
    exponentials, low_bits = first_found(_in_two_tables, nodes, of_one_table)
    return SoftmaxFormat(
        exponentials=exponentials,
        low_bits=low_bits,
        mask=first_found(_mask, nodes, half),
        sums=first_found(_sums, nodes, sums),
        guesses=guesses,
        guess_shift=guess_shift,
        leading=first_found(leading_bits, nodes, LeadingBits(index.bits, half)),
        minuend=first_found(_minuend, nodes, IntegerType(half.bits + index.bits + 2, False)),
        error=first_found(_error, nodes, sums),
        corrected=first_found(_corrected, nodes, sums),
        reciprocal=first_found(_reciprocal, nodes, IntegerType(half.bits + index.bits, False)),
        shift=first_found(_shift, nodes, arithmetic.requantization(sums, arithmetic.activation).shift),
        result=arithmetic.activation,
    )


def first_found(read: Callable[[Expr], Width | None], nodes: Sequence[Expr], missing: Width) -> Width:
    return next((found for node in nodes if (found := read(node)) is not None), missing)


def _exponentials(node: Expr) -> TableFormat | None:
    match node:
        case Expr(op=Op.LUT, range=values, args=(Expr(op=Op.WRAP, type=IntegerType() as index, args=(distance,)),)):
            return TableFormat(type_of(values), index) if distance.op is Op.SUB else None
    return None


def _in_two_tables(node: Expr) -> Exponentials | None:
    match node:
        case Expr(op=Op.ROUND_SHIFT, args=(Expr(op=Op.MUL, args=(high, low)), Expr(op=Op.CONST, value=shift))):
            of_high, of_low = _of_high_bits(high), _exponentials(low)
            if of_high is not None and of_low is not None and of_high[1] == of_low.index.bits:
                return of_high[0], LowBits(of_low, shift)
    return None


def _of_high_bits(node: Expr) -> tuple[TableFormat, int] | None:
    """A table of the bits of a distance above its lowest, and how many lie below."""
    match node:
        case Expr(op=Op.LUT, range=values, args=(Expr(op=Op.SHIFT_RIGHT, args=(distance, below)),)):
            if distance.op is Op.WRAP and isinstance(distance.type, IntegerType) and below.op is Op.CONST:
                return TableFormat(type_of(values), distance.type), below.value
    return None


def _is_exponential(node: Expr) -> bool:
    return _exponentials(node) is not None or _in_two_tables(node) is not None


def _mask(node: Expr) -> IntegerType | None:
    if node.op is not Op.MIN or not any(map(_is_exponential, node.args)):
        return None
    return next((type_of(arg.range) for arg in node.args if arg.op is Op.SOURCE), None)


def _sums(node: Expr) -> IntegerType | None:
    match node:
        case Expr(op=Op.WRAP, type=IntegerType() as sums, args=(Expr(op=Op.LANES_SUM),)) if any(
            _exponentials(inner) for inner in walk(node)
        ):
            return sums
    return None


def _guesses(node: Expr) -> tuple[TableFormat, int] | None:
    match node:
        case Expr(
            op=Op.SHIFT_LEFT,
            args=(
                Expr(op=Op.LUT, range=values, args=(Expr(op=Op.WRAP, type=IntegerType() as index),)),
                Expr(op=Op.CONST, value=shift),
            ),
        ):
            return TableFormat(type_of(values), index), shift
    return None


def leading_bits(node: Expr) -> LeadingBits | None:
    """Those of the first factor of a product that are wrapped to a type."""
    for factor in _factors(node):
        match factor:
            case Expr(
                op=Op.WRAP,
                type=IntegerType() as kept,
                args=(Expr(op=Op.SHIFT_RIGHT, args=(_, Expr(op=Op.CONST, value=below))),),
            ):
                return LeadingBits(below, kept)
    return None


def _minuend(node: Expr) -> IntegerType | None:
    match node:
        case Expr(op=Op.SUB, args=(Expr(op=Op.IMMEDIATE, range=values), rounded)) if _is_step(rounded):
            return type_of(values)
    return None


def _error(node: Expr) -> IntegerType | None:
    is_error = node.op is Op.WRAP and _minuend(node.args[0]) is not None
    return node.type if is_error else None


def _corrected(node: Expr) -> IntegerType | None:
    return node.type if node.op is Op.WRAP and _is_step(node.args[0]) else None


def _is_step(node: Expr) -> bool:
    """Whether a product with the leading bits of a reciprocal is rounded."""
    return node.op is Op.ROUND_SHIFT and leading_bits(node.args[0]) is not None


def _reciprocal(node: Expr) -> IntegerType | None:
    factors = list(_factors(node))
    if not any(map(_is_exponential, factors)):
        return None
    return next((f.type for f in factors if f.op is Op.WRAP and f.args[0].op is Op.SOURCE), None)


def _shift(node: Expr) -> IntegerType | None:
    is_result = node.op is Op.ROUND_SHIFT and _reciprocal(node.args[0]) is not None
    return type_of(node.args[1].range) if is_result else None


def _factors(node: Expr) -> Iterator[Expr]:
    if node.op is Op.MUL:
        yield from node.args
