"""A new template: the type checker names every table that lacks it, and one file in a package answers for all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copied_tree import copied_tree

TABLES = (
    *(f"tilewright/{package}/templates/table.py" for package in ("isa", "simulator", "compiler", "rtl", "codesign")),
    "tilewright/templates/table.py",
    "tilewright/rtl/engines.py",
    "tilewright/rtl/proof/engines.py",
)
"""Where each package lists the templates, for each of which it has a file; and the components and proofs of engines."""

SETTINGS = '''
@dataclass(frozen=True, slots=True)
class Fill:
    """Writes one value into words."""

    burst: int


Settings = Dma | Systolic | Vector | Fill
'''

FACET = '''"""Engines that write one value into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.isa.key_kinds import Key, WholeNumber
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Direction, Fill, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.work import BlockAccess, Task, Work


class FillFacet(Facet):
    """An instruction has no sources."""

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        return {"burst": Key(WholeNumber(1, 8), "Words a cycle; 1 if left out.", is_needed=False)}

    def settings(self, direction: Direction | None, said: Mapping[str, int], array: Systolic, lanes: int) -> Fill:
        return Fill(said.get("burst", 1))

    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        if format.sources:
            yield "a fill engine has no sources"

    def work(self, machine: Machine, task: Task) -> Work:
        words = task.iterations
        return Work(words, words, (BlockAccess(task.format.destination, words, 0, words, is_write=True),))

    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        yield f"    {format.destination.name} ← {format.statement.text.partition('=')[2].strip()}"
'''

TIMING = """
    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        return "one iteration a cycle."
"""

MACHINE = """
extends: tiny8
engines: {zero: {template: fill, burst: 2, queue: 2, reads: [], writes: [act]}}
instructions:
  clear:
    engine: zero
    loops: {i: 8}
    from:  {}
    to:    {y: act}
    imm:   {value: int8}
    do: y = value
"""

PRINT = """
from tilewright.isa.files.loader import load_machine
from tilewright.isa.pages.manual import manual

machine = load_machine("filling.yaml")
print(machine.engines["zero"].settings)
print(manual(machine))
"""


def edit(path: Path, *edits: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in edits:
        assert old in text, f"{path}: {old}"
        text = text.replace(old, new, 1)
    path.write_text(text)


def run(tree: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    ran = subprocess.run([sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True)
    return ran.stdout + ran.stderr


def complaints(tree: Path, *files: str) -> list[str]:
    """What the type checker says of tables and facets."""
    said = run(tree, "-m", "mypy", *files).splitlines()
    return [line for line in said if "/templates/" in line or line.partition(":")[0] in TABLES]


def with_template(tree: Path) -> None:
    """Declares the template in a copy of the tree, and nothing else."""
    edit(
        tree / "isa/machine/engine.py",
        ('    VECTOR = "vector"\n', '    VECTOR = "vector"\n    FILL = "fill"\n'),
        ("\nSettings = Dma | Systolic | Vector\n", SETTINGS),
        (
            "                return Template.VECTOR\n",
            "                return Template.VECTOR\n            case Fill():\n                return Template.FILL\n",
        ),
    )


@pytest.mark.slow
def test_the_type_checker_names_what_a_template_lacks_and_a_file_is_enough(tmp_path: Path) -> None:
    tree = copied_tree(tmp_path)
    with_template(tree)

    missing = complaints(tree, *TABLES)
    assert {line.partition(":")[0] for line in missing} == set(TABLES)
    assert all("Template.FILL" in line for line in missing)

    (tree / "isa/templates/fill.py").write_text(FACET)
    edit(
        tree / "isa/templates/table.py",
        (
            "from tilewright.isa.templates.systolic",
            "from tilewright.isa.templates.fill import FillFacet\nfrom tilewright.isa.templates.systolic",
        ),
        (
            "        case _ as",
            "        case Template.FILL:\n            return FillFacet()\n        case _ as",
        ),
    )
    (line,) = complaints(tree, TABLES[0])
    assert 'abstract class "FillFacet" with abstract attribute "timing"' in line

    (tree / "isa/templates/fill.py").write_text(FACET + TIMING)
    assert complaints(tree, TABLES[0]) == []

    (tree / "filling.yaml").write_text(MACHINE)
    printed = run(tree, "-c", PRINT)
    assert printed.startswith("Fill(burst=2)\n"), printed
    assert "Timing: one iteration a cycle." in printed
    assert "y ← value" in printed
