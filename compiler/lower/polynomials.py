"""Functions of integers that are too many for a table of all: polynomials in pieces, as a machine computes them.

The form is that of one instruction's statement, wherever a machine has it, with any number of coefficients:

    clamp(round_shift(lut(b, a >> n) + ((lut(s, a >> n) + (lut(c, a >> n) * f >> by_2)) * f >> by), point), low, high)

where f is `wrap(a, uintN)`: how far a is from where its piece begins. Entry i of each table is for piece i.
The polynomials are those nearest to the function at its values, with Chebyshev's weights, so that the greatest distance
is small. What the integers of the machine make of them is then compared with the function at every value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.expressions import clamp, scope_of_rounding, source
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, round_shift
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine

Integers = NDArray[np.int64]

READS = "tuvwxyz"
"""Names of the tables' reads, the first coefficient's first."""


@dataclass(frozen=True, slots=True)
class PolynomialFormat:
    """What an instruction for functions in pieces can hold."""

    value: IntegerType
    coefficients: tuple[IntegerType, ...]  # of the powers of f, from the 0th on
    below: int  # bits of a value below those that tell its piece
    shifts: tuple[Interval, ...]  # of the counts `by`, `by_2`, …
    point: int  # bits behind the binary point
    rounding: Rounding

    @property
    def pieces(self) -> int:
        return self.value.count >> self.below

    @property
    def distances(self) -> Integers:
        """f of each value of a piece."""
        return np.arange(1 << self.below)


@dataclass(frozen=True)
class Polynomials:
    """Integer coefficients [powers, pieces], and the counts by which their products are shifted."""

    coefficients: tuple[Integers, ...]
    shifts: tuple[int, ...]


def polynomial_format(machine: Machine, value: IntegerType) -> PolynomialFormat | None:
    """The first instruction of the form for values of a type; None if the machine has none."""
    for format in formats_with(machine, Role.COMPUTES):
        found = _read(format.statement.expr, value)
        if found is not None:
            return found
    return None


def fitted(reals: NDArray[np.float64], of: PolynomialFormat) -> Polynomials:
    """The polynomials nearest to a function, given at each value, in steps of its result; not the nearest integers."""
    half = (len(of.distances) - 1) / 2
    x = of.distances / half - 1
    degrees = range(len(of.coefficients))
    powers = np.vander(x, len(degrees), increasing=True)
    weights = np.sqrt(1 / np.sqrt(np.maximum(1 - x * x, 1 / half)))
    pieces = np.ldexp(reals.reshape(of.pieces, -1), of.point)
    of_x = np.linalg.pinv(powers * weights[:, None]) @ (pieces * weights).T
    expanded = np.zeros((len(degrees), len(degrees)))  # each power of x in powers of f
    for degree in degrees:
        expanded[: degree + 1, degree] = np.polynomial.polynomial.polypow([-1, 1 / half], degree)
    found = expanded @ of_x
    shifts: list[int] = []
    for position, held in enumerate(of.shifts, 1):
        room = of.coefficients[position].interval.high / max(1e-9, float(np.abs(found[position]).max()))
        most = int(np.floor(np.log2(room))) - sum(shifts)
        shifts.append(max(held.low, min(held.high, most)))
    limits = [each.interval for each in of.coefficients]
    scaled = [np.rint(np.ldexp(each, sum(shifts[:power]))) for power, each in enumerate(found)]
    return Polynomials(
        tuple(np.clip(each, held.low, held.high).astype(np.int64) for each, held in zip(scaled, limits, strict=True)),
        tuple(shifts),
    )


def computed(polynomials: Polynomials, of: PolynomialFormat, low: int, high: int) -> Integers:
    """What the machine's integers make of every value, from the least on."""
    total = polynomials.coefficients[-1][:, None]
    for coefficient, shift in zip(polynomials.coefficients[-2::-1], polynomials.shifts[::-1], strict=True):
        total = coefficient[:, None] + (total * of.distances >> shift)
    rounded = np.broadcast_to(round_shift(total, of.point, of.rounding), (of.pieces, len(of.distances)))
    return np.clip(rounded.ravel(), low, high)


def expression(polynomials: Polynomials, of: PolynomialFormat, low: int, high: int) -> Expr:
    """The machine's statement with these coefficients as tables named by READS, of a value read as `a`."""
    value = source("a", of.value.interval)
    piece = make(Op.SHIFT_RIGHT, value, const(of.below))
    distance = make(Op.WRAP, value, type=IntegerType(of.below, False))
    tables = [
        Expr(Op.LUT, Interval(int(each.min()), int(each.max())), (piece,), name=name)
        for name, each in zip(READS, polynomials.coefficients, strict=False)
    ]
    total = tables[-1]
    for table, shift in zip(tables[-2::-1], polynomials.shifts[::-1], strict=True):
        total = make(Op.ADD, table, make(Op.SHIFT_RIGHT, make(Op.MUL, total, distance), const(shift)))
    scope = scope_of_rounding(of.rounding)
    return clamp(make(Op.ROUND_SHIFT, total, const(of.point), scope=scope), low, high)


# -- reading a statement -----------------------------------------------------------------------------------------------


def _read(statement: Expr, value: IntegerType) -> PolynomialFormat | None:
    match statement:
        case Expr(
            op=Op.MIN,
            args=(
                Expr(op=Op.MAX, args=(Expr(op=Op.ROUND_SHIFT, args=(sum_, Expr(op=Op.CONST) as point)) as rounded, _)),
                _,
            ),
        ):
            tables, shifts, distance = _terms(sum_)
        case _:
            return None
    if len(tables) < 2 or distance is None:
        return None
    match tables[0].args[0], distance:
        case (
            Expr(op=Op.SHIFT_RIGHT, args=(Expr(op=Op.SOURCE) as read, Expr(op=Op.CONST) as below)),
            Expr(op=Op.WRAP, type=IntegerType() as of_piece, args=(same,)),
        ):
            is_of_value = read == same and read.range == value.interval and of_piece == IntegerType(below.value, False)
            if not is_of_value or any(table.args != tables[0].args for table in tables):
                return None
        case _:
            return None
    types = tuple(IntegerType(table.range.bits, table.range.is_signed) for table in tables)
    counts = tuple(shift.range for shift in shifts)
    return PolynomialFormat(value, types, below.value, counts, point.value, rounded.rounding)


def _terms(total: Expr) -> tuple[Sequence[Expr], Sequence[Expr], Expr | None]:
    """The tables of `lut(b, …) + ((…) * f >> by)`, the counts, and f; no tables where it is anything else."""
    match total:
        case Expr(op=Op.LUT):
            return [total], [], None
        case Expr(
            op=Op.ADD,
            args=(
                Expr(op=Op.LUT) as table,
                Expr(op=Op.SHIFT_RIGHT, args=(Expr(op=Op.MUL, args=(inner, distance)), Expr(op=Op.IMMEDIATE) as by)),
            ),
        ):
            tables, shifts, own = _terms(inner)
            is_same = bool(tables) and own in (None, distance)
            return ([table, *tables], [by, *shifts], distance) if is_same else ([], [], None)
    return [], [], None
