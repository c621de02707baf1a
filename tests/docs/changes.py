"""The edits of the repository that a guide shows in its blocks.

diff            edits of files that are there, as `git apply` takes them: `--- a/compiler/passes.py`. A line that stays
                and is empty may be without the space that begins it
python, yaml    a new file, if its first line is a comment with nothing but its path: `# rtl/light.py`. That line is
                not part of the file
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.docs.document import Block

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
FILE = re.compile(r"^(?=--- a/\S+$)", re.MULTILINE)
PATCHED = re.compile(r"--- a/(\S+)\n")
NEW_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits of a file, as `git apply` takes them."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class NewFile:
    path: str
    text: str


Change = Patch | NewFile


def sections(text: str) -> dict[str, slice]:
    """Where the section below each heading of the second level stands in a document."""
    found = [(heading[1], heading.start()) for heading in HEADING.finditer(text)]
    return {title: slice(start, end) for (title, start), (_, end) in pairwise([*found, ("", len(text))])}


def changes(block: Block) -> Iterator[Change]:
    """The changes that a block shows. AssertionError for a diff that begins with no file."""
    match block.language:
        case "diff":
            before, *patches = FILE.split(block.text)
            assert not before, f"a diff begins with {before!r}; expected `--- a/PATH`"
            for text in patches:
                named = PATCHED.match(text)
                assert named is not None
                yield Patch(named[1], text)
        case "python" | "yaml" if named := NEW_FILE.match(block.text):
            yield NewFile(named[1], block.text[named.end() :])


def apply(change: Change, root: Path) -> None:
    """Make a change in a tree; AssertionError where the tree is not what the change takes it for."""
    path = root / change.path
    match change:
        case NewFile(text=text):
            assert not path.exists(), f"{change.path} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        case Patch(text=text):
            done = subprocess.run(["git", "apply"], cwd=root, input=text, text=True, capture_output=True)
            assert done.returncode == 0, f"git apply refuses the patch of {change.path}: {done.stderr}"
