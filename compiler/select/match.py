"""How an instruction computes an expression: what the leaves of its statement are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tilewright.isa.language.expressions import Expr

NO_OPERANDS: Mapping[str, Expr] = MappingProxyType({})
NO_FIELDS: Mapping[tuple[str, str], Expr] = MappingProxyType({})
NO_IMMEDIATES: Mapping[str, int] = MappingProxyType({})


class Match(NamedTuple):
    """How an instruction computes an expression: what each leaf of its statement stands for."""

    operands: Mapping[str, Expr] = NO_OPERANDS  # plain operand → the value it reads
    fields: Mapping[tuple[str, str], Expr] = NO_FIELDS  # (operand, field) → constant of each channel
    immediates: Mapping[str, int] = NO_IMMEDIATES
    idle: frozenset[str] = frozenset()  # operands whose value is multiplied by zero
    reduced: frozenset[str] = frozenset()  # operands that are read once for each iteration of the reduce loops
    neutral: int = 0  # neutral values bound

    def with_operand(self, name: str, expr: Expr, is_reduced: bool) -> Match:
        reduced = self.reduced | {name} if is_reduced else self.reduced
        operands = {**self.operands, name: expr}
        return Match(operands, self.fields, self.immediates, self.idle, reduced, self.neutral)

    def with_field(self, key: tuple[str, str], expr: Expr) -> Match:
        fields = {**self.fields, key: expr}
        return Match(self.operands, fields, self.immediates, self.idle, self.reduced, self.neutral)

    def with_immediate(self, name: str, value: int) -> Match:
        immediates = {**self.immediates, name: value}
        return Match(self.operands, self.fields, immediates, self.idle, self.reduced, self.neutral)

    def with_idle(self, name: str) -> Match:
        return Match(self.operands, self.fields, self.immediates, self.idle | {name}, self.reduced, self.neutral)

    def with_neutral(self) -> Match:
        return Match(self.operands, self.fields, self.immediates, self.idle, self.reduced, self.neutral + 1)


UNBOUND = Match()
"""With which no leaf is bound yet."""


class _Anything(Match):
    """Stands for every way to bind the leaves: it binds none."""

    __slots__ = ()

    def with_operand(self, name: str, expr: Expr, is_reduced: bool) -> Match:
        return self

    def with_field(self, key: tuple[str, str], expr: Expr) -> Match:
        return self

    def with_immediate(self, name: str, value: int) -> Match:
        return self

    def with_idle(self, name: str) -> Match:
        return self

    def with_neutral(self) -> Match:
        return self


ANYTHING = _Anything()
