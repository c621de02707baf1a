"""Small faults of a Python source: an operator swapped, a constant off by one, a condition turned, min for max."""

from __future__ import annotations

import ast
import copy
import hashlib
import os
from collections import Counter
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
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}

SHOWN = 80
"""Characters of a line that stand for it."""

Change = Callable[[ast.AST], ast.AST]


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of a file: where, what was there and what is there now; `source` is the whole changed file.

    Of long lines, `before` and `after` hold what is around the change.
    """

    path: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.before}` → `{self.after}`"


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a file's syntax tree that can be changed, and how.

    `name` says which one it is without line numbers: an edit elsewhere in the file leaves it as it is.
    """

    path: str
    name: str
    tree: ast.Module
    node: ast.AST
    change: Change

    def rank(self, seed: int) -> str:
        """Sorts places into a random order, in which a place keeps its position when others come or go."""
        return hashlib.sha256(f"{seed} {self.path} {self.name}".encode()).hexdigest()


def places(path: str, source: str) -> Iterator[Place]:
    """Every change that can be made in a source, in the order of its lines."""
    tree = ast.parse(source)
    seen: Counter[str] = Counter()
    for scope, node in _code(tree):
        for change in _changes(node):
            name = f"{scope}: {ast.dump(node)} {change.__name__}"
            yield Place(path, f"{name} {seen[name]}", tree, node, change)
            seen[name] += 1


def _code(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every node that runs and decides something, with the function or class that it stands in.

    That leaves out annotations, docstrings, the texts of errors, and assertions.
    """
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    while todo:
        scope, node = todo.pop()
        if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert, ast.arguments, ast.Import, ast.ImportFrom)):
            continue
        yield scope, node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            scope = f"{scope}.{node.name}"
        children: list[ast.AST] = []
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                values = value if isinstance(value, list) else [value]
                children += [child for child in values if isinstance(child, ast.AST)]
        todo.extend((scope, child) for child in reversed(children))


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED and not _is_type(node) and not _is_text(node):
            yield _swap_operator
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield _swap_comparison
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            yield _add_one
        case ast.If(test=test) if not _asks_for_main(test):
            yield _negate
        case ast.IfExp() | ast.While():
            yield _negate
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in EXTREMES:
            yield _swap_extreme


def _is_type(node: ast.AST) -> bool:
    """`int | None` and `Load | Store` are no arithmetic."""
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _is_type(left) or _is_type(right)
        case ast.Constant(value=None):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name[:1].isupper() and not name.isupper()
        case ast.Subscript(value=value):
            return _is_type(value)
    return False


def _is_text(node: ast.AST) -> bool:
    """Texts can be joined but not subtracted: every test would notice."""
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(isinstance(side, ast.JoinedStr) or _is_text_constant(side) for side in operands)


def _is_text_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _asks_for_main(test: ast.AST) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


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
    assert isinstance(node, ast.Call)
    match node.func:
        case ast.Name():
            node.func.id = EXTREMES[node.func.id]
        case ast.Attribute():
            node.func.attr = EXTREMES[node.func.attr]
    return node


def fault(place: Place) -> Fault:
    """The file with this one change."""
    nodes = list(ast.walk(place.tree))
    position = next(i for i, other in enumerate(nodes) if other is place.node)
    at = max(i for i, other in enumerate(nodes) if isinstance(other, ast.stmt) and place.node in ast.walk(other))
    changed = copy.deepcopy(place.tree)
    place.change(list(ast.walk(changed))[position])
    ast.fix_missing_locations(changed)
    before = ast.unparse(nodes[at]).splitlines()
    after = ast.unparse(list(ast.walk(changed))[at]).splitlines()
    line = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    shown = shortened(before[line].strip(), after[line].strip())
    return Fault(place.path, getattr(place.node, "lineno", 0), *shown, ast.unparse(changed))


def shortened(before: str, after: str) -> tuple[str, str]:
    """The same part of both lines, around what differs.

    >>> shortened("x" * 80 + "+ 1", "x" * 80 + "- 1")[1][-6:]
    'xxx- 1'
    """
    same = len(os.path.commonprefix([before, after]))
    start = max(0, min(same - SHOWN // 2, max(len(before), len(after)) - SHOWN))
    return _part(before, start), _part(after, start)


def _part(line: str, start: int) -> str:
    end = start + SHOWN
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
