"""Laws about the repository as a whole: imports point down, between the packages and between the rooms inside them."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGES = {
    "isa": set(),
    "simulator": {"isa"},
    "compiler": {"isa", "simulator"},
    "rtl": {"isa"},
    "codesign": {"isa", "compiler", "simulator", "rtl"},
    "tilewright": {"isa", "compiler", "simulator", "rtl", "codesign"},
}
"""A package may import itself and these. `tilewright` stands for the files of the public face."""

ROOMS = {
    "isa": (
        *("errors", "outside", "rare_collection", "folders", "file_hash", "kernels", "language", "machine", "timing"),
        *("key_kinds", "templates", "files", "program", "check", "assembly", "binary", "pages"),
    ),
    "compiler": (
        *(
            "errors",
            "canonical_form",
            "session",
            "templates",
            "arithmetic",
            "evaluate",
            "remedy",
            "text",
        ),
        "rules",
        *(
            "graph",
            "nest",
            "importers",
            "simplify",
            "columns",
            "lower",
            "select",
            "stripes",
            "tile",
            "tiling",
            "emission",
        ),
        *(
            "options",
            "attempts",
            "levels",
            "search",
            "passes",
            "running",
            "fitting",
            "pipeline",
            "partition",
        ),
    ),
}
"""The folders and files at the top of a package, lowest first: one may import those before it."""


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_between_packages_point_down(repository: Path, package: str) -> None:
    allowed = PACKAGES[package] | {package}
    upward = [
        f"{place} imports {name}"
        for place, _, name in imports(repository, package)
        if name.split(".")[0] in {*PACKAGES, "programs", "tests"} and name.split(".")[0] not in allowed
    ]
    assert upward == []


@pytest.mark.parametrize("package", ROOMS)
def test_imports_between_rooms_point_down(repository: Path, package: str) -> None:
    order = ROOMS[package]
    upward = [
        f"{place} imports {name}"
        for place, room, name in imports(repository, package)
        if name.startswith(f"{package}.") and order.index(name.split(".")[1]) > order.index(room)
    ]
    assert upward == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_there(repository: Path, package: str) -> None:
    """Inside functions too, where nothing says so before a user does: the type checker overlooks modules it misses."""
    missing = [
        f"{place} imports {name}"
        for place, _, name in imports(repository, package)
        if name.split(".")[0] in PACKAGES and not any(map(is_there, the_module_and_what_holds_it(repository, name)))
    ]
    assert missing == []


def the_module_and_what_holds_it(repository: Path, name: str) -> tuple[Path, Path]:
    module = repository.joinpath(*name.split("."))
    return module, module.parent


def is_there(module: Path) -> bool:
    return module.is_dir() or module.with_suffix(".py").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_a_circle_of_rooms(repository: Path, package: str) -> None:
    """Inside every folder, imports between its files and folders point one way."""
    of_folder: dict[Path, dict[str, set[str]]] = {}
    for place, _, name in imports(repository, package):
        parts = Path(place.rpartition(":")[0]).with_suffix("").parts
        shared = zip(parts, name.split("."), strict=False)
        depth = next((at for at, (own, other) in enumerate(shared) if own != other), 0)
        if 0 < depth < len(parts) and parts[depth] not in ("__init__", "__main__"):
            rooms = of_folder.setdefault(Path(*parts[:depth]), {})
            rooms.setdefault(parts[depth], set()).add(name.split(".")[depth])
    circles = [f"{folder}: {circle}" for folder, rooms in of_folder.items() if (circle := a_circle(rooms))]
    assert circles == []


def a_circle(rooms: Mapping[str, set[str]]) -> str:
    """`a → b → a`, if rooms import each other in a loop."""
    try:
        TopologicalSorter({room: found & rooms.keys() for room, found in rooms.items()}).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def test_a_circle_is_found() -> None:
    assert a_circle({"a": {"b"}, "b": {"c", "os"}, "c": {"a"}, "d": {"a"}}) in (
        "a → b → c → a",
        "b → c → a → b",
        "c → a → b → c",
    )
    assert a_circle({"a": {"b"}, "b": {"c"}, "d": {"a"}}) == ""


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_has_its_place(repository: Path, package: str) -> None:
    found = {path.stem for path in (repository / package).iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert found - {"__init__", "__pycache__"} == set(ROOMS[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_are_absolute(repository: Path, package: str) -> None:
    relative = [
        f"{path.relative_to(repository)}:{node.lineno}"
        for path in sources(repository, package)
        for node in ast.walk(ast.parse(path.read_text(), path.name))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_nothing_is_imported_by_the_name_of_its_folder(repository: Path) -> None:
    """`isa` and `tilewright.isa` would be two modules of one file, and only one of them is installed."""
    folders = [*PACKAGES, "tests", "programs"]
    bare = [
        f"{path.relative_to(repository)}:{line} imports {name}"
        for folder in folders
        for path in sources(repository, folder)
        for line, name in imported_modules(path.read_text(), path.name)
        if name.split(".")[0] in {"isa", "compiler", "simulator", "rtl", "codesign"}
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tilewright.isa.timing", [(1, "tilewright.isa.timing")]),
        ("import numpy, tilewright.compiler as g", [(1, "numpy"), (1, "tilewright.compiler")]),
        ("from tilewright.rtl.mac import Mac", [(1, "tilewright.rtl.mac.Mac")]),
        ("def late():\n    from tilewright.simulator import run", [(2, "tilewright.simulator.run")]),
        (
            "from importlib import import_module\nimport_module('tilewright.rtl.mac')",
            [(1, "importlib.import_module"), (2, "tilewright.rtl.mac")],
        ),
        ("__import__('rtl')", [(1, "rtl")]),
    ],
)
def test_finds_every_form_of_import(source: str, found: list[tuple[int, str]]) -> None:
    assert sorted(imported_modules(source, "example.py")) == sorted(found)


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("tilewright.isa.timing", "isa.timing"),
        ("tilewright.api", "tilewright.api"),
        ("tilewright", "tilewright"),
        ("tests.digits", "tests.digits"),
    ],
)
def test_a_module_is_of_the_package_whose_folder_it_is_in(module: str, package: str) -> None:
    assert in_the_repository(module) == package


def imports(repository: Path, package: str) -> Iterator[tuple[str, str, str]]:
    """(file and line, the room that it is in, the module by its folder in the repository) of each import of ours."""
    for path in sources(repository, package):
        place = path.relative_to(repository)
        room = Path(place.parts[1]).stem
        for line, name in imported_modules(path.read_text(), path.name):
            yield f"{place}:{line}", room, in_the_repository(name)


def in_the_repository(module: str) -> str:
    """`tilewright.isa.timing` is `isa/timing.py` there; `tilewright.api` is `tilewright/api.py`."""
    first, _, rest = module.partition(".")
    return rest if first == "tilewright" and rest.split(".")[0] in PACKAGES else module


def sources(repository: Path, folder: str) -> list[Path]:
    """The Python files of a folder at the top of the repository; links to other such folders are not followed."""
    return sorted(path for path in (repository / folder).rglob("*.py") if path.resolve() == path.absolute())


def imported_modules(source: str, name: str) -> list[tuple[int, str]]:
    """(line, module) of each import, also of those inside functions or by a literal name.

    `from a.b import c` gives a.b.c: c may be a module, and what is above it is the same in any case.
    """
    found = []
    for node in ast.walk(ast.parse(source, name)):
        match node:
            case ast.Import(names=aliases):
                found += [(node.lineno, alias.name) for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                found += [(node.lineno, f"{module}.{alias.name}") for alias in aliases]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                found.append((node.lineno, module))
    return found
