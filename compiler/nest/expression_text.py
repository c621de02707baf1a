"""Expressions in the text of level 2: as a statement says them, with the ranges that cannot be inferred."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.expressions import across_lanes, scope_of_rounding
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.text.attributes import attribute
from tilewright.compiler.text.mlir import Attribute, MlirOperation
from tilewright.isa.errors import IsaError
from tilewright.isa.language.expressions import Expr, const, make, number, walk
from tilewright.isa.language.facts import Kind, Setting
from tilewright.isa.language.numeric import FLOAT_TYPES, Interval, Rounding, parse_integer_type
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.language.statement import SIGNS

SUM = "sum"
"""The name under which the range of the expression's sum is given; no read may have it."""

MOST_DEEP, MOST_NODES = 150, 1 << 14
"""Of an expression with its values written out; a normalisation has 60 levels and 1,000 nodes."""


def print_expression(nest: Nest) -> dict[str, Attribute]:
    """The attributes of a nest that say its expression; `parse_expression` gives an equal one back."""
    leaves = [node for node in walk(nest.expr) if node.op in (Op.SOURCE, Op.LUT)]
    ranges = {node.name: (node.range.low, node.range.high) for node in leaves}
    for node in walk(nest.expr):
        if node.op is Op.SUM:
            ranges[SUM] = (node.range.low, node.range.high)
    roundings = {node.rounding for node in walk(nest.expr) if node.op is Op.ROUND_SHIFT} or {Rounding.EVEN}
    assert len(roundings) == 1 and SUM not in nest.reads
    values, expr = _with_names(nest)
    return {
        **({"values": {name: str(value) for name, value in values.items()}} if values else {}),
        "expr": str(expr),
        "ranges": ranges,
        "rounding": roundings.pop().value,
    }


def _with_names(nest: Nest) -> tuple[dict[str, Expr], Expr]:
    """Subexpressions across lanes that are used several times, by name; and the expression with these names."""
    nodes = dict.fromkeys(walk(nest.expr))
    used = Counter(arg for node in nodes for arg in node.args)
    free = (name for name in map("v{}".format, count(1)) if name not in nest.reads)
    of_lanes = {node for node in nodes if any(inner.op in ACROSS_LANES for inner in walk(node))}
    named = {node: next(free) for node in nodes if used[node] > 1 and node in of_lanes}

    def renamed(node: Expr) -> Expr:
        return Expr(Op.SOURCE, node.range, name=named[node]) if node in named else with_args(node)

    def with_args(node: Expr) -> Expr:
        return replace(node, args=tuple(map(renamed, node.args)))

    return {name: with_args(node) for node, name in named.items()}, renamed(nest.expr)


_WORDS: Mapping[str, Op] = {
    op.value: op for op in Op if op.is_word and op.facts.kind is not Kind.ARRAY and op.facts.setting is Setting.NOTHING
}
"""Words whose value and range follow from their arguments alone."""

WHOLE = ""
"""No value has this name."""

_ACROSS_LANES: Mapping[str, Op] = {op.value: op for op in ACROSS_LANES}


def parse_expression(operation: MlirOperation, nest: str) -> Expr:
    text = attribute(operation, "expr", str)
    ranges = attribute(operation, "ranges", dict)
    values = attribute(operation, "values", dict) if "values" in operation.attributes else {}
    try:
        rounding = Rounding(attribute(operation, "rounding", str))
        intervals = {name: Interval(low, high) for name, (low, high) in ranges.items()}
        if unread := set(ranges) - set(attribute(operation, "reads", dict)) - {SUM}:
            raise ValueError(f"ranges has {min(unread)}, which is no read")
        if not all(type(end) is int for bounds in ranges.values() for end in bounds):
            raise ValueError("the ends of ranges are integers")
        if SUM in attribute(operation, "reads", dict):
            raise ValueError(f"{SUM} is the name of a reduction")
        named: dict[str, Expr] = {}
        sizes: dict[int, tuple[int, int]] = {}
        for name, value in (*values.items(), (WHOLE, text)):
            named[name] = _build(ast.parse(value, mode="eval").body, intervals, rounding, named)
            _require_small(named[name], sizes)
        return named[WHOLE]
    except (SyntaxError, ValueError, TypeError, RecursionError, IsaError, KeyError) as error:
        raise CompileError(
            f"nest {nest!r}", f"`{text}` is not an expression with ranges for its reads: {error}"
        ) from error


def _require_small(expr: Expr, sizes: dict[int, tuple[int, int]]) -> None:
    """Raise ValueError for an expression that passes would take too long for; `sizes` are those of its parts."""
    deep, nodes = _size(expr, sizes)
    if deep > MOST_DEEP or nodes > MOST_NODES:
        raise ValueError(f"it has {deep} levels and {nodes} nodes; expected at most {MOST_DEEP} and {MOST_NODES}")


def _size(expr: Expr, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many levels and nodes an expression has as a tree, found once for each that stands in several places."""
    if id(expr) not in known:
        parts = [_size(arg, known) for arg in expr.args]
        deepest = max((deep for deep, _ in parts), default=0)
        known[id(expr)] = 1 + deepest, 1 + sum(nodes for _, nodes in parts)
    return known[id(expr)]


def _build(node: ast.expr, ranges: Mapping[str, Interval], rounding: Rounding, named: Mapping[str, Expr]) -> Expr:
    def built(*nodes: ast.expr) -> list[Expr]:
        return [_build(inner, ranges, rounding, named) for inner in nodes]

    match node:
        case ast.Constant(value=int(value)):
            return const(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return const(-value)
        case ast.Name(id=name) if name in named:
            return named[name]
        case ast.Name(id=name):
            return Expr(Op.SOURCE, ranges[name], name=name)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SIGNS:
            return make(SIGNS[type(operator)], *built(left, right))
        case ast.Compare(left=left, ops=[compare], comparators=[right]) if type(compare) in SIGNS:
            return make(SIGNS[type(compare)], *built(left, right))
        case ast.Call(func=ast.Name(id="sum"), args=[term]):
            return Expr(Op.SUM, ranges[SUM], tuple(built(term)))
        case ast.Call(func=ast.Name(id="lut"), args=[ast.Name(id=table), index]):
            return Expr(Op.LUT, ranges[table], tuple(built(index)), name=table)
        case ast.Call(func=ast.Name(id="round_shift"), args=[_, _] as args):
            return make(Op.ROUND_SHIFT, *built(*args), scope=scope_of_rounding(rounding))
        case ast.Call(func=ast.Name(id="wrap"), args=[value, ast.Name(id=element_type)]):
            return make(Op.WRAP, *built(value), type=parse_integer_type(element_type))
        case ast.Call(func=ast.Name(id="nearest"), args=[value, count, ast.Name(id=name)]) if name in FLOAT_TYPES:
            return number(make(Op.NEAREST, *built(value, count), type=FLOAT_TYPES[name]), FLOAT_TYPES[name])
        case ast.Call(func=ast.Name(id=word), args=[reduced]) if word in _ACROSS_LANES:
            return across_lanes(_ACROSS_LANES[word], *built(reduced))
        case ast.Call(func=ast.Name(id=word), args=args) if word in _WORDS and len(args) == _WORDS[word].facts.arity:
            return make(_WORDS[word], *built(*args))
    raise ValueError(f"`{ast.unparse(node)}` is not part of the language")
