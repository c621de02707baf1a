"""The edits of the repository that a guide shows in its blocks.

diff            edits of files that are there: `--- compiler/passes.py`, then lines that stay, go (-) or come (+);
                `@@` between places. The lines that stay say where; there are no line numbers
python, yaml    a new file, if its first line is a comment with nothing but its path: `# rtl/light.py`. That line is
                not part of the file
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.docs.document import Block

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
FILE = re.compile(r"^--- (\S+)$", re.MULTILINE)
PLACE = re.compile(r"^@@.*\n", re.MULTILINE)
NEW_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines of a file, and what takes their place."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class NewFile:
    path: str
    text: str


Change = Edit | NewFile


def sections(text: str) -> dict[str, slice]:
    """Where the section below each heading of the second level stands in a document."""
    found = [(heading[1], heading.start()) for heading in HEADING.finditer(text)]
    return {title: slice(start, end) for (title, start), (_, end) in pairwise([*found, ("", len(text))])}


def changes(block: Block) -> Iterator[Change]:
    """The changes that a block shows."""
    match block.language:
        case "diff":
            _, *parts = FILE.split(block.text)
            for path, hunks in zip(parts[::2], parts[1::2], strict=True):
                yield from (edit(path, hunk) for hunk in PLACE.split(hunks.removeprefix("\n")) if hunk)
        case "python" | "yaml" if named := NEW_FILE.match(block.text):
            yield NewFile(named[1], block.text[named.end() :])


def edit(path: str, hunk: str) -> Edit:
    """A place of a diff. An empty line is one that stays."""
    lines = [line or " " for line in hunk.splitlines()]
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in signs) for signs in (" -", " +"))
    return Edit(path, old, new)


def apply(change: Change, root: Path) -> None:
    """Make a change in a tree; AssertionError where the tree is not what the change takes it for."""
    path = root / change.path
    match change:
        case NewFile(text=text):
            assert not path.exists(), f"{change.path} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        case Edit(old=old, new=new):
            assert path.is_file(), f"there is no file {change.path}"
            text = path.read_text()
            places = [match.start() for match in re.finditer(f"^{re.escape(old)}", text, re.MULTILINE)]
            assert len(places) == 1, f"{change.path} has {len(places)} places with these lines, expected one:\n{old}"
            path.write_text(text[: places[0]] + new + text[places[0] + len(old) :])
