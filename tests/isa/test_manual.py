"""The manual tells each instruction's meaning and fields, and the committed one is that of the machine as it is."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from isa.loader import load_machine, shipped_machines
from isa.manual import main, manual
from isa.numeric import IntegerType, Rounding
from isa.statement import Scope, parse_statement
from isa.statement_math import statement_mathematics


def test_committed_manual_is_current(repository: Path, update_golden: bool) -> None:
    path = repository / "docs" / "isa-base16.md"
    if update_golden:
        path.write_text(manual(load_machine("base16")))
    assert path.read_text() == manual(load_machine("base16"))


@pytest.mark.parametrize("name", shipped_machines())
def test_has_one_section_an_instruction(name: str) -> None:
    machine = load_machine(name)
    assert re.findall(r"^### (\w+)$", manual(machine), re.MULTILINE) == list(machine.formats)


@pytest.mark.parametrize("name", shipped_machines())
def test_lists_every_field_without_gaps(name: str) -> None:
    machine = load_machine(name)
    sections = manual(machine).split("\n### ")[1:]
    for of, section in zip(machine.formats.values(), sections, strict=True):
        rows = re.findall(r"^\| (\d+)(?::(\d+))? \| `([\w.]+)`", section, re.MULTILINE)
        next_bit = 0
        for high, low, _ in rows:
            assert int(low or high) == next_bit
            next_bit = int(high) + 1
        assert (next_bit, len(rows)) == (of.bits, len(of.fields))


@pytest.mark.parametrize(
    ("statement", "mathematics"),
    [
        ("y = wrap(a - (b - a) * 2, int8)", "y ← wrap_int8(a - (b - a) · 2)"),
        ("y = clamp(round_shift(a * b, 3), -1, 1)", "y ← clamp(⌊a · b / 2^3⌉, -1, 1)"),
        ("y = wrap((a >> 2) + (a << 1), int8)", "y ← wrap_int8(⌊a / 2^2⌋ + a · 2^1)"),
        ("y = where(a < b, a, b)", "y ← (a if [a < b] ≠ 0, else b)"),
        ("y = sat(abs(a) + min(a, b), int8)", "y ← clamp(|a| + min(a, b), -128, 127)"),
    ],
)
def test_prints_statements_as_mathematics(statement: str, mathematics: str) -> None:
    machine = load_machine("base16")
    of = machine.formats["add"]
    int8 = IntegerType(8, True)
    scope = Scope({"a": {"": int8}, "b": {"": int8}}, {}, "y", int8, 1, 1, Rounding.EVEN)
    changed = replace(of, statement=parse_statement(statement, scope))
    assert statement_mathematics(changed) == mathematics


def test_names_the_machines_when_called_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m isa.manual MACHINE (base16" in capsys.readouterr().err
