"""The manual tells each instruction's meaning and fields, and the committed one is that of the machine as it is."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import IntegerType, Rounding
from tilewright.isa.language.statement import parse_statement
from tilewright.isa.machine.mathematics import statement_mathematics
from tilewright.isa.pages.manual import manual
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles


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
        ("y = clz(a * b)", "y ← clz(a · b)"),
        ("y = lut(t, a)", "y ← t[a + 128]"),
        ("y = wrap(dot(a, b), int8)", "y ← wrap_int8(Σ[row] a[row] · b[row, lane])"),
        ("y = wrap(dot(a, transpose(b)), int8)", "y ← wrap_int8(Σ[row] a[row] · b[lane, row])"),
        ("y = wrap(a - lanes_max(a), int8)", "y ← wrap_int8(a - (max[lane] a))"),
    ],
)
def test_prints_statements_as_mathematics(statement: str, mathematics: str) -> None:
    machine = load_machine("base16")
    of = machine.formats["add"]
    int8 = IntegerType(8, True)
    scope = Scope({n: {"": int8} for n in "abt"}, {}, "y", int8, 1, 1, Rounding.EVEN, blocks={"t": 256})
    changed = replace(of, statement=parse_statement(statement, scope))
    assert statement_mathematics(changed) == mathematics


def test_lists_every_fault() -> None:
    section = manual(load_machine("tiny8")).split("\n## Faults\n")[1]
    assert re.findall(r"^\| (\d) \| (\w+) \|", section, re.MULTILINE) == [(f"{c:d}", c.name) for c in FaultCode]


@pytest.mark.parametrize(
    ("line", "formula"),
    [
        ("copy loops(i=3, k=40) a=act[0; i=40, k=1] y=act[8192; i=40, k=1]", lambda lead, _: 120 + lead),
        ("mma loops(k=3, x=5) a=act[0; x=1] c=acc[0; x=1]", lambda lead, least: 2 * least + 5 + lead),
        ("mma loops(k=3, x=50) a=act[0; x=1] c=acc[0; x=1]", lambda lead, least: 2 * 50 + 50 + lead),
    ],
)
def test_tells_the_cycles_that_the_cycle_model_counts(line: str, formula: Callable[[int, int], int]) -> None:
    program = assemble(line, load_machine("base16"))
    section = manual(program.machine).split(f"\n### {line.split()[0]}\n")[1]
    lead = re.search(r"completes .*?\+ (\d+) cycles", section)
    least = re.search(r"max\(V, (\d+)\)", section)
    assert lead is not None
    counters = simulate_cycles(program, place_regions(program.limits))
    expected = formula(int(lead[1]), int(least[1]) if least else 0)
    assert counters.retired[0] - counters.started[0] == expected


def test_says_what_each_vector_instruction_shares() -> None:
    """Of base16, products come right after one addition; what comes after them is equally far from the result."""
    sections = manual(load_machine("base16")).split("\n### ")
    of = {section.partition("\n")[0]: section for section in sections}

    assert "| 2 | `wrap(a + p.bias, uint16) * p.scale` | rescale, add, mul |" in of["requantize"]
    assert "| 3 | `(a + p.bias) * p.scale` | add |" in of["requantize"]
    assert "| 2 | `(a - a_zero) * scale` | requantize, add, mul |" in of["rescale"]
    assert "| 2 | `(b - b_zero) * b_scale` | requantize, mul |" in of["add"]
    assert "| 3 | `((a - a_zero) * (b - b_zero)) * scale` | requantize, add |" in of["mul"]
    assert "| 1 | `b - b_zero` | mul |" in of["add"]
    assert "| 1 | `max_over(a)` | none |" in of["max_pool"]
    assert "| stage |" not in of["copy"]
