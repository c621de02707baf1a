"""Rules of levels: facts that every valid program of a level keeps, each with a name, a sentence and its check.

A table of rules is in order: a rule may rely on those before it. Rules are checked where a text is read and where a
caller asks for it, never else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from tilewright.compiler.errors import CompileError
from tilewright.compiler.text.mlir import MlirOperation

Value = TypeVar("Value")
Part = TypeVar("Part")

Subject = str | tuple[str, int] | None
"""The operation of a text at fault: the value that it makes, or what its name begins with and its number among those
with such names that make no value; None: no single one."""


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A way in which a program breaks a rule: where, what is so, and what would be right."""

    subject: Subject
    place: str
    fact: str
    expected: str = ""


class NamedRule(Protocol):
    """A rule, whatever it is of."""

    @property
    def name(self) -> str: ...
    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Rule(Generic[Value]):
    """A fact that a valid program keeps; `faults` gives the ways in which one does not."""

    name: str
    sentence: str
    faults: Callable[[Value], Iterator[RuleViolation]]


class BrokenRule(CompileError):
    """A program that breaks a rule of its level."""

    def __init__(self, rule: str, fault: RuleViolation) -> None:
        super().__init__(f"{fault.place}: rule {rule}", fault.fact, expected=fault.expected)
        self.rule = rule
        self.fault = fault

    def at(self, line: int) -> BrokenRule:
        """The same with the line of the text at fault."""
        return BrokenRule(self.rule, replace(self.fault, place=f"line {line}: {self.fault.place}"))


def of_part(rules: Sequence[Rule[Part]], part: Callable[[Value], Part]) -> Sequence[Rule[Value]]:
    """Rules of a part, as rules of a value that has it."""

    def lifted(rule: Rule[Part]) -> Rule[Value]:
        return Rule(rule.name, rule.sentence, lambda value: rule.faults(part(value)))

    return tuple(map(lifted, rules))


def require(rules: Sequence[Rule[Value]], value: Value) -> None:
    """Raise BrokenRule for the first fault of a program."""
    for rule in rules:
        for fault in rule.faults(value):
            raise BrokenRule(rule.name, fault)


def line_of(whole: MlirOperation, subject: Subject) -> int:
    """The line of the operation that a fault is of; that of the whole text if it is of no single one."""
    match subject:
        case (kind, number):
            numbered = [each for each in _inside(whole) if not each.results and each.name.startswith(kind)]
            return numbered[number].line
        case str(value):
            return next((each.line for each in _inside(whole) if value in each.results), whole.line)
        case _:
            return whole.line


def _inside(operation: MlirOperation) -> Iterator[MlirOperation]:
    for each in operation.region.operations if operation.region is not None else ():
        yield each
        yield from _inside(each)
