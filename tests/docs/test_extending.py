"""docs/extending.md: every example is made in a copy of the repository, where its commands must succeed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copied_tree import ROOT, copied_tree
from tests.docs.changes import NewFile, apply, changes, sections
from tests.docs.document import Block, blocks, is_slow, promised, steady, with_outputs
from tests.rings import long_beyond

GUIDE = ROOT / "docs" / "extending.md"

ROW = re.compile(r"^\| \[([^]]+)\]\(#([\w-]+)\) \| (.+?) \| (.+?) \|", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|yaml|md))`")


def shown(title: str) -> tuple[Block, ...]:
    """The blocks of a section; their places are those in the whole document."""
    text = GUIDE.read_text()
    place = sections(text)[title]
    return tuple(block for block in blocks(text) if place.start <= block.start < place.stop)


def changed(title: str) -> list[str]:
    """The files that a section changes or makes."""
    return list(dict.fromkeys(change.path for block in shown(title) for change in changes(block)))


EXAMPLES = [title for title in sections(GUIDE.read_text()) if changed(title)]


def anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


WITH_HARDWARE = [title for title in EXAMPLES for block in shown(title) if any(map(is_slow, block.commands))]


@pytest.mark.slow
@pytest.mark.parametrize("title", long_beyond(4, EXAMPLES))
def test_the_example_works(title: str, tmp_path: Path, update_golden: bool) -> None:
    follow(title, copied_tree(tmp_path), update_golden, is_fast=True)


@pytest.mark.slow
@pytest.mark.parametrize("title", WITH_HARDWARE)
def test_the_hardware_has_it_too(title: str, tmp_path: Path, update_golden: bool) -> None:
    follow(title, copied_tree(tmp_path), update_golden, is_fast=False)


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_table_names_the_files_that_the_example_changes(title: str) -> None:
    rows = {place: QUOTED.findall(code) + QUOTED.findall(tests) for _, place, code, tests in rows_of_the_table()}

    assert sorted(rows[anchor(title)]) == sorted(changed(title))


def test_the_table_has_a_row_for_each_example() -> None:
    assert [place for _, place, *_ in rows_of_the_table()] == [anchor(title) for title in EXAMPLES]


def test_every_file_that_is_named_exists() -> None:
    text = GUIDE.read_text()
    made = {change.path for block in blocks(text) for change in changes(block) if isinstance(change, NewFile)}

    assert [path for path in PATH.findall(text) if path not in made and not (ROOT / path).is_file()] == []


def rows_of_the_table() -> list[tuple[str, str, str, str]]:
    """(caption, anchor, code, tests) of each row."""
    return ROW.findall(GUIDE.read_text())


# -- following an example ----------------------------------------------------------------------------------------------


def follow(title: str, tree: Path, update: bool, is_fast: bool) -> None:
    """Make an example's changes in a tree and run its commands; compare what it promises, or write it anew.

    In the fast ring, blocks with commands that build hardware are left out.
    """
    example = shown(title)
    outputs: dict[Block, str] = {}
    for block, following in zip(example, [*example[1:], None], strict=True):
        for change in changes(block):
            apply(change, tree)
        if is_fast and any(map(is_slow, block.commands)):
            continue
        where = f"{GUIDE.name}:{block.line}"
        output = "".join(run(command, tree, where) for command in block.commands)
        expected = promised(block, following)
        if expected is not None and steady(output) != steady(expected.text):
            outputs[expected] = output
            assert update, f"{where} prints\n{output}\nwhere it shows\n{expected.text}"
    sources = [path for path in changed(title) if path.endswith(".py")]
    run(f"ruff check {' '.join(sources)}", tree, title)
    if outputs:
        GUIDE.write_text(with_outputs(GUIDE.read_text(), outputs))


def run(command: str, tree: Path, where: str) -> str:
    """What a command prints in a tree, at 80 columns. It must succeed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {
        **own,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tree),
        "PYTEST_ADDOPTS": "-q -p no:cacheprovider",
        "COLUMNS": "80",
    }
    done = subprocess.run(["sh", "-c", command], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
