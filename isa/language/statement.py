"""The statement language: Python expression syntax, a whitelist of words, and the range of every value.

`parse_statement` turns `y = wrap(sum(dot(a, w)), int32)` into a tree of `Expr`, each node with the interval of
integers that it can take. Integers are mathematical: nothing overflows inside an expression, and a store into a
narrower type is refused unless the statement says `sat` or `wrap`.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from tilewright.isa.errors import IsaError, short
from tilewright.isa.language.numeric import (
    MAX_INTEGER_BITS,
    IntegerType,
    Interval,
    Rounding,
    parse_integer_type,
    round_shift,
)


class Op(Enum):
    """Every kind of node. The value is the word of the language that makes it."""

    CONST = "const"  # value
    SOURCE = "source"  # name (operand) and field ("" for a plain element)
    IMMEDIATE = "immediate"  # name
    ADD = "+"
    SUB = "-"
    MUL = "*"
    SHIFT_LEFT = "<<"
    SHIFT_RIGHT = ">>"  # arithmetic: rounds towards -infinity
    LESS = "<"
    LESS_EQUAL = "<="
    EQUAL = "=="
    NOT_EQUAL = "!="
    MIN = "min"
    MAX = "max"
    ABS = "abs"
    WHERE = "where"  # condition, value if it is not zero, value if it is
    WRAP = "wrap"  # into `type`
    ROUND_SHIFT = "round_shift"  # x / 2**n, rounded as `rounding` says
    LUT = "lut"  # in each lane, the element of table `name` at the argument's value less the least of its range
    DOT = "dot"  # over the elements of an activation vector, with the words of the second argument
    TRANSPOSE = "transpose"  # around the second argument of DOT: with the elements of each word
    SUM = "sum"  # over the reduce loops
    MAX_OVER = "max_over"
    MIN_OVER = "min_over"
    LANES_SUM = "lanes_sum"  # over the `value` lanes of the word; every lane gets the result
    LANES_MAX = "lanes_max"


MAX_CHARACTERS = 2000
MAX_DEPTH = 60
"""Bounds of a statement: far above any sensible one, far below what exhausts Python's stack."""

REDUCTIONS = frozenset({Op.SUM, Op.MAX_OVER, Op.MIN_OVER})
"""Over the reduce loops."""

ACROSS_LANES = frozenset({Op.LANES_SUM, Op.LANES_MAX})
"""Operators whose value in a lane takes the arguments of all lanes."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A node of a statement: an operation on its arguments, and the interval that holds its every value."""

    op: Op
    range: Interval
    args: tuple[Expr, ...] = ()
    name: str = ""
    field: str = ""
    value: int = 0
    type: IntegerType | None = None
    rounding: Rounding = Rounding.EVEN

    def __str__(self) -> str:
        return _print(self)


@dataclass(frozen=True, slots=True)
class Statement:
    """`destination = expr`; `text` is the statement as the machine file has it."""

    destination: str
    expr: Expr
    text: str

    @property
    def reduction(self) -> Expr | None:
        """The one reduction over the reduce loops, or None."""
        return next((node for node in walk(self.expr) if node.op in REDUCTIONS), None)

    @property
    def tables(self) -> tuple[str, ...]:
        """The operands that are looked up in, each once."""
        return tuple(dict.fromkeys(node.name for node in walk(self.expr) if node.op is Op.LUT))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a statement may name. `sources` maps operand → field ("" if plain) → type of an element.

    `blocks` has the words of those operands that are blocks.
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


def walk(expr: Expr) -> tuple[Expr, ...]:
    """Every node of a tree, arguments before the nodes that use them."""
    return (*(node for arg in expr.args for node in walk(arg)), expr)


