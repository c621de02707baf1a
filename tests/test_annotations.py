"""No annotation of the compiler and the simulator says Any, but where a package from outside has no types."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.test_architecture import sources

OPEN: Mapping[str, str] = {
    "compiler/graph/graph.py": "an attribute is a number, a text, an array, or a tuple of these: Attribute",
    "compiler/text/mlir.py": "the same of a text, with dictionaries: Attribute",
    "compiler/session.py": "one table holds what all stages find, and each finds another type",
    "compiler/nest/interpreter.py": "numpy's stubs do not know the form of einsum that it calls",
    "compiler/importers/tflite/content.py": "readers that flatc generates have no types",
    "compiler/importers/tflite/read.py": "readers that flatc generates have no types",
    "compiler/importers/tflite/schema.py": "readers that flatc generates have no types",
    "simulator/run_profile.py": "plain values of JSON",
}
"""The files in which an annotation says Any, and why."""

PARAMETRIC = ("NDArray", "dtype", "floating", "integer")
"""What numpy has a parameter for: Any there leaves the type of elements open, and nothing else."""


@pytest.mark.parametrize("package", ["compiler", "simulator"])
def test_no_annotation_says_any(repository: Path, package: str) -> None:
    saying = {
        f"{place.relative_to(repository)}:{annotation.lineno}"
        for place in sources(repository, package)
        if str(place.relative_to(repository)) not in OPEN
        for annotation in annotations(ast.parse(place.read_text(), place.name))
        if says_any(annotation)
    }
    assert saying == set()


def test_the_list_of_exceptions_is_no_longer_than_needed(repository: Path) -> None:
    idle = [
        place
        for place in OPEN
        if not any(map(says_any, annotations(ast.parse((repository / place).read_text(), place))))
    ]
    assert idle == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x: Any", True),
        ("x: dict[str, typing.Any] = {}", True),
        ("Attribute = Any", True),
        ("Row = dict[str, Any]", True),
        ("def f(x: 'Any') -> int: ...", True),
        ("async def f(*x: int, **y: Any): ...", True),
        ("def f() -> Callable[..., Any]: ...", True),
        ("x: NDArray[Any] = np.zeros(3)", False),
        ("x: Mapping[str, np.dtype[Any]]", False),
        ("x: AnyLevel", False),
        ("x = f(Any)", False),
    ],
)
def test_finds_every_form(source: str, says: bool) -> None:
    assert any(map(says_any, annotations(ast.parse(source)))) == says


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """The annotations of arguments, results and variables, and the right sides of aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as result) | ast.AsyncFunctionDef(returns=ast.expr() as result):
                yield result
            case ast.Assign(value=(ast.Subscript() | ast.Name()) as alias):
                yield alias


def says_any(annotation: ast.AST) -> bool:
    match annotation:
        case ast.Name(id="Any") | ast.Attribute(attr="Any"):
            return True
        case ast.Constant(value=str(text)):
            return re.search(r"\bAny\b", text) is not None
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in PARAMETRIC:
            return False
    return any(map(says_any, ast.iter_child_nodes(annotation)))
