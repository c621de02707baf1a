"""What engines are called is nobody's business: no file of the product names one, and no result depends on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.digits import MODEL
from tests.engines import ENGINES
from tests.netlists import fingerprint
from tests.renamed import NAMES, renamed_text
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import encode
from tilewright.isa.program.program import Program, place_regions
from tilewright.rtl.npu import Npu
from tilewright.simulator.cycles import simulate_cycles

PACKAGES = ("isa", "simulator", "compiler", "rtl", "codesign", "tilewright")

OTHER_MEANINGS: Mapping[str, frozenset[str]] = {
    "load": frozenset(
        {"to read a file", "the words that a layer needs from DRAM", "the capacitance at a gate's output"}
    ),
    "store": frozenset({"the file of a study's points", "the instruction that moves a layer's words to DRAM"}),
}
"""Of names that are words of the field as well, what else they mean in the product: only as identifiers."""

STRINGS: Mapping[str, frozenset[str]] = {
    "simulator/losses.py": frozenset({"load", "store"}),  # causes of lost cycles: keys of a profile
    "rtl/systolic.py": frozenset({"load"}),  # a row of weights enters the array
    "codesign/price/parts.py": frozenset({"load"}),  # a port of the array's elements
    "codesign/price/measure_activity.py": frozenset({"load"}),  # the same
    "codesign/explore/run.py": frozenset({"load"}),  # the stage of a point in which its machine is read
}
"""Strings that are equal to an engine's name and mean something else."""


def names_in(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """(line, name, whether it is a string) of every string and identifier."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, True
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield getattr(node, "lineno", 0), value, False


def test_no_file_of_the_product_names_an_engine(repository: Path) -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((repository / package).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents):
                continue  # the packages are linked into tilewright/
            place = path.relative_to(repository).as_posix()
            for line, name, is_string in names_in(ast.parse(path.read_text())):
                allowed = STRINGS.get(place, frozenset()) if is_string else OTHER_MEANINGS
                if name in ENGINES and name not in allowed:
                    found.append(f"{place}:{line} {name}")
    assert found == []


def test_every_exception_is_needed(repository: Path) -> None:
    for place, names in STRINGS.items():
        strings = {name for _, name, is_string in names_in(ast.parse((repository / place).read_text())) if is_string}
        assert names <= strings, place


@pytest.fixture(scope="module")
def programs() -> tuple[Program, Program]:
    """Digits on a machine, and on the same machine whose engines have other names."""
    other = load_machine_text(renamed_text("tiny8"), "tiny8")
    return compile_model(MODEL, load_machine("tiny8")), compile_model(MODEL, other)


def test_a_program_is_the_same_whatever_engines_are_called(programs: tuple[Program, Program]) -> None:
    plain, renamed = (b"".join(encode(instruction) for instruction in program.instructions) for program in programs)
    assert plain == renamed


def test_cycles_are_the_same_whatever_engines_are_called(programs: tuple[Program, Program]) -> None:
    plain, renamed = (simulate_cycles(program, place_regions(program.limits)) for program in programs)

    assert renamed.started.tolist() == plain.started.tolist()
    assert {NAMES[name][0]: counters.busy for name, counters in plain.engines.items()} == {
        name: counters.busy for name, counters in renamed.engines.items()
    }


@pytest.mark.slow
def test_the_hardware_is_the_same_whatever_engines_are_called() -> None:
    small = ["array.rows=2", "array.cols=2", "lanes=2"]
    plain = load_machine("tiny8", small)
    renamed = load_machine_text(renamed_text("tiny8", small), "tiny8")

    assert fingerprint(Npu(replace(renamed, text=plain.text))) == fingerprint(Npu(plain))  # a register holds its hash
