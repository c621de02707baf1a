"""The house in figures: what its structure costs a reader. It prints a table; with `--list`, what was counted, too.

python -m tests.house                  # some seconds; the last row compiles a network of one convolution
python -m tests.house --list cached    # where they are

Everything is read from the sources, but for the last row. What the rows mean:

- `passes out of sight`: functions from a value of a level of the compiler to another of the same level that another
  file of the compiler calls, and that are no row of `compiler/passes.py`. They cannot be printed after, nor left out.
- `passes with several names`: rows whose function or file is called otherwise.
- `tables of modules`: containers of modules of `compiler/` that somebody fills, and objects that fill tables.
- `cached functions`: functions of `compiler/` with `cache` or `lru_cache` that have parameters.
- `objects that fill tables`: classes of `compiler/` with attributes that a method fills in where something is missing.
  One of them is the session of compilations; the others are one value's own facts, or one pass's state.
- `equalities`: functions, classes and files of `compiler/` that say that they compare things but for their names.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from keyword import iskeyword
from pathlib import Path

from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parent.parent
PRODUCT = ("compiler", "tilewright", "codesign", "isa", "simulator", "rtl")
MOST_LINES, MOST_FUNCTION_LINES, FEW_LINES = 350, 60, 40
LEVELS = ("Graph", "NestProgram", "Selection", "TileProgram", "PlacedTiles", "OrderedTiles", "Program")
"""The types of values of the compiler's levels."""

TABLES = ("compiler/passes.py", "compiler/simplify/steps.py")


@dataclass(frozen=True)
class SourceFile:
    """A file of the product, read once."""

    place: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.place)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def functions(self) -> Iterator[ast.FunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                yield node

    @property
    def module(self) -> str:
        return "tilewright." + self.place.removeprefix("tilewright/").removesuffix(".py").replace("/", ".")


def source_files(folders: Sequence[str] = PRODUCT, root: Path = REPOSITORY) -> list[SourceFile]:
    """The Python files of folders at the top of the repository, in order; links are not followed."""
    paths = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return [SourceFile(str(path.relative_to(root)), path.read_text()) for path in paths if path.resolve() == path]


# -- passes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PassRow:
    """A row of the table of passes: its name, and the function that it calls, with the module that this is from."""

    name: str
    function: str
    module: str

    @property
    def has_one_name(self) -> bool:
        """A name that is a word of Python has what it takes behind it: `import` is `import_onnx`."""
        own = self.name.replace("-", "_")
        own = f"{own}_onnx" if iskeyword(own) else own
        return own == self.function and own == self.module.rpartition(".")[2]


def pass_rows(tables: Sequence[SourceFile]) -> list[PassRow]:
    """The rows `Pass(name, before, after, run)` of tables: `run` calls a function, or is one."""
    found = []
    for file in tables:
        modules = {
            alias.asname or alias.name: (node.module or "")
            for node in file.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        texts = dict(_texts_of(file.tree))
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Pass", "GraphPass"):
                name, run = node.args[0], node.args[-1]
                if isinstance(name, ast.Attribute):
                    continue  # the rows of another table
                told = texts.get(name.id, name.id) if isinstance(name, ast.Name) else ast.literal_eval(name)
                while isinstance(run, ast.Lambda):
                    run = run.body.body if isinstance(run.body, ast.IfExp) else run.body
                    run = run.func if isinstance(run, ast.Call) else run
                function = run.id if isinstance(run, ast.Name) else ast.unparse(run)
                found.append(PassRow(str(told), function, modules.get(function, file.module)))
    return found


def _texts_of(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """The constants of a module, also those of one line: `A, B = "a", "b"`."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, constant in zip(names, values, strict=True):
                    if isinstance(each, ast.Name) and isinstance(constant, ast.Constant):
                        yield each.id, constant.value


def passes_out_of_sight(files: Sequence[SourceFile], rows: Sequence[PassRow]) -> list[str]:
    """Functions from a level's value to another of the same level that are called from other files, and are no rows."""
    in_sight = {(row.function, row.module) for row in rows}
    compiler = _of_the_compiler(files)
    used = {
        alias.name
        for file in compiler
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return [
        f"{file.place}: {function.name}"
        for file in compiler
        for function in file.tree.body
        if isinstance(function, ast.FunctionDef)
        and function.name in used
        and (function.name, file.module) not in in_sight
        and _is_pass(function)
    ]


def _is_pass(function: ast.FunctionDef) -> bool:
    arguments = function.args.args
    if not arguments or arguments[0].annotation is None or function.returns is None:
        return False
    return ast.unparse(arguments[0].annotation) == ast.unparse(function.returns) in LEVELS


# -- memos and equalities ----------------------------------------------------------------------------------------------


def tables_of_modules(files: Sequence[SourceFile]) -> list[str]:
    return [f"{file.place}: {name}" for file in _of_the_compiler(files) for name in _tables_of(file)]


def cached_functions(files: Sequence[SourceFile]) -> list[str]:
    return [
        f"{file.place}: {function.name}"
        for file in _of_the_compiler(files)
        for function in file.functions()
        if _is_cached(function)
    ]


def objects_that_fill_tables(files: Sequence[SourceFile]) -> list[str]:
    found = []
    for file in _of_the_compiler(files):
        for outer in ast.walk(file.tree):
            if isinstance(outer, ast.ClassDef):
                kept = sorted({name for function in outer.body for name in _filled_in(function)})
                found += [f"{file.place}: {outer.name} ({', '.join(kept)})"] if kept else []
    return found


def _of_the_compiler(files: Sequence[SourceFile]) -> list[SourceFile]:
    return [file for file in files if file.place.startswith("compiler/")]


def _is_cached(function: ast.FunctionDef) -> bool:
    """Whether a function with parameters keeps its results."""
    names = [ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in function.decorator_list]
    return bool(function.args.args) and any(name in ("cache", "lru_cache") for name in names)


def _tables_of(file: SourceFile) -> Iterator[str]:
    """The empty containers of a module, and its objects of classes that fill tables: somebody fills them."""
    filling = {each.split()[1] for each in objects_that_fill_tables([file])}
    for node in file.tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=ast.expr() as value):
                is_empty = ast.unparse(value).partition("(")[0] in ("{}", "[]", "deque", "dict", "WeakKeyDictionary")
                if is_empty and "Mapping" not in ast.unparse(kind):  # nobody may fill that
                    yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=of))) if of in filling:
                yield name


