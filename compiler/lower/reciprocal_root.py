"""Reciprocal square roots in integers: a table of leading bits, then Newton steps.

    r ← r · (3 - n · r²) / 2     for r about 1 / √n: each step makes of a relative error e one of 3 / 2 · e²

Source: the Newton iteration of 1 / r² - n, as in https://en.wikipedia.org/wiki/Newton%27s_method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.arithmetic import Integers
from tilewright.compiler.lower.normalize_format import NormalizeFormat
from tilewright.isa.language.expressions import Expr, Scope, const, make
from tilewright.isa.language.numeric import Interval, round_shift
from tilewright.isa.language.operations import Op

TOLERANCE = 2.0**-5
"""In steps of a full result. Newton steps are added until roots cause no larger error than this."""

MAX_STEPS = 4

HEADROOM = 1 - 1 / 64
"""Part of the largest root that is used: rounded products may be a little larger."""


@dataclass(frozen=True, slots=True)
class NewtonStep:
    """The shifts of a Newton step's three products, and the constant that the square is taken from."""

    product: int  # n · r
    square: int  # n · r · r
    thrice: int
    last: int


@dataclass(frozen=True, slots=True)
class ReciprocalRoot:
    """How integers n from 2**(bits - 2) to 2**bits become about `unit` / √n: a table, then Newton steps."""

    widths: NormalizeFormat
    first: int  # bits of n that the table's index leaves out
    guesses: Integers
    steps: tuple[NewtonStep, ...]
    unit: float

    def expression(self, leading: Expr, guesses: Interval, scope: Scope) -> Expr:
        """The root of an expression, in the form of the instructions for it; not wrapped yet."""
        widths = self.widths
        index = make(Op.WRAP, make(Op.SHIFT_RIGHT, leading, const(self.first)), type=widths.guesses.index)
        found = make(Op.SHIFT_LEFT, Expr(Op.LUT, guesses, (index,), name="guess"), const(widths.guess_shift))
        below = const(widths.leading.below)
        last = found
        for step in self.steps:
            root = make(Op.WRAP, make(Op.SHIFT_RIGHT, found, below), type=widths.leading.type)
            once = widths.wrapped(_product(leading, root, step.product, scope))
            error = widths.wrapped(make(Op.SUB, const(step.thrice), _product(once, root, step.square, scope)))
            last = _product(error, root, step.last, scope)
            found = widths.wrapped(last)
        return last

    def values(self, leading: Integers) -> Integers:
        """The roots, computed as the expression computes them, without the bits that deviations leave out."""
        found = self.guesses[leading >> self.first] << self.widths.guess_shift
        rounding = self.widths.rounding
        for step in self.steps:
            root = found >> self.widths.leading.below
            square = round_shift(round_shift(leading * root, step.product, rounding) * root, step.square, rounding)
            found = round_shift((step.thrice - square) * root, step.last, rounding)
        return found >> self.widths.packed.below


def _product(a: Expr, root: Expr, shift: int, scope: Scope) -> Expr:
    return make(Op.ROUND_SHIFT, make(Op.MUL, a, root), const(shift), scope=scope)


def reciprocal_root(widths: NormalizeFormat) -> ReciprocalRoot:
    """With as few Newton steps as the tolerance allows; no more than make the roots better."""
    samples, guesses, unit = _samples(widths), *_guesses(widths)
    steps: list[NewtonStep] = []
    best, least = None, math.inf
    while True:
        kept = unit * 2.0 ** (widths.leading.below - widths.packed.below)
        root = ReciprocalRoot(widths, _left_out(widths), guesses, tuple(steps), kept)
        error = float(np.abs(root.values(samples) * np.sqrt(samples) / kept - 1).max())
        if best is not None and error > least / 2:
            return best
        if error <= TOLERANCE / widths.result.count or len(steps) == MAX_STEPS:
            return root
        best, least = root, error
        step, unit = _step(widths, unit)
        steps.append(step)


def _left_out(widths: NormalizeFormat) -> int:
    return widths.magnitude.bits - widths.guesses.index.bits


def _entry_starts(widths: NormalizeFormat) -> Integers:
    """The least magnitude of each entry of the table."""
    return np.arange(widths.guesses.entries, dtype=np.int64) << _left_out(widths)


def _samples(widths: NormalizeFormat) -> Integers:
    """Magnitudes from the least to the greatest, both ends of all entries of the table among them."""
    bits, starts = widths.magnitude.bits, _entry_starts(widths)
    first, end = 1 << bits - 2, 1 << bits
    ends = np.concatenate([starts, starts - 1])
    between = np.linspace(first, end - 1, 4099).astype(np.int64)
    return np.unique(np.concatenate([between, ends[(first <= ends) & (ends < end)]]))


def _guesses(widths: NormalizeFormat) -> tuple[Integers, float]:
    """The table, and what stands over the root in it: the largest root just fits the leading bits."""
    bits, leading = widths.magnitude.bits, widths.leading
    unit = HEADROOM * 2.0 ** (leading.type.bits - 1 + bits / 2)
    middle = np.maximum(_entry_starts(widths), 1 << bits - 2) + (1 << _left_out(widths)) / 2
    guesses = np.rint(unit / np.sqrt(middle) * 2.0 ** (leading.below - widths.guess_shift)).astype(np.int64)
    return np.minimum(guesses, widths.guesses.element.interval.high), unit


def _step(widths: NormalizeFormat, unit: float) -> tuple[NewtonStep, float]:
    """A Newton step from roots of a unit, each product as large as its type holds; and the unit of its roots."""
    leading = widths.leading.type.bits
    product = widths.magnitude.bits + leading - 1 - (widths.sums.bits - 2)
    square = unit * unit / 2.0**product
    shift = math.ceil(math.log2(3 * square / widths.minuend.interval.high))
    constant = square / 2.0**shift
    last = math.ceil(math.log2(2 * constant) - widths.leading.below)
    return NewtonStep(product, shift, round(3 * constant), last), 2 * constant * unit / 2.0 ** (
        last + widths.leading.below
    )
