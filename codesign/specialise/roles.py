"""What a machine calls a number at a place of a statement, and of which types it is there.

A number of a nest becomes an immediate. Where the machine's instructions have one at the same place, as the second
factor of a product or the count of a rounded shift, the new instruction has it by the same name and of the same type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

NUMBER = "number"
"""The name of a number at a place where no instruction of the machine has one."""

WIDEST = 32
"""The most bits of a number whose type no instruction says."""


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Where a number stands: the operation, as which argument, and whether an operand itself stands beside it."""

    op: Op
    argument: int
    beside_operand: bool


def place_of(parent: Expr, argument: int) -> NumberPlace:
    """The place of an argument; the two of a commutative operation are one place."""
    others = [arg for position, arg in enumerate(parent.args) if position != argument]
    return NumberPlace(
        parent.op,
        1 if parent.op.facts.is_commutative else argument,
        any(other.op is Op.SOURCE for other in others),
    )


@dataclass(frozen=True)
class Roles:
    """By place: the names of immediates, without an operand's, their types, narrowest first, and numbers."""

    names: Mapping[NumberPlace, str]
    types: Mapping[NumberPlace, tuple[IntegerType, ...]] = field(default_factory=dict)
    constants: Mapping[NumberPlace, frozenset[int]] = field(
        default_factory=dict
    )  # that statements have there as numbers

    def name(self, place: NumberPlace) -> str:
        return self.names.get(self._known(place), NUMBER)

    def _known(self, place: NumberPlace) -> NumberPlace:
        """The place, or the one that differs from it only in what stands beside it, if only that is known."""
        other = replace(place, beside_operand=not place.beside_operand)
        return place if place in self.names or other not in self.names else other

    def is_constant(self, place: NumberPlace, values: Iterable[int]) -> bool:
        """Whether all values are one number that a statement of the machine has there as such."""
        known = {*values}
        return len(known) == 1 and known <= self.constants.get(place, frozenset())

    def type_for(self, place: NumberPlace, values: Iterable[int]) -> IntegerType:
        """The narrowest type of the place that holds all values, or else the narrowest of all."""
        least, most = min(values), max(values)
        known = self.types.get(self._known(place), ())
        bits = range(1, WIDEST + 1)
        others = [IntegerType(each, is_signed) for each in bits for is_signed in (False, True)]
        found = (each for each in (*known, *others) if each.interval.low <= least and most <= each.interval.high)
        return next(found)


def roles_of(machine: Machine) -> Roles:
    """The immediates of the machine's instructions that compute."""
    names: dict[NumberPlace, str] = {}
    types: dict[NumberPlace, set[IntegerType]] = {}
    constants: dict[NumberPlace, frozenset[int]] = {}
    for format in formats_with(machine, Role.COMPUTES):
        for node in walk(format.statement.expr):
            for position, arg in enumerate(node.args):
                if arg.op is Op.CONST:
                    place = place_of(node, position)
                    constants[place] = constants.get(place, frozenset()) | {arg.value}
                if arg.op is Op.IMMEDIATE:
                    place = place_of(node, position)
                    names.setdefault(place, _without_operand(arg.name, format))
                    types.setdefault(place, set()).add(format.immediates[arg.name])
    ordered = {place: tuple(sorted(of, key=lambda each: (each.bits, each.is_signed))) for place, of in types.items()}
    return Roles(names, ordered, constants)


def _without_operand(name: str, format: InstructionFormat) -> str:
    """`zero` of `a_zero`, if `a` is an operand."""
    first, _, rest = name.partition("_")
    return rest if rest and any(operand.name == first for operand in format.sources) else name
