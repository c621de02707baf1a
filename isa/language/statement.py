"""The statement language: Python expression syntax, a whitelist of words, and the range of every value.

`parse_statement` turns `y = wrap(sum(dot(a, w)), int32)` into a tree of `Expr`, each node with the interval of
integers that it can take. Integers are mathematical: nothing overflows inside an expression, and a store into a
narrower type is refused unless the statement says `sat` or `wrap`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.isa.errors import IsaError, did_you_mean, listed, short
from tilewright.isa.language.expressions import Expr, Scope, const, in_product, lookup, make, number, of_word, walk
from tilewright.isa.language.facts import Setting
from tilewright.isa.language.numeric import (
    FLOAT_TYPES,
    MAX_INTEGER_BITS,
    FloatType,
    IntegerType,
    Interval,
    parse_type,
    steps,
)
from tilewright.isa.language.operations import ACROSS_LANES, OPERATIONS, OVER_WORDS, REDUCTION_WORDS, REDUCTIONS, Op

MAX_CHARACTERS = 2000
MAX_DEPTH = 60
"""Bounds of a statement: far above any sensible one, far below what exhausts Python's stack."""


@dataclass(frozen=True)
class Statement:
    """`destination = expr`; `text` is the statement as the machine file has it, one of several that mean the same."""

    destination: str
    expr: Expr
    text: str = field(compare=False)

    @cached_property
    def reduction(self) -> Expr | None:
        """The one reduction over the reduce loops, or None."""
        return next((node for node in walk(self.expr) if node.op in REDUCTIONS), None)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The operands that are looked up in, each once."""
        return tuple(dict.fromkeys(node.name for node in walk(self.expr) if node.op is Op.LUT))

    @cached_property
    def blocks(self) -> frozenset[str]:
        """The operands of which the statement takes every word of a block, and takes them nowhere else."""
        inside = [leaf for node in walk(self.expr) if node.op in OVER_WORDS for leaf in walk(node)]
        taken = {leaf.name for leaf in inside if leaf.op is Op.SOURCE and leaf.value > 0}
        everywhere = [node.name for node in walk(self.expr) if node.op is Op.SOURCE]
        within = [leaf.name for leaf in inside if leaf.op is Op.SOURCE]
        return frozenset(name for name in taken if everywhere.count(name) == within.count(name))

    @cached_property
    def dot(self) -> Expr | None:
        """The dot product of two vectors, or None."""
        return next((node for node in walk(self.expr) if node.op is Op.DOT), None)


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
    expr = _stored(_build(value, scope), scope)
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


# -- building nodes ----------------------------------------------------------------------------------------------------


def _syntax(sign: str) -> type[ast.AST]:
    match ast.parse(f"a {sign} b", mode="eval").body:
        case ast.BinOp(op=operator):
            return type(operator)
        case ast.Compare(ops=[comparison]):
            return type(comparison)
    raise AssertionError(sign)


SIGNS: Mapping[type[ast.AST], Op] = {_syntax(op.value): op for op in Op if op.is_infix}
"""The operation of each of Python's operators that the language has."""

_SWAPPED: Mapping[type[ast.AST], Op] = {ast.Gt: Op.LESS, ast.GtE: Op.LESS_EQUAL}
"""Comparisons that equal another comparison with swapped arguments."""

_SIGN_LIST = " ".join(op.value for op in SIGNS.values())

_SHORT_FORMS: Mapping[str, int] = {"clamp": 3, "sat": 2, "cast": 2}
"""Words that stand for expressions of other words, and how many arguments they take."""

_ARGUMENTS: Mapping[str, int] = {
    **{word: op.facts.call_arguments for word, op in OPERATIONS.items() if op.is_word},
    **_SHORT_FORMS,
}

WORDS = tuple(_ARGUMENTS)
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
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SIGNS:
            return make(SIGNS[type(operator)], _build(left, scope), _build(right, scope))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in SIGNS:
            return make(SIGNS[type(operator)], _build(left, scope), _build(right, scope))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _SWAPPED:
            a, b = _build(left, scope), _build(right, scope)
            return make(_SWAPPED[type(operator)], b, a)
        case ast.Call(func=ast.Name(id=word), args=args, keywords=[]):
            return _call(node, word, args, scope)
    raise IsaError(f"`{ast.unparse(node)}` is not part of the statement language (operators: {_SIGN_LIST})")


