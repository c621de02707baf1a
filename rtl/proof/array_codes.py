"""Processing elements that multiply codes: each adds what their numbers' product is, for all codes and sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product

import z3

from tilewright.isa.language.numeric import FloatType, IntegerType
from tilewright.rtl.proof.meaning import as_integer, steps
from tilewright.rtl.proof.netlist import SymbolicNetlist, substituted
from tilewright.rtl.proof.product import PRODUCT
from tilewright.rtl.proof.result import Goal
from tilewright.rtl.systolic import SystolicArray


def number_code(code: z3.BitVecRef, of: FloatType) -> z3.BitVecRef:
    """A code, or that of zero in place of one that is no number's."""
    return z3.If(_is_number(code, of), code, z3.BitVecVal(0, of.bits))


def with_unknown_products(unit: SystolicArray, hardware: SymbolicNetlist) -> SymbolicNetlist:
    """Each sum is that above it and PRODUCT of two codes, which stands for the product of their numbers.

    That the hardware computes this is what `element_goals` show.
    """
    after = dict(hardware.after)
    for element in _elements(unit, hardware):
        term = PRODUCT(as_integer(element.a, False), as_integer(element.w, False))
        after[element.total] = element.above() + z3.Extract(element.total.size() - 1, 0, term)
    return dataclasses.replace(hardware, after=after)


def element_goals(unit: SystolicArray, hardware: SymbolicNetlist) -> Iterator[Goal]:
    """Of each element: the magnitude of its product, by each weight; and that it is added or taken off, by the sign.

    A magnitude is that of the numbers in as many bits as it has, so none of them is lost.
    """
    a, w = (z3.BitVec(name, of.bits) for name, of in (("a", unit.activation), ("w", unit.weight)))
    shown: list[z3.ExprRef] = []
    for element in _elements(unit, hardware):
        (of_codes,) = substituted([element.magnitude], [(element.a, a), (element.w, w)])
        if not any(of_codes.eq(other) for other in shown):  # all are the same hardware
            shown.append(of_codes)
            yield from _magnitude_goals(element.name, of_codes, a, w, unit)
        bits, width = element.magnitude.size(), element.total.size()
        magnitude = z3.BitVec("magnitude", bits)
        (total,) = substituted([hardware.after[element.total]], [(element.magnitude, magnitude)])
        is_negative = _sign(element.a) ^ _sign(element.w) == 1
        term = z3.ZeroExt(max(0, width - bits), magnitude)
        term = z3.Extract(width - 1, 0, term)
        meant = element.above() + z3.If(is_negative, -term, term)
        yield Goal(f"{element.name}, sum", [], total == meant)


def _magnitude_goals(
    name: str, magnitude: z3.ExprRef, a: z3.BitVecRef, w: z3.BitVecRef, unit: SystolicArray
) -> Iterator[Goal]:
    of_a, of_w, bits = _floating(unit.activation), _floating(unit.weight), magnitude.size()
    numbers = z3.Extract(bits - 1, 0, steps(as_integer(a, False), of_a))
    size = z3.If(numbers < 0, -numbers, numbers)
    for code in range(of_w.count):
        weight = z3.BitVecVal(code, of_w.bits)
        if z3.is_true(z3.simplify(_is_number(weight, of_w))):
            times = abs(z3.simplify(steps(as_integer(weight, False), of_w)).as_signed_long())
            (found,) = substituted([magnitude], [(w, weight)])
            yield Goal(f"{name}, weight {code}", [_is_number(a, of_a)], z3.simplify(found == size * times))


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    """A processing element: its register, that of the one above, the two codes, and the magnitude of their product."""

    name: str
    total: z3.BitVecRef
    sum_above: z3.BitVecRef | None
    a: z3.BitVecRef
    w: z3.BitVecRef
    magnitude: z3.BitVecRef

    def above(self) -> z3.BitVecRef:
        """What is added to, in as many bits as the sum."""
        if self.sum_above is None:
            return z3.BitVecVal(0, self.total.size())
        return z3.SignExt(self.total.size() - self.sum_above.size(), self.sum_above)


def _elements(unit: SystolicArray, hardware: SymbolicNetlist) -> Iterator[_Element]:
    nets = hardware.nets
    for row, column in product(range(unit.rows), range(unit.cols)):
        activation = f"activation_{row}_{column - 1}_1" if column else f"skew_{row}_{row + 1}"
        yield _Element(
            f"element {row}, {column}",
            nets[f"sum_{row}_{column}"],
            nets[f"sum_{row - 1}_{column}"] if row else None,
            nets[activation],
            nets[f"weight_{row}_{column}"],
            nets[f"magnitude_{row}_{column}"],
        )


def _is_number(code: z3.BitVecRef, of: FloatType) -> z3.BoolRef:
    return z3.ULE(z3.Extract(of.sign_bit - 1, 0, code), of.greatest)


def _sign(code: z3.BitVecRef) -> z3.BitVecRef:
    return z3.Extract(code.size() - 1, code.size() - 1, code)


def _floating(of: IntegerType) -> FloatType:
    assert isinstance(of, FloatType)
    return of
