"""Expressions: trees of operations on integers, each node with the interval that holds its every value.

Integers are mathematical: nothing overflows inside an expression. `make` gives a node its range; `str` prints an
expression as the statement language has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from tilewright.isa.errors import IsaError
from tilewright.isa.language.facts import Kind, Setting
from tilewright.isa.language.numeric import MAX_INTEGER_BITS, FloatType, IntegerType, Interval, Rounding
from tilewright.isa.language.operations import Op


class _Keeps:
    """Where a node keeps what is made of all nodes below: its hash, and the nodes themselves if they were asked for."""

    __slots__ = ("_hash", "_nodes")
    _hash: int
    _nodes: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Expr(_Keeps):
    """A node of a statement: an operation on its arguments, and the interval that holds its every value."""

    op: Op
    range: Interval
    args: tuple[Expr, ...] = ()
    name: str = ""  # of a source, an immediate, or the table of a lookup
    field: str = ""  # of a source that is a structure
    value: int = 0  # of a constant; of an operation across lanes, how many they are; of a source, the word of its block
    type: IntegerType | None = None
    rounding: Rounding = Rounding.EVEN

    @property
    def setting(self) -> IntegerType | Rounding | None:
        """What the node's value depends on besides its arguments, if that is a type or a rounding."""
        match self.op.facts.setting:
            case Setting.TYPE:
                return self.type
            case Setting.ROUNDING:
                return self.rounding
            case _:
                return None

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:  # the first time
            found = hash((self.op, self.range, self.args, self.name, self.field, self.value))
            object.__setattr__(self, "_hash", found)
            return found

    def __str__(self) -> str:
        return _print(self)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a statement may name. `sources` maps operand → field ("" if plain) → type of an element.

    `blocks` has the words of those operands that are blocks; `types` the types that have a name: each memory's.
    """

    sources: Mapping[str, Mapping[str, IntegerType]]
    immediates: Mapping[str, IntegerType]
    destination: str
    destination_type: IntegerType
    reduce_trips: int  # the most iterations that a reduction can sum over
    dot_length: int  # elements in an activation vector
    rounding: Rounding
    blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    lanes: int = 1
    types: Mapping[str, IntegerType] = dataclasses.field(default_factory=dict)


def walk(expr: Expr) -> tuple[Expr, ...]:
    """Every node of a tree, arguments before the nodes that use them."""
    try:
        return expr._nodes
    except AttributeError:  # the first time: passes look at the same expressions one after the other
        found: list[Expr] = []
        _append_nodes(expr, found)
        object.__setattr__(expr, "_nodes", tuple(found))
        return expr._nodes


def _append_nodes(expr: Expr, found: list[Expr]) -> None:
    for arg in expr.args:
        _append_nodes(arg, found)
    found.append(expr)


CONSTANTS = 1 << 14
"""So many numbers are one object each."""


# -- making nodes ------------------------------------------------------------------------------------------------------


@lru_cache(CONSTANTS, typed=True)
def const(value: int) -> Expr:
    return Expr(Op.CONST, Interval(value, value), value=value)


def lookup(table: str, element: IntegerType, index: Expr) -> Expr:
    """`lut(table, index)`: the table's first word is for the least value of the index's range."""
    return Expr(Op.LUT, element.interval, (index,), name=table)


def number(code: Expr, of: IntegerType) -> Expr:
    """What a stored value counts as in expressions: itself, or of a floating type its number in steps."""
    return make(Op.STEPS, code, type=of) if isinstance(of, FloatType) else code


def in_product(number: Expr) -> Expr:
    """An argument of `dot`: the array takes codes as they are stored, and counts what they stand for."""
    if number.op is Op.STEPS and number.args[0].op is Op.SOURCE:
        return dataclasses.replace(number.args[0], range=number.range, type=number.type)
    return number


def make(op: Op, *args: Expr, type: IntegerType | None = None, scope: Scope | None = None) -> Expr:  # noqa: A002
    """A node of an operation, its range inferred. Raises IsaError for a shift or a value out of bounds.

    What the operation's setting needs of `type` and `scope` must be there; without a scope, rounding is to even.
    """
    if op.facts.is_shift:
        _check_count(op, args[1])
    assert op.facts.range is not None, op
    interval = op.facts.range(*(arg.range for arg in args), *_setting(op, type, scope))
    lanes = scope.lanes if scope is not None and op.facts.setting is Setting.LANES else 0
    rounding = scope.rounding if scope is not None else Rounding.EVEN
    expr = Expr(op, interval, args, value=lanes, type=type, rounding=rounding)
    if interval.bits > MAX_INTEGER_BITS:
        raise IsaError(
            f"`{expr}` needs {interval.bits} bits; expected at most {MAX_INTEGER_BITS}: use narrower operands"
        )
    return expr


def _setting(op: Op, type: IntegerType | None, scope: Scope | None) -> tuple[IntegerType | Rounding | int, ...]:  # noqa: A002
    """What a range rule takes after the arguments' intervals."""
    match op.facts.setting:
        case Setting.NOTHING:
            return ()
        case Setting.TYPE:
            assert type is not None
            return (type,)
        case Setting.ROUNDING:
            return (scope.rounding if scope is not None else Rounding.EVEN,)
        case Setting.LANES:
            assert scope is not None
            return (scope.lanes,)
        case Setting.TRIPS:
            assert scope is not None
            return (scope.reduce_trips,)
        case Setting.PRODUCTS:
            assert scope is not None
            return (scope.dot_length,)
        case Setting.TABLE:
            raise AssertionError("`lookup` makes it")
        case _ as never:
            assert_never(never)


def _check_count(op: Op, count: Expr) -> None:
    if count.range.low < 0 or count.range.high > MAX_INTEGER_BITS:
        raise IsaError(f"{op.value}: the shift count {count} is in {count.range}; expected 0 to {MAX_INTEGER_BITS}")


def of_word(expr: Expr, blocks: Collection[str], word: int) -> Expr:
    """The expression with one word of each operand in `blocks`; others are the same for all words."""
    if expr.op is Op.SOURCE:
        return dataclasses.replace(expr, value=word) if expr.name in blocks else expr
    return dataclasses.replace(expr, args=tuple(of_word(arg, blocks, word) for arg in expr.args))


def first_index(index: Expr, entries: int) -> int:
    """The index that a table's first word is for: the least of a wrapped index or of one with a value for each entry.

    Else the least of integers with as many values, such as -128 of 256: an expression may know that some never occur.
    """
    interval = index.type.interval if index.op is Op.WRAP and index.type is not None else index.range
    return interval.low if interval.high - interval.low + 1 == entries else -(entries // 2)


# -- printing ----------------------------------------------------------------------------------------------------------


def _print(expr: Expr) -> str:
    match expr.op:
        case op if op.facts.is_implied:
            return _print(expr.args[0])
        case Op.CONST:
            return str(expr.value)
        case Op.SOURCE | Op.IMMEDIATE:
            return f"{expr.name}.{expr.field}" if expr.field else expr.name
        case op if op.is_infix:
            left, right = (f"({_print(arg)})" if arg.op.is_infix and arg.args else _print(arg) for arg in expr.args)
            return f"{left} {op.value} {right}"
    is_over_words = expr.op.facts.kind is Kind.WORDS  # the first word's expression is that of all words
    arguments = [_print(arg) for arg in (expr.args[:1] if is_over_words else expr.args)]
    match expr.op.facts.setting:
        case Setting.TABLE:
            arguments.insert(0, expr.name)
        case Setting.TYPE:
            arguments.append(str(expr.type))
    return f"{expr.op.value}({', '.join(arguments)})"