def _stored(value: Expr, scope: Scope) -> Expr:
    """What is written of a statement's value: itself, or of a number of the destination's floating type its code."""
    to = scope.destination_type
    if not isinstance(to, FloatType):
        return value
    if value.op is Op.STEPS and value.type == to:
        return value.args[0]
    if not _is_of_type(value, to):
        raise IsaError(
            f"the value is in {value.range} and {scope.destination} holds numbers of {to}; say nearest(…, n, {to}), "
            "the nearest to the value / 2^n"
        )
    return make(Op.NEAREST, value, const(0), type=to)


def _is_of_type(value: Expr, to: FloatType) -> bool:
    """Whether a value is one of the type's numbers whatever the inputs: it is chosen from such."""
    match value.op:
        case Op.STEPS:
            return value.type == to
        case Op.CONST:
            return value.value in steps(np.arange(to.count), to)
        case Op.WHERE:
            chosen = value.args[1:]
        case Op.MIN | Op.MAX | Op.MIN_OVER | Op.MAX_OVER | Op.LANES_MAX:
            chosen = value.args
        case _:
            return False
    return all(_is_of_type(each, to) for each in chosen)


def _leaf(name: str, field: str, scope: Scope) -> Expr:
    if name in scope.immediates and not field:
        type_ = scope.immediates[name]
        return number(Expr(Op.IMMEDIATE, type_.interval, name=name), type_)
    if name not in scope.sources:
        known = [*scope.sources, *scope.immediates]
        raise IsaError(f"unknown name {name!r}{did_you_mean(name, known)}; the statement can use: {', '.join(known)}")
    fields = scope.sources[name]
    if field not in fields:
        names = [f"{name}.{f}" if f else name for f in fields]
        asked = f"{name}.{field}" if field else name
        raise IsaError(f"{asked!r} is not an element{did_you_mean(asked, names)}; expected {' or '.join(names)}")
    return number(Expr(Op.SOURCE, fields[field].interval, name=name, field=field), fields[field])


def _call(node: ast.Call, word: str, args: list[ast.expr], scope: Scope) -> Expr:
    if word not in _ARGUMENTS:
        raise IsaError(f"unknown word {word!r}{did_you_mean(word, WORDS)}; the language has: {', '.join(WORDS)}")
    if len(args) != _ARGUMENTS[word]:
        raise IsaError(f"{word} takes {_ARGUMENTS[word]} arguments, not {len(args)}")
    match word:
        case "clamp":
            value, low, high = (_build(arg, scope) for arg in args)
            return make(Op.MIN, make(Op.MAX, value, low), high)
        case "sat":
            return _saturated(_build(args[0], scope), _type(word, args[1], scope))
        case "cast":
            return _cast(_build(args[0], scope), _type(word, args[1], scope))
    match OPERATIONS[word]:
        case Op.DOT:
            return make(Op.DOT, in_product(_build(args[0], scope)), _dot_matrix(args[1], scope), scope=scope)
        case Op.TRANSPOSE:
            raise IsaError(
                f"`{ast.unparse(node)}` stands on its own; transpose is for the second argument of dot: "
                "dot(a, transpose(w))"
            )
        case op if op.facts.setting is Setting.TABLE:
            return _look_up(args[0], _build(args[1], scope), scope)
        case op if op in OVER_WORDS:
            return _over_words(op, _build(args[0], scope), scope)
        case Op.NEAREST:
            to = _float_type(args[-1], scope)
            return number(make(Op.NEAREST, *(_build(arg, scope) for arg in args[:-1]), type=to), to)
        case op if op.facts.setting is Setting.TYPE:
            return make(op, *(_build(arg, scope) for arg in args[:-1]), type=_type(word, args[-1], scope))
        case op:
            return make(op, *(_build(arg, scope) for arg in args), scope=scope)


