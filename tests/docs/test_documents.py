"""Every command of the README and the tutorial works, and prints what the document says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.document import Block, blocks, is_slow, promised, steady, with_outputs
from tests.docs.excerpt import excerpt
from tests.rings import long_beyond
from tests.tilewright.command_line import Command, make_command
from tilewright.compiler.levels import RULED
from tilewright.compiler.pipeline import pass_names

DOCUMENTS = (
    *("README.md", "docs/tutorial.md", "docs/quantization.md", "docs/levels.md"),
    *("docs/values.md", "docs/explain.md", "docs/systolic.md", "docs/codesign.md"),
    *("docs/firmware.md", "docs/evaluate.md"),
    "programs/kernels/README.md",
)

LONG_DOCUMENTS = ("docs/sequences.md", "programs/decoder/README.md")
"""Their commands take more than a few seconds."""

ENVIRONMENT = ". .venv/bin/activate"
"""The one command that a test has behind it already."""

IN_ANY_ORDER = re.compile(
    r"^[^:]+: (as many cycles|[\d.,]+ % (fewer|more) cycles|\d+ nodes? (more|fewer) on the host)$"
)
"""What `advise` says of each machine as soon as it is known: no document shows these lines, whose order may be any."""

FAILURE = re.compile(r"^error: |\d findings?$|^First difference: ", re.MULTILINE)
"""What a document shows where a command is meant to fail."""


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "80")
    return make_command(capsys, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the programs of the repository, as the working directory."""
    (tmp_path / "programs").symlink_to(repository / "programs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*DOCUMENTS, *(pytest.param(n, marks=pytest.mark.slow) for n in LONG_DOCUMENTS)])
def test_what_the_document_shows_is_what_happens(
    name: str, repository: Path, folder: Path, tilewright: Command, update_golden: bool
) -> None:
    follow(repository / name, tilewright, update_golden, is_fast=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_beyond(1, DOCUMENTS))
def test_the_hardware_does_it_too(
    name: str, repository: Path, folder: Path, tilewright: Command, update_golden: bool
) -> None:
    follow(repository / name, tilewright, update_golden, is_fast=False)


def test_every_page_is_in_the_index(repository: Path) -> None:
    index = (repository / "docs/README.md").read_text()
    pages = {page.name for page in (repository / "docs").glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", index))


def test_every_pass_is_in_the_walk_through_the_levels(repository: Path) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", (repository / "docs/levels.md").read_text(), re.MULTILINE)
    assert tuple(rows) == pass_names()


def test_every_rule_of_every_level_is_listed(repository: Path) -> None:
    """With its level, its name and its sentence; a rule that a level has from another is listed there."""
    page = (repository / "docs/levels.md").read_text().partition("## The rules")[2]
    listed = re.findall(r"^\| ([\w ]+) \| ([\w-]+) \| (.+) \|$", page, re.MULTILINE)
    known: dict[tuple[str, str], str] = {}
    for level in RULED:
        for rule in level.rules:
            known.setdefault((rule.name, rule.sentence), level.name)
    assert listed[1:] == [(level, name, sentence) for (name, sentence), level in known.items()]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_knows_what_the_document_asks_of_it(name: str, repository: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    asked = set(re.findall(r"(?:^|`)make ([\w-]+)", (repository / name).read_text(), re.MULTILINE))
    assert asked
    assert asked <= targets


# -- following a document ----------------------------------------------------------------------------------------------


def follow(document: Path, tilewright: Command, update: bool, is_fast: bool) -> None:
    """Do what a document says in the working directory; compare what it promises, or write it anew.

    In the fast ring, commands that need the hardware are left out, and so is the promise of their block.
    """
    text = document.read_text()
    shown = blocks(text)
    outputs: dict[Block, str] = {}
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        where = f"{document.name}:{block.line}"
        if block.file_name is not None:
            Path(block.file_name).write_text(block.text)
        if block.language == "python":
            exec(compile(block.text, where, "exec"), {})
        if block.language == "mlir":
            shown_now = excerpt(block.text.partition("\n")[0])
            if shown_now != block.text:
                outputs[block] = shown_now
                assert update, f"{where} shows\n{block.text}\nwhere the file has\n{shown_now}"
        expected = promised(block, following)
        commands = [command for command in block.commands if not (is_fast and is_slow(command))]
        output = "".join(run(command, where, expected, tilewright) for command in commands)
        if expected is None or len(commands) < len(block.commands):
            continue
        if steady(output) != steady(expected.text):
            outputs[expected] = output
            assert update, f"{where} prints\n{output}\nwhere the document shows\n{expected.text}"
    if outputs:
        document.write_text(with_outputs(text, outputs))


def run(command: str, where: str, expected: Block | None, tilewright: Command) -> str:
    """What a command prints. It may only fail where the document shows an error."""
    if command == ENVIRONMENT or command.startswith("make "):
        return ""  # the environment is there; the targets are asked of the Makefile, and run by .ci/run
    words, _, pipe = command.partition(" | ")
    program, *arguments = shlex.split(words)
    if (program, *arguments[:1]) == ("python", "-m"):
        return run_module(arguments[1], arguments[2:], where)
    assert program == "tilewright", f"{where}: {command}"
    ended = tilewright(*arguments)
    may_fail = expected is not None and bool(FAILURE.search(expected.text) or not expected.text)
    assert ended.code == 0 or may_fail, f"{where}: {command}\n{ended.err}"
    if not pipe:
        return ended.out + "".join(line for line in ended.err.splitlines(True) if not IN_ANY_ORDER.search(line))
    return subprocess.run(["sh", "-c", pipe], input=ended.out, capture_output=True, text=True, check=True).stdout


def run_module(module: str, arguments: list[str], where: str) -> str:
    """What a command `python -m` prints."""
    ended = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{where}: {module} {arguments}\n{ended.stderr}"
    return ended.stdout + ended.stderr
