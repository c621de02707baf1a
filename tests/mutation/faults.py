"""Small faults of a Python source: an operator swapped, a constant off by one, a condition turned, min for max."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of a file: where, what was there and what is there now; `source` is the whole changed file."""

    path: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.before}` → `{self.after}`"


def faults(path: str, source: str, seed: int, count: int) -> tuple[Fault, ...]:
    """So many different faults of a source, by line; the same for the same seed and source."""
    tree = ast.parse(source)
    places = [(node, change) for node in _code(tree) for change in _changes(node)]
    chosen = random.Random(f"{path} {seed}").sample(places, min(count, len(places)))
    return tuple(sorted((_fault(path, tree, *place) for place in chosen), key=lambda fault: fault.line))


def _code(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs and decides something: no annotations, docstrings, texts of errors or assertions."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert, ast.arguments, ast.Import, ast.ImportFrom)):
            continue
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            todo.extend(child for child in children if isinstance(child, ast.AST))


Change = Callable[[ast.AST], ast.AST]


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED and not _is_type(node):
            yield _swap_operator
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield _swap_comparison
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            yield _add_one
        case ast.If() | ast.IfExp() | ast.While():
            yield _negate
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in EXTREMES:
            yield _swap_extreme


def _is_type(node: ast.AST) -> bool:
    """`int | None` is no arithmetic."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Constant)


def _swap_operator(node: ast.AST) -> ast.AST:
    assert isinstance(node, (ast.BinOp, ast.BoolOp))
    node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
    return node


def _swap_comparison(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops = [SWAPPED[type(node.ops[0])]()]  # type: ignore[list-item]
    return node


def _add_one(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Constant) and isinstance(node.value, int)
    node.value += 1
    return node


def _negate(node: ast.AST) -> ast.AST:
    assert isinstance(node, (ast.If, ast.IfExp, ast.While))
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _swap_extreme(node: ast.AST) -> ast.AST:
    match node:
        case ast.Name():
            node.id = EXTREMES[node.id]
        case ast.Attribute():
            node.attr = EXTREMES[node.attr]
    return node


def _fault(path: str, tree: ast.Module, node: ast.AST, change: Change) -> Fault:
    position = next(i for i, other in enumerate(ast.walk(tree)) if other is node)
    changed = copy.deepcopy(tree)
    there = next(other for i, other in enumerate(ast.walk(changed)) if i == position)
    statement = next(s for s in reversed(list(ast.walk(tree))) if isinstance(s, ast.stmt) and node in ast.walk(s))
    at = next(i for i, other in enumerate(ast.walk(tree)) if other is statement)
    change(there)
    ast.fix_missing_locations(changed)
    changed_statement = next(other for i, other in enumerate(ast.walk(changed)) if i == at)
    before, after = (ast.unparse(s).splitlines() for s in (statement, changed_statement))
    line = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    return Fault(path, getattr(node, "lineno", 0), before[line].strip(), after[line].strip(), ast.unparse(changed))