def _dot_matrix(node: ast.expr, scope: Scope) -> Expr:
    """The second argument of `dot`: a value, or `transpose` around an operand."""
    match node:
        case ast.Call(func=ast.Name(id="transpose"), args=[argument], keywords=[]):
            operand = in_product(_build(argument, scope))
        case _:
            return in_product(_build(node, scope))
    if operand.op is not Op.SOURCE or operand.field:
        raise IsaError(f"transpose: expected a source that is a block of words, not `{operand}`")
    return make(Op.TRANSPOSE, operand)


def _over_words(op: Op, value: Expr, scope: Scope) -> Expr:
    """An operation on the words of blocks: its arguments are `value` for one word after the other."""
    nodes = walk(value)
    counts = {node.name: scope.blocks.get(node.name, 1) for node in nodes if node.op is Op.SOURCE}
    blocks = {name: count for name, count in counts.items() if count > 1}
    if len(set(blocks.values())) != 1:
        found = ", ".join(f"{name} of {count}" for name, count in counts.items()) or "none"
        raise IsaError(
            f"{op.value}: the sources in `{value}` have blocks of other sizes, or none (words: {found}); "
            "expected blocks of one size, such as `3 * act`"
        )
    inner = next((node for node in nodes if node.op in OVER_WORDS | REDUCTIONS | ACROSS_LANES), None)
    if inner is not None:
        raise IsaError(f"{op.value}: `{inner}` stands inside; expected what each lane computes of one word")
    return make(op, *(of_word(value, blocks, word) for word in range(max(blocks.values()))))


def _look_up(table: ast.expr, index: Expr, scope: Scope) -> Expr:
    match table:
        case ast.Name(id=name) if name in scope.sources:
            pass
        case _:
            known = ", ".join(scope.sources)
            raise IsaError(f"lut: expected a source that is a block of words ({known}), not `{ast.unparse(table)}`")
    element = scope.sources[name].get("")
    if index.op is Op.STEPS:  # a table has a word for each code
        index = index.args[0]
    if element is None:
        raise IsaError(f"lut: {name} is a structure; a table's element is one integer")
    words, values = scope.blocks.get(name, 1), index.range.high - index.range.low + 1
    if words != values:
        raise IsaError(
            f"lut: `{index}` is in {index.range}, which is {values} values, and {name} is a block of {words} words; "
            "expected a word for each value"
        )
    return number(lookup(name, element, index), element)


def _type(word: str, node: ast.expr, scope: Scope) -> IntegerType:
    if not isinstance(node, ast.Name):
        raise IsaError(f"{word}: expected a type such as int16, not `{ast.unparse(node)}`")
    found = parse_type(node.id, scope.types)
    if isinstance(found, FloatType):
        raise IsaError(f"{word}: expected a type of integers, and `{node.id}` is {found}; say nearest(…, n, {found})")
    return found


def _float_type(node: ast.expr, scope: Scope) -> FloatType:
    """The type that `nearest` rounds to."""
    found = parse_type(node.id, scope.types) if isinstance(node, ast.Name) else None
    if not isinstance(found, FloatType):
        said = f"`{ast.unparse(node)}`" + (f", which is {found}" if found is not None else "")
        raise IsaError(f"nearest: expected a floating type, {listed(list(FLOAT_TYPES), 'or')}, not {said}")
    return found


def _saturated(value: Expr, to: IntegerType) -> Expr:
    return make(Op.MIN, make(Op.MAX, value, const(to.interval.low)), const(to.interval.high))


def _cast(value: Expr, to: IntegerType) -> Expr:
    if not to.interval.contains(value.range):
        raise IsaError(f"cast: the value is in {value.range} and does not fit {to}; say sat(…, {to}) or wrap(…, {to})")
    return value


def _check_reductions(expr: Expr) -> None:
    found = [node for node in walk(expr) if node.op in REDUCTIONS]
    if len(found) > 1:
        raise IsaError(f"a statement has at most one reduction over the reduce loops ({listed(REDUCTION_WORDS, 'or')})")


def _check_tables(expr: Expr) -> None:
    tables = {node.name for node in walk(expr) if node.op is Op.LUT}
    for node in walk(expr):
        if node.op is Op.SOURCE and node.name in tables:
            raise IsaError(f"{node.name} is a table, and `{node}` stands outside of lut({node.name}, …)")