def parse_statement(text: str, scope: Scope) -> Statement:
    """Read `destination = expression`; raises IsaError that quotes the part at fault and says what would be right."""
    try:
        module = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise IsaError(f"{short(text)} is not a statement: expected `{scope.destination} = expression`") from error
    if len(text) > MAX_CHARACTERS or _depth(module) > MAX_DEPTH:
        raise IsaError(
            f"the statement has {len(text)} characters, nested {_depth(module)} deep; expected at most "
            f"{MAX_CHARACTERS} and {MAX_DEPTH}: split it into several instructions"
        )
    match module.body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            pass
        case _:
            raise IsaError(f"{short(text)} is not a statement: expected `{scope.destination} = expression`")
    if name != scope.destination:
        raise IsaError(f"the statement assigns {name!r}; expected the destination {scope.destination!r}")
    expr = _build(value, scope)
    _check_reductions(expr)
    _check_tables(expr)
    if not scope.destination_type.interval.contains(expr.range):
        raise IsaError(
            f"the value is in {expr.range} and does not fit {name}, which is {scope.destination_type} "
            f"{scope.destination_type.interval}; say sat(…, {scope.destination_type}) or "
            f"wrap(…, {scope.destination_type})"
        )
    return Statement(name, expr, text.strip())


def _depth(tree: ast.AST) -> int:
    """Levels of a syntax tree, found without recursion."""
    depth, level = 0, [tree]
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


# -- building nodes, with their ranges ---------------------------------------------------------------------------------


def const(value: int) -> Expr:
    return Expr(Op.CONST, Interval(value, value), value=value)


def _corners(function: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(values), max(values))


def _shift_count(word: str, n: Expr) -> None:
    if n.range.low < 0 or n.range.high > MAX_INTEGER_BITS:
        raise IsaError(f"{word}: the shift count {n} is in {n.range}; expected 0 to {MAX_INTEGER_BITS}")


def _abs_range(a: Interval) -> Interval:
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)))


def make(op: Op, *args: Expr, type: IntegerType | None = None, scope: Scope | None = None) -> Expr:  # noqa: A002
    """A node of an operation, its range inferred. Raises IsaError for a shift or a value out of bounds."""
    a = args[0].range
    b = args[1].range if len(args) > 1 else a
    rounding = scope.rounding if scope is not None else Rounding.EVEN
    match op:
        case Op.ADD:
            interval = Interval(a.low + b.low, a.high + b.high)
        case Op.SUB:
            interval = Interval(a.low - b.high, a.high - b.low)
        case Op.MUL:
            interval = _corners(lambda x, y: x * y, a, b)
        case Op.SHIFT_LEFT:
            _shift_count("<<", args[1])
            interval = _corners(lambda x, n: x << n, a, b)
        case Op.SHIFT_RIGHT:
            _shift_count(">>", args[1])
            interval = _corners(lambda x, n: x >> n, a, b)
        case Op.LESS | Op.LESS_EQUAL | Op.EQUAL | Op.NOT_EQUAL:
            interval = Interval(0, 1)
        case Op.MIN:
            interval = Interval(min(a.low, b.low), min(a.high, b.high))
        case Op.MAX:
            interval = Interval(max(a.low, b.low), max(a.high, b.high))
        case Op.ABS:
            interval = _abs_range(a)
        case Op.WHERE:
            c = args[2].range
            interval = Interval(min(b.low, c.low), max(b.high, c.high))
        case Op.WRAP:
            assert type is not None
            interval = a if type.interval.contains(a) else type.interval
        case Op.ROUND_SHIFT:
            _shift_count("round_shift", args[1])
            interval = _corners(lambda x, n: round_shift(x, n, rounding), a, b)
        case Op.DOT:
            assert scope is not None
            product = _corners(lambda x, y: x * y, a, b)
            interval = Interval(product.low * scope.dot_length, product.high * scope.dot_length)
        case Op.SUM:
            assert scope is not None
            interval = Interval(min(a.low, a.low * scope.reduce_trips), max(a.high, a.high * scope.reduce_trips))
        case Op.MAX_OVER | Op.MIN_OVER | Op.LANES_MAX | Op.TRANSPOSE:
            interval = a
        case Op.LANES_SUM:
            assert scope is not None
            interval = Interval(a.low * scope.lanes, a.high * scope.lanes)
        case _:
            raise AssertionError(op)
    lanes = scope.lanes if scope is not None and op in ACROSS_LANES else 0
    expr = Expr(op, interval, args, value=lanes, type=type, rounding=rounding)
    if interval.bits > MAX_INTEGER_BITS:
        raise IsaError(
            f"`{expr}` needs {interval.bits} bits; expected at most {MAX_INTEGER_BITS}: use narrower operands"
        )
    return expr


