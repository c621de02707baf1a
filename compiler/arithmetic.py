"""The arithmetic of a machine, read off its file: the types that it multiplies and sums, and how it requantises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.compiler.requantization import NumberFormat, Types, narrowest, widths_by_types
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType, Rounding, type_of
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The types of activations, weights and sums; how integers of one type become those of another; and tables."""

    activation: IntegerType
    weight: IntegerType
    sum: IntegerType
    rounding: Rounding
    widths: Mapping[Types, NumberFormat]
    narrowest: NumberFormat  # of all these
    tables: frozenset[IntegerType]  # what instructions look up

    def requantization(self, of: IntegerType, to: IntegerType) -> NumberFormat:
        """The widths that instructions have which make integers of a type of those of another.

        Where there is none, those that all requantising instructions have: one of these may serve.
        """
        return self.widths.get((of, to), self.narrowest)

    def entries(self, index: IntegerType) -> int:
        """How many entries the tables have in which instructions look integers of a type up; 0 if none does."""
        return index.count if index in self.tables else 0


def arithmetic_of(machine: Machine) -> Arithmetic:
    """The arithmetic of the machine's first matrix product: the types of its operands' and its result's elements.

    A machine without a product has what its memories hold: the narrowest integers, and the widest.
    """
    activation, weight, sums = _types(machine)
    widths = widths_by_types(machine, sums)
    tables = frozenset(_tables(machine))
    return Arithmetic(activation, weight, sums, machine.rounding, widths, narrowest(widths.values(), machine), tables)


def _types(machine: Machine) -> tuple[IntegerType, IntegerType, IntegerType]:
    """Those of activations, weights and sums."""
    for format in formats_with(machine, Role.MULTIPLIES):
        operands = systolic_activations(format), systolic_weights(format), format.destination
        found = [operand.element.type for operand in operands]
        if found[0] and found[1] and found[2]:
            return found[0], found[1], found[2]
    held = [memory.element.type for memory in machine.memories.values() if memory.element.type]
    held = sorted(held or [DEFAULT_TYPE.element], key=lambda each: each.bits)
    return held[0], held[0], held[-1]


def _tables(machine: Machine) -> Iterator[IntegerType]:
    """The types of integers that have a table with an entry for each."""
    for format in formats_with(machine, Role.COMPUTES):
        for node in _nodes(format.statement.expr, Op.LUT):
            index = type_of(node.args[0].range)
            if format.operand(node.name).block == index.count:
                yield index


def _nodes(expr: Expr, op: Op) -> Iterator[Expr]:
    return (node for node in walk(expr) if node.op is op)
