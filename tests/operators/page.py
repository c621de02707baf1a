"""docs/operators.md, from the compiler's answers and what is measured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tests.operators.measure import Exactness, measured
from tilewright.compiler.partition.support import Support, support_table, unasked_operators
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
MACHINE = "base16"

HEAD = f"""\
# Operators

What `{MACHINE}` does of ONNX's operators, and what runs on the host ([host.md](host.md)). Written by
`python -m tests.operators`: for each form of an operator the compiler gets a small quantised network and says itself
whether it takes it. `tilewright operators --isa MACHINE` asks for any other machine.

Activations are int8 or uint8, with one scale; NPU stands for both. Forms are of [N, C, H, W] unless they say otherwise.
*Steps* is the largest distance of a result from ONNX Runtime without optimisations, in steps of its quantisation, and
*equal* the share of equal results, over {{count}} random results of all operators: {{equal}} of them are equal.

An operator is one node here. In a network, neighbours matter too: a Relu or Clip goes into the node before it, a Pad
into the node after it, and a Transpose costs nothing when another undoes it.
"""


def rows(machine: Machine) -> list[tuple[Support, Exactness | None]]:
    """Every form that is asked about, with how exact it is on the machine."""
    return [(support, measured(support, machine)) for support in support_table(machine)]


def page(found: Sequence[tuple[Support, Exactness | None]]) -> str:
    """The page's text."""
    known = [exactness for _, exactness in found if exactness is not None]
    count, equal = sum(of.count for of in known), sum(of.equal for of in known)
    head = HEAD.format(count=f"{count:,}", equal=_percent(equal, count))
    return "\n".join([head, *_machine(found), *_host(found)])


def page_now() -> str:
    """The page as it should be, from the shipped machine."""
    return page(rows(load_machine(MACHINE)))


def places(text: str) -> dict[tuple[str, str], str]:
    """Of each form on the page, where it runs."""
    lines = re.findall(r"^\| (\w+) \| (.*?) \| (.*?) \|", text, re.MULTILINE)
    return {(operator, form): place for operator, form, place in lines if place.startswith(("NPU", "host"))}


def _machine(found: Sequence[tuple[Support, Exactness | None]]) -> list[str]:
    lines = ["## On the machine\n", *_table_head("operator", "form", "where", "steps", "equal", "limit")]
    for _, group in groupby(found, lambda row: row[0].operator):
        forms = list(group)
        if any(support.dtypes for support, _ in forms):
            lines += [_row(support, exactness) for support, exactness in forms]
    return [*lines, ""]


def _row(support: Support, exactness: Exactness | None) -> str:
    figures = ("", "") if exactness is None else (str(exactness.steps), _percent(exactness.equal, exactness.count))
    cells = (support.operator, support.form, support.place, *figures, support.reason.replace("|", "\\|"))
    return f"| {' | '.join(cells)} |"


def _host(found: Sequence[tuple[Support, Exactness | None]]) -> list[str]:
    lines = ["## On the host\n", *_table_head("operator", "why")]
    for operator, group in groupby(found, lambda row: row[0].operator):
        supports = [support for support, _ in group]
        if not any(support.dtypes for support in supports):
            reasons = dict.fromkeys(support.reason.replace("|", "\\|") for support in supports)
            lines.append(f"| {operator} | {'; '.join(reasons)} |")
    names = ", ".join(unasked_operators())
    asked = "Operators that no small network was made for, because they do not work on real numbers or need more than"
    return [*lines, "", *textwrap.wrap(f"{asked} operands of one kind: {names}.", 116), ""]


def _table_head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(['---'] * len(columns))} |"]


def _percent(part: int, whole: int) -> str:
    """In per cent, rounded down, so that 100 % means all."""
    return "100 %" if part == whole else f"{int(100_000 * part / whole) / 1000} %"