_BINARY: Mapping[type[ast.operator], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUB,
    ast.Mult: Op.MUL,
    ast.LShift: Op.SHIFT_LEFT,
    ast.RShift: Op.SHIFT_RIGHT,
}

_COMPARE: Mapping[type[ast.cmpop], tuple[Op, bool]] = {  # operation, and whether its arguments swap
    ast.Lt: (Op.LESS, False),
    ast.LtE: (Op.LESS_EQUAL, False),
    ast.Gt: (Op.LESS, True),
    ast.GtE: (Op.LESS_EQUAL, True),
    ast.Eq: (Op.EQUAL, False),
    ast.NotEq: (Op.NOT_EQUAL, False),
}

_WORDS: Mapping[str, int] = {  # word of the language → number of arguments
    "min": 2,
    "max": 2,
    "abs": 1,
    "where": 3,
    "round_shift": 2,
    "lut": 2,
    "dot": 2,
    "transpose": 1,
    "sum": 1,
    "max_over": 1,
    "min_over": 1,
    "lanes_sum": 1,
    "lanes_max": 1,
    "clamp": 3,
    "sat": 2,
    "wrap": 2,
    "cast": 2,
}

WORDS = tuple(_WORDS)
"""The words of the language, besides operators, operands and immediates."""


def _build(node: ast.expr, scope: Scope) -> Expr:
    match node:
        case ast.Constant(value=bool()):
            raise IsaError(f"{ast.unparse(node)} is not an integer")
        case ast.Constant(value=int(value)):
            if Interval(value, value).bits > MAX_INTEGER_BITS:
                raise IsaError(f"the number {value} needs more than {MAX_INTEGER_BITS} bits")
            return const(value)
        case ast.Name(id=name):
            return _leaf(name, "", scope)
        case ast.Attribute(value=ast.Name(id=name), attr=field):
            return _leaf(name, field, scope)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _build(operand, scope)
            return const(-inner.value) if inner.op is Op.CONST else make(Op.SUB, const(0), inner)
        case ast.BinOp(op=operator) if type(operator) in _BINARY:
            return make(_BINARY[type(operator)], _build(node.left, scope), _build(node.right, scope))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARE:
            op, is_swapped = _COMPARE[type(operator)]
            a, b = _build(left, scope), _build(right, scope)
            return make(op, b, a) if is_swapped else make(op, a, b)
        case ast.Call(func=ast.Name(id=word), args=args, keywords=[]):
            return _call(node, word, args, scope)
    raise IsaError(f"`{ast.unparse(node)}` is not part of the statement language (operators: + - * << >> < <= == !=)")


def _leaf(name: str, field: str, scope: Scope) -> Expr:
    if name in scope.immediates and not field:
        return Expr(Op.IMMEDIATE, scope.immediates[name].interval, name=name)
    if name not in scope.sources:
        known = [*scope.sources, *scope.immediates]
        raise IsaError(f"unknown name {name!r}{did_you_mean(name, known)}; the statement can use: {', '.join(known)}")
    fields = scope.sources[name]
    if field not in fields:
        names = [f"{name}.{f}" if f else name for f in fields]
        asked = f"{name}.{field}" if field else name
        raise IsaError(f"{asked!r} is not an element{did_you_mean(asked, names)}; expected {' or '.join(names)}")
    return Expr(Op.SOURCE, fields[field].interval, name=name, field=field)


def _call(node: ast.Call, word: str, args: list[ast.expr], scope: Scope) -> Expr:
    if word not in _WORDS:
        raise IsaError(f"unknown word {word!r}{did_you_mean(word, WORDS)}; the language has: {', '.join(WORDS)}")
    if len(args) != _WORDS[word]:
        raise IsaError(f"{word} takes {_WORDS[word]} arguments, not {len(args)}")
    if word == "lut":
        return _look_up(args[0], _build(args[1], scope), scope)
    if word in ("sat", "wrap", "cast"):
        return _convert(word, _build(args[0], scope), args[1])
    if word == "transpose":
        raise IsaError(
            f"`{ast.unparse(node)}` stands on its own; transpose is for the second argument of dot: "
            "dot(a, transpose(w))"
        )
    if word == "dot":
        return make(Op.DOT, _build(args[0], scope), _dot_matrix(args[1], scope), scope=scope)
    values = [_build(arg, scope) for arg in args]
    if word == "clamp":
        return make(Op.MIN, make(Op.MAX, values[0], values[1]), values[2])
    return make(Op(word), *values, scope=scope)


