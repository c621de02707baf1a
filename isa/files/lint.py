"""All faults of a machine file as text: the place, the key, what is wrong, what would be right, and the line itself."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import SPECS, load_machine, machine_tree, read_machine_file
from tilewright.isa.files.machine_file import MORE, MachineFileError
from tilewright.isa.files.yaml_tree import Tree, at

PLACE = r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): "
"""How a complaint of a file begins."""

LONGEST_LINE = 120
"""The most characters of a faulty line that are shown."""


def lint(name_or_path: str | Path, overrides: Sequence[str] = ()) -> tuple[str, ...]:
    """One text for each fault of a machine, in the order of the file; an engine that nothing runs on is one, too.

    In a file with other faults, that is an engine that no instruction names.

    The first line is `file:line:column: key: what is wrong; what would be right`. Where the place can be read again,
    two more follow: the offending line and a caret under its column.
    """
    try:
        machine = load_machine(name_or_path, overrides)
        used = {format.engine.name for format in machine.formats.values()}
        return tuple(_with_lines(list(_idle_engines(machine_tree(name_or_path, overrides), used)), None))
    except MachineFileError as error:
        if MORE in error.complaints:
            return tuple(_with_lines(error.complaints, None))
        tree = machine_tree(name_or_path, overrides)
        complaints = [*error.complaints, *_idle_engines(tree, _named_engines(tree))]
        return tuple(_with_lines(sorted(complaints, key=_place), None))
    except IsaError as error:
        return tuple(_with_lines([str(error)], str(name_or_path)))


def _idle_engines(tree: Tree, used: Container[str]) -> Iterator[str]:
    """Complaints of engines without an instruction: such a machine works, and pays for what it never uses."""
    engines = at(tree, ("engines",))
    entries = engines.value if engines is not None and isinstance(engines.value, Mapping) else {}
    for name, entry in entries.items():
        if name not in used:
            yield (
                f"{entry.where}: engines.{name}: no instruction runs on it; "
                f"name it in one (engine: {name}), or take it away (engines.{name}: null)"
            )


def _named_engines(tree: Tree) -> set[str]:
    """The engines that instructions of a faulty file name."""
    instructions = at(tree, ("instructions",))
    entries = instructions.value if instructions is not None and isinstance(instructions.value, Mapping) else {}
    named = [each for entry in entries.values() if (each := at(entry, ("engine",))) is not None]
    words = [word for each in named for word in (each.value if isinstance(each.value, tuple) else (each,))]
    return {str(word.value) for word in words}


def _place(complaint: str) -> tuple[str, int, int]:
    """Where a complaint is of, for the order of the file; those without a place come first."""
    place = re.match(PLACE, complaint)
    return ("", 0, 0) if place is None else (place["file"], int(place["line"]), int(place["column"]))


def _with_lines(complaints: Sequence[str], only: str | None) -> Iterator[str]:
    """The complaints, each with its line; of the file `only` alone, if given: others may be none of ours."""
    read: dict[str, list[str]] = {}
    for complaint in complaints:
        place = re.match(PLACE, complaint)
        if place is None or only not in (None, place["file"]):
            yield complaint
            continue
        if place["file"] not in read:
            read[place["file"]] = _lines(place["file"])
        yield _with_line(complaint, read[place["file"]], int(place["line"]) - 1, int(place["column"]) - 1)


def _with_line(complaint: str, lines: Sequence[str], row: int, column: int) -> str:
    if row >= len(lines):
        return complaint
    shown, at = _cut(lines[row], column)
    return f"{complaint}\n    {shown}\n    {' ' * at}^"


def _lines(file: str) -> list[str]:
    """The lines of a machine file as its messages name it: a shipped one by its name alone."""
    shipped = SPECS / file
    path = shipped if Path(file).name == file and shipped.is_file() else Path(file)
    try:
        return read_machine_file(path).splitlines()
    except (IsaError, ValueError):
        return []


def _cut(line: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and where in it the column is; control characters are shown as one `·` each."""
    start = max(0, column - LONGEST_LINE // 2) if len(line) > LONGEST_LINE else 0
    shown = line[start : start + LONGEST_LINE]
    return "".join(c if c.isprintable() else "·" for c in shown), column - start
