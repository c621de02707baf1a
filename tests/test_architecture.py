"""Laws about the repository as a whole: imports point down, and no file names a package registry's host."""

import ast
import subprocess
from pathlib import Path

import pytest

# A package may import itself and what is listed here, of ours.
MAY_IMPORT = {
    "isa": set(),
    "compiler": {"isa"},
    "simulator": {"isa"},
    "rtl": {"isa"},
    "codesign": {"isa", "compiler", "simulator", "rtl"},
    "tilewright": {"isa", "compiler", "simulator", "rtl", "codesign"},
}
OURS = {*MAY_IMPORT, "programs", "tests"}

# Written in pieces, so that this file passes its own test.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_down(repository: Path, package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    upward = [
        f"{path.relative_to(repository)}:{line} imports {name}"
        for path in sorted((repository / package).rglob("*.py"))
        for line, name in imported_packages(path.read_text(), path.name)
        if name in OURS and name not in allowed
    ]
    assert upward == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import isa.timing", [(1, "isa")]),
        ("import numpy, compiler.graph as g", [(1, "numpy"), (1, "compiler")]),
        ("from rtl.mac import Mac", [(1, "rtl")]),
        ("def late():\n    from simulator import run", [(2, "simulator")]),
        ("from importlib import import_module\nimport_module('rtl.mac')", [(1, "importlib"), (2, "rtl")]),
        ("__import__('rtl')", [(1, "rtl")]),
    ],
)
def test_finds_every_form_of_import(source: str, found: list[tuple[int, str]]) -> None:
    assert sorted(imported_packages(source, "example.py")) == sorted(found)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_are_absolute(repository: Path, package: str) -> None:
    relative = [
        f"{path.relative_to(repository)}:{node.lineno}"
        for path in sorted((repository / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(), path.name))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_names_no_registry_host(repository: Path) -> None:
    naming = [
        f"{path.relative_to(repository)} names {host}"
        for path in text_files(repository)
        for host in REGISTRY_HOSTS
        if host in path.read_text(errors="ignore")
    ]
    assert naming == []


def imported_packages(source: str, name: str) -> list[tuple[int, str]]:
    """(line, top-level package) of each import in the source, also of those inside functions or by a literal name."""
    found = []
    for node in ast.walk(ast.parse(source, name)):
        match node:
            case ast.Import(names=aliases):
                found += [(node.lineno, alias.name.split(".")[0]) for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                found.append((node.lineno, module.split(".")[0]))
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                found.append((node.lineno, module.split(".")[0]))
    return found


def text_files(repository: Path) -> list[Path]:
    """Every file that git tracks or would track, without binary ones; all files when this is no git checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    if listed.returncode == 0:
        paths = [repository / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in repository.rglob("*") if ".venv" not in path.parts]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]