def _dot_matrix(node: ast.expr, scope: Scope) -> Expr:
    """The second argument of `dot`: a value, or `transpose` around an operand."""
    match node:
        case ast.Call(func=ast.Name(id="transpose"), args=[argument], keywords=[]):
            operand = _build(argument, scope)
        case _:
            return _build(node, scope)
    if operand.op is not Op.SOURCE or operand.field:
        raise IsaError(f"transpose: expected a source that is a block of words, not `{operand}`")
    return make(Op.TRANSPOSE, operand)


def lookup(table: str, element: IntegerType, index: Expr) -> Expr:
    """`lut(table, index)`: the table's first word is for the least value of the index's range."""
    return Expr(Op.LUT, element.interval, (index,), name=table)


def first_index(index: Expr, entries: int) -> int:
    """The index that a table's first word is for: the least of a wrapped index or of one with a value for each entry.

    Else the least of integers with as many values, such as -128 of 256: an expression may know that some never occur.
    """
    interval = index.type.interval if index.op is Op.WRAP and index.type is not None else index.range
    return interval.low if interval.high - interval.low + 1 == entries else -(entries // 2)


def _look_up(table: ast.expr, index: Expr, scope: Scope) -> Expr:
    match table:
        case ast.Name(id=name) if name in scope.sources:
            pass
        case _:
            known = ", ".join(scope.sources)
            raise IsaError(f"lut: expected a source that is a block of words ({known}), not `{ast.unparse(table)}`")
    element = scope.sources[name].get("")
    if element is None:
        raise IsaError(f"lut: {name} is a structure; a table's element is one integer")
    words, values = scope.blocks.get(name, 1), index.range.high - index.range.low + 1
    if words != values:
        raise IsaError(
            f"lut: `{index}` is in {index.range}, which is {values} values, and {name} is a block of {words} words; "
            "expected a word for each value"
        )
    return lookup(name, element, index)


def _convert(word: str, value: Expr, node: ast.expr) -> Expr:
    if not isinstance(node, ast.Name):
        raise IsaError(f"{word}: expected a type such as int8, not `{ast.unparse(node)}`")
    to = parse_integer_type(node.id)
    if word == "wrap":
        return make(Op.WRAP, value, type=to)
    if word == "sat":
        return make(Op.MIN, make(Op.MAX, value, const(to.interval.low)), const(to.interval.high))
    if not to.interval.contains(value.range):
        raise IsaError(f"cast: the value is in {value.range} and does not fit {to}; say sat(…, {to}) or wrap(…, {to})")
    return value


def _check_reductions(expr: Expr) -> None:
    found = [node for node in walk(expr) if node.op in REDUCTIONS]
    if len(found) > 1:
        raise IsaError("a statement has at most one reduction over the reduce loops (sum, max_over or min_over)")


def _check_tables(expr: Expr) -> None:
    tables = {node.name for node in walk(expr) if node.op is Op.LUT}
    for node in walk(expr):
        if node.op is Op.SOURCE and node.name in tables:
            raise IsaError(f"{node.name} is a table, and `{node}` stands outside of lut({node.name}, …)")


def did_you_mean(name: str, known: tuple[str, ...] | list[str]) -> str:
    """` (did you mean 'x'?)` when a known name is close, otherwise nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


# -- printing ----------------------------------------------------------------------------------------------------------


def _print(expr: Expr) -> str:
    match expr.op:
        case Op.CONST:
            return str(expr.value)
        case Op.SOURCE | Op.IMMEDIATE:
            return f"{expr.name}.{expr.field}" if expr.field else expr.name
        case Op.WRAP:
            return f"wrap({_print(expr.args[0])}, {expr.type})"
        case Op.LUT:
            return f"lut({expr.name}, {_print(expr.args[0])})"
        case _ if expr.op.value.isidentifier():
            return f"{expr.op.value}({', '.join(map(_print, expr.args))})"
        case _:
            left, right = (
                _print(a) if not a.args or a.op.value.isidentifier() else f"({_print(a)})" for a in expr.args
            )
            return f"{left} {expr.op.value} {right}"