def _filled_in(function: ast.stmt) -> Iterator[str]:
    """Attributes that a method asks for a key, and sets where it is not there."""
    if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
        return
    asked, filled = set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute() as table]):
                asked.add(ast.unparse(table))
            case ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute() as table)):
                asked.add(ast.unparse(table))
            case ast.Try(body=[ast.Assign(value=ast.Subscript(value=ast.Attribute() as table))]):
                asked.add(ast.unparse(table))
            case ast.Call(func=ast.Attribute(attr="setdefault", value=ast.Attribute() as table)):
                if not _is_number(node):
                    yield table.attr
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    filled.add(ast.unparse(target.value))
    yield from (table.removeprefix("self.") for table in asked & filled if table.startswith("self."))


def _is_number(call: ast.Call) -> bool:
    """`numbers.setdefault(name, len(numbers))`, with a letter or an offset perhaps."""
    return len(call.args) == 2 and "len(" in ast.unparse(call.args[1])


EQUALITY = re.compile(r"(equal|same|differ\w*)\b[^.]*\bnames\b|all of \w+ \w+ but (its|their) names", re.IGNORECASE)


def equalities(files: Sequence[SourceFile]) -> list[str]:
    """Functions, classes and files of the compiler that say in their docstring that they compare but for names."""
    found = []
    for file in _of_the_compiler(files):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                if EQUALITY.search(" ".join((ast.get_docstring(node) or "").split())):
                    found.append(f"{file.place}: {'the file' if isinstance(node, ast.Module) else node.name}")
    return found


# -- sizes -------------------------------------------------------------------------------------------------------------


def long_files(files: Sequence[SourceFile]) -> list[str]:
    return [f"{file.place}: {file.lines}" for file in files if file.lines > MOST_LINES]


def long_functions(files: Sequence[SourceFile]) -> list[str]:
    found = []
    for file in files:
        for function in file.functions():
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                found.append(f"{file.place}: {function.name}, {lines}")
    return found


def short_files_with_one_importer(files: Sequence[SourceFile]) -> list[str]:
    """Files of few lines that one other file of the product imports."""
    importers: dict[str, set[str]] = {}
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    importers.setdefault(name, set()).add(file.place)
    return [
        f"{file.place}: {file.lines}, for {min(importers[file.module])}"
        for file in files
        if file.lines < FEW_LINES and len(importers.get(file.module, ())) == 1
    ]


def files_of_a_convolution() -> list[str]:
    """The files of ours whose functions run while a network of one convolution is compiled, warm, for base16."""
    import numpy as np
    import onnx

    from tests.compiler.models import conv_model
    from tilewright.compiler.pipeline import compile_model
    from tilewright.isa.files.loader import load_machine

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conv.onnx"
        onnx.save(conv_model(np.random.default_rng(0)), str(path))
        machine = load_machine("base16")
        compile_model(path, machine)
        return traced(lambda: compile_model(path, machine))


def traced(action: Callable[[], object]) -> list[str]:
    """The files of the product whose functions run."""
    found: set[str] = set()

    def see(frame: object, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)  # type: ignore[attr-defined]

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    real = {Path(name).resolve() for name in found if name.endswith(".py")}
    inside = (str(path.relative_to(REPOSITORY)) for path in real if path.is_relative_to(REPOSITORY))
    return sorted(place for place in inside if place.split("/")[0] in PRODUCT)


def main() -> None:
    """Print the table, and the places of what `--list` names."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description="The house in figures.")
    parser.add_argument("--list", action="append", default=[], metavar="ROW", help="what a row counts; its first words")
    arguments = parser.parse_args()
    files = source_files()
    rows = pass_rows([file for file in files if file.place in TABLES])
    several = [f"{row.name}: {row.function} of {row.module}" for row in rows if not row.has_one_name]
    counted = {
        "passes out of sight": passes_out_of_sight(files, rows),
        "passes with several names": several,
        "tables of modules": tables_of_modules(files),
        "cached functions": cached_functions(files),
        "objects that fill tables": objects_that_fill_tables(files),
        "equalities": equalities(files),
        f"files over {MOST_LINES} lines": long_files(files),
        f"functions over {MOST_FUNCTION_LINES} lines": long_functions(files),
        f"files under {FEW_LINES} lines with one importer": short_files_with_one_importer(files),
        "files that one convolution passes": files_of_a_convolution(),
    }
    table = Table("measure", "count")
    table.add_row("rows of the table of passes", str(len(rows)))
    for name, found in counted.items():
        table.add_row(name, str(len(found)))
    table.add_row("lines of product", f"{sum(file.lines for file in files):,}")
    Console().print(table)
    for wanted in arguments.list:
        for name, found in counted.items():
            if name.startswith(wanted):
                print(f"\n{name}:", *found, sep="\n  ")


if __name__ == "__main__":
    main()
