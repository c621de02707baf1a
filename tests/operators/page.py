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

This page lists which ONNX operators run on `{MACHINE}`, and which on the host ([host.md](host.md)).
`python -m tests.operators` writes it: it makes a small quantised network for each form of an operator and asks the
compiler whether it can compile that. `tilewright operators --isa MACHINE` answers for any other machine.

Activations are int8 or uint8, with one scale. *NPU* means that the operator runs on the machine with both types.
Tensors are [N, C, H, W] unless the form says otherwise. *Steps* is the largest difference from ONNX Runtime without
optimisations, counted in steps of the result's quantisation. *Equal* is the share of
results that are equal. Of {{count}} random results of all operators, {{equal}} are equal.

Here, every operator is tested alone. In a network, its neighbours matter too. A Relu or Clip becomes part of the node
before it, a Pad becomes part of the node after it, and a Transpose costs nothing if another one undoes it.
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
    why = "because they do not work on real numbers or need operands of several kinds"
    steps = "LSTM, GRU and RNN among them run on the machine: [quantising](quantization.md) writes them out as steps."
    return [*lines, "", *textwrap.wrap(f"These operators were not tested, {why}: {names}. {steps}", 116), ""]


def _table_head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(['---'] * len(columns))} |"]


def _percent(part: int, whole: int) -> str:
    """In per cent, rounded down, so that 100 % means all."""
    return "100 %" if part == whole else f"{int(100_000 * part / whole) / 1000} %"
