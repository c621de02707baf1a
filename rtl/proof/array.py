"""The systolic array: every sum is the dot product of its vector with its tile's column, also when tiles change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import z3

from tilewright.isa.language.numeric import FloatType, IntegerType, Interval
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import is_transposing
from tilewright.rtl.arrays import factor_types
from tilewright.rtl.proof.array_codes import element_goals, number_code, with_unknown_products
from tilewright.rtl.proof.datapath import without_products
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.meaning import as_integer
from tilewright.rtl.proof.netlist import NetlistRun, netlist, substituted
from tilewright.rtl.proof.product import PRODUCT, applications
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.systolic import SystolicArray

Shape = tuple[int, int, IntegerType, IntegerType, bool, int]
"""Rows, columns, the types of activations and weights, whether it can transpose tiles, registers of products."""


def reduced_arrays(machine: Machine) -> tuple[Shape, ...]:
    """The arrays that are proved for a machine: every processing element of its own ones is the same hardware."""
    shapes: dict[Shape, None] = {}
    for engine in machine.of(Template.SYSTOLIC):
        formats = machine.formats_of(engine)
        can_transpose = any(map(is_transposing, formats))
        sizes = ((2, 2), (3, 3)) if can_transpose else ((2, 3), (3, 2))
        if formats:
            for position, types in enumerate(factor_types(machine, engine)):
                shapes |= dict.fromkeys(
                    (*size, *types, can_transpose and not position, engine.pipeline.mac) for size in sizes
                )
    return tuple(shapes)


def array(
    rows: int,
    cols: int,
    activation: IntegerType,
    weight: IntegerType,
    can_transpose: bool,
    product_registers: int = 0,
) -> Subject:
    """Two tiles after each other, with any weights and vectors, at every distance that the array allows up to 2 more.

    Each of them is used as it is or, if the array can do that, as its transpose.
    Products are an unknown function; that they are in the range of products of elements is all that is assumed of them.
    """
    unit = SystolicArray(rows, cols, activation, weight, can_transpose, product_registers)
    method = "reduced, all inputs, two tiles, products unknown"
    kind = ", tiles and transposes" if can_transpose else ""
    kind += ", registered products" if product_registers else ""
    claim = Claim(f"array of {rows} × {cols}{kind}: dot products", method, lambda run: list(_goals(unit, run)))
    hardware = netlist(unit)
    if isinstance(activation, FloatType) and isinstance(weight, FloatType):
        name = f"array of {rows} × {cols}: products of {activation} and {weight}"
        elements = Claim(name, "all codes, all sums", lambda run: list(element_goals(unit, hardware)))
        return Subject(with_unknown_products(unit, hardware), [claim, elements])
    return Subject(without_products(hardware), [claim])


def _goals(unit: SystolicArray, run: NetlistRun) -> Iterator[Goal]:
    """Most are the same question once products are numbers: it is asked once."""
    least = unit.WEIGHT_LEAD
    asked: dict[z3.BoolRef, Goal] = {}
    for lead in range(least, least + 3):
        for gap in range(1, 4):
            for transposed in product((False, True) if unit.can_transpose else (False,), repeat=2):
                for goal in _schedule_goals(unit, run, lead, gap, transposed):
                    asked.setdefault(z3.Implies(all_of(*goal.given), goal.then), goal)
    yield from asked.values()


def _schedule_goals(
    unit: SystolicArray, run: NetlistRun, lead: int, gap: int, transposed: tuple[bool, ...]
) -> Iterator[Goal]:
    """The first tile's row 0 comes in cycle 0, its first vector `lead` later, the next row 0 `gap` after that."""
    begins = [0, max(unit.rows, lead + gap)]  # a row comes each cycle
    firsts = [begin + lead for begin in begins]
    end = firsts[1] + 2
    tags = [
        (run.at(name, cycle), int(cycle in at))
        for name, at in (("loads", begins), ("is_first", firsts))
        for cycle in range(end + unit.latency)
    ]
    if unit.can_transpose:  # in the other cycles the tag is anything
        tags += [(run.at("transposes", at), int(tag)) for at, tag in zip(begins, transposed, strict=True)]
    fixed = [_input_is(bit, value) for bit, value in tags]
    orders = ", ".join("transpose" if tag else "tile" for tag in transposed)
    for cycle in range(firsts[0], end):
        tile = 0 if cycle < firsts[1] else 1
        for column in range(unit.cols):
            name = f"lead {lead}, gap {gap}, cycle {cycle}, column {column}, {orders}"
            products = _products(unit, run, column, cycle, begins[tile], transposed[tile])
            (found,) = substituted([_sum(unit, run, column, cycle + unit.latency)], fixed)
            yield _column_goal(name, unit, products, z3.simplify(found))


def _input_is(bit: z3.BitVecRef, value: int) -> tuple[z3.ExprRef, z3.ExprRef]:
    """An input of one bit, or the truth value behind it, and what it is."""
    if bit.num_args() == 0:
        return bit, z3.BitVecVal(value, 1)
    return bit.arg(0), z3.BoolVal(value == 1)


def _column_goal(name: str, unit: SystolicArray, products: Sequence[z3.BitVecRef], found: z3.BitVecRef) -> Goal:
    """The sum is that of the products. Where it has no others, each of them is from here on any number in its range."""
    bits = _sum_bits(unit)
    if applications(found) == set(products):
        numbers = [z3.BitVec(f"product {row}", products[row].size()) for row in range(unit.rows)]
        found = z3.simplify(*substituted([found], list(zip(products, numbers, strict=True))))
        products = numbers
    terms = [z3.Extract(bits - 1, 0, each) for each in products]
    return Goal(name, [in_range(each, unit.product) for each in terms], found == sum(terms[1:], terms[0]))


def _products(
    unit: SystolicArray, run: NetlistRun, column: int, cycle: int, begin: int, is_transposed: bool
) -> list[z3.BitVecRef]:
    """Of each of the vector's elements and the weight of the tile whose row 0 came in cycle `begin`."""
    found = []
    for row in range(unit.rows):
        activation = _part(run, "vector", row, unit.rows, cycle)
        word, element = (column, row) if is_transposed else (row, column)
        weight = _part(run, "weights", element, unit.cols, begin + word)
        if isinstance(unit.activation, FloatType) and isinstance(unit.weight, FloatType):
            activation, weight = number_code(activation, unit.activation), number_code(weight, unit.weight)
        factors = as_integer(activation, unit.activation.is_signed), as_integer(weight, unit.weight.is_signed)
        found.append(z3.simplify(PRODUCT(*factors)))
    return found


def in_range(value: z3.BitVecRef, interval: Interval) -> z3.BoolRef:
    return all_of(value >= interval.low, value <= interval.high)


def _part(run: NetlistRun, name: str, index: int, count: int, cycle: int) -> z3.BitVecRef:
    """Element of an array of equal ones."""
    whole = run.at(name, cycle)
    size = whole.size() // count
    return z3.Extract((index + 1) * size - 1, index * size, whole)


def _sum(unit: SystolicArray, run: NetlistRun, column: int, cycle: int) -> z3.BitVecRef:
    """The sum of a column as an integer."""
    whole = as_integer(_part(run, "sums", column, unit.cols, cycle), unit.partial_sum(unit.rows).is_signed)
    return z3.Extract(_sum_bits(unit) - 1, 0, whole)


def _sum_bits(unit: SystolicArray) -> int:
    """Bits in which all products of elements and all sums of them are signed integers."""
    return unit.partial_sum(unit.rows).bits + 1
