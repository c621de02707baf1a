"""docs/operators.md, from the compiler's answers and what is measured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tests.operators.measure import Exactness, measured
from tests.operators.tflite_names import tflite_names
from tilewright.compiler.importers.tflite.fold import FOLDED_ONLY
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

An operator of a TFLite file becomes one of ONNX, or several: *TFLite* names it beside each of them.
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
    lines = re.findall(r"^\| (\w+) \| [\w, ]*\| (.*?) \| (.*?) \|", text, re.MULTILINE)
    return {(operator, form): place for operator, form, place in lines if place.startswith(("NPU", "host"))}


def _machine(found: Sequence[tuple[Support, Exactness | None]]) -> list[str]:
    lines = ["## On the machine\n", *_table_head("operator", "TFLite", "form", "where", "steps", "equal", "limit")]
    names = tflite_names()
    for operator, group in groupby(found, lambda row: row[0].operator):
        forms = list(group)
        if any(support.dtypes for support, _ in forms):
            first = ", ".join(names.get(operator, ()))
            lines += [_row(support, "" if at else first, exactness) for at, (support, exactness) in enumerate(forms)]
    return [*lines, ""]


def _row(support: Support, names: str, exactness: Exactness | None) -> str:
    figures = ("", "") if exactness is None else (str(exactness.steps), _percent(exactness.equal, exactness.count))
    cells = (support.operator, names, support.form, support.place, *figures, support.reason.replace("|", "\\|"))
    return f"| {' | '.join(cells)} |"


def _host(found: Sequence[tuple[Support, Exactness | None]]) -> list[str]:
    lines = ["## On the host\n", *_table_head("operator", "TFLite", "why")]
    others = tflite_names()
    for operator, group in groupby(found, lambda row: row[0].operator):
        supports = [support for support, _ in group]
        if not any(support.dtypes for support in supports):
            reasons = dict.fromkeys(support.reason.replace("|", "\\|") for support in supports)
            lines.append(f"| {operator} | {', '.join(others.pop(operator, ()))} | {'; '.join(reasons)} |")
        else:
            others.pop(operator, None)
    names = ", ".join(unasked_operators())
    why = "because they do not work on real numbers or need operands of several kinds"
    steps = "LSTM, GRU and RNN among them run on the machine: [quantising](quantization.md) writes them out as steps."
    untested = f"These operators were not tested, {why}: {names}. {steps}"
    kinds = ", ".join(sorted({kind for of in others.values() for kind in of}))
    folded = f"Computed when the file is read, from what it says: {', '.join(sorted(FOLDED_ONLY))}."
    tflite = f"Operators of TFLite that become such operators: {kinds}. {folded}"
    return [*lines, "", *textwrap.wrap(untested, 116), "", *textwrap.wrap(tflite, 116), ""]


def _table_head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(['---'] * len(columns))} |"]


def _percent(part: int, whole: int) -> str:
    """In per cent, rounded down, so that 100 % means all."""
    return "100 %" if part == whole else f"{int(100_000 * part / whole) / 1000} %"
