"""`compile --explain-selection`: what was compared, what it costs, and what was chosen.

These are the covers of each layer, and the columns that could be joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.compiler.graph.text import parse_graph
from tilewright.compiler.nest.text import parse_nests
from tilewright.compiler.passes import COLUMNS
from tilewright.compiler.pipeline import compared_columns, pass_names
from tilewright.compiler.select.compared import compared_covers, compared_sums, instruction_verdicts
from tilewright.compiler.select.why_not import CoverOutcome
from tilewright.dumps.files import Texts
from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.terminal.tables import print_table

BEFORE = pass_names()[pass_names().index("diagonals") - 1]
"""The pass whose nests the selection begins with."""

BEFORE_SUMS = pass_names()[pass_names().index("read-sums") - 1]
"""The pass whose nests may leave their sums to their readers."""


BEFORE_SELECTION = pass_names()[pass_names().index("select") - 1]
"""The pass whose nests get their covers."""

BEFORE_COLUMNS = pass_names()[pass_names().index(COLUMNS) - 1]
"""The pass whose graph may have columns to join."""


def selection_summary(programs: Sequence[Texts], machine: Machine) -> list[dict[str, Any]]:
    """A row for each cover that was compared, from the texts of passes; raises InputError without that of BEFORE."""
    rows = []
    for texts in programs:
        nests = dict(texts).get(BEFORE)
        if nests is None:
            raise InputError(f"--explain-selection: expected the pass {BEFORE} to run; resume from an earlier one")
        summed = parse_nests(dict(texts)[BEFORE_SUMS])
        compared = (*compared_covers(parse_nests(nests), machine), *compared_sums(summed, machine))
        rows += [{**asdict(each), "cost": each.cost} for each in compared]
    return rows


def instructions_summary(programs: Sequence[Texts], machine: Machine) -> list[dict[str, str]]:
    """A row for each layer and computing instruction: what came of it, and why."""
    rows = []
    for texts in programs:
        first, last = (parse_nests(dict(texts)[name]) for name in (BEFORE, BEFORE_SELECTION))
        for each in instruction_verdicts(first, last, machine):
            facts = {"nest": each.nest, "instruction": each.instruction}
            rows.append({**facts, "verdict": each.kind.value, "reason": each.text})
    return rows


def columns_summary(programs: Sequence[Texts], machine: Machine) -> list[dict[str, Any]]:
    """A row for each set of tensors whose columns could be joined; none of a program that begins after that pass."""
    rows = []
    for texts in programs:
        if BEFORE_COLUMNS not in dict(texts):
            continue
        graph = parse_graph(dict(texts)[BEFORE_COLUMNS])
        for each in compared_columns(graph, machine):
            layers = [o.name for o in graph.operators if each.proposal.joined.intersection(o.outputs)]
            columns = {"layers": layers, "joined": each.proposal.factor, "expected_saving": each.proposal.saved}
            rows.append({**columns, "before": each.before, "after": each.after, "is_chosen": each.is_worth})
    return rows


def print_columns(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as a table."""
    shown = [
        (
            " to ".join(dict.fromkeys((row["layers"][0], row["layers"][-1]))),
            len(row["layers"]),
            row["joined"],
            _cycles(row["before"]),
            _cycles(row["after"]),
            "chosen" if row["is_chosen"] else "",
        )
        for row in rows
    ]
    title = "Columns that could be joined; cycles are those of the layers around them, alone"
    print_table(title, ("layers", "count", "columns", "cycles", "joined", ""), shown)


def _cycles(count: int | None) -> str:
    return "does not fit" if count is None else f"{count:,}"


def print_selection(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as a table; a layer's name stands before its first cover."""
    shown, last = [], ""
    for row in rows:
        words = ", ".join(f"{engine} {count:,}" for engine, count in row["words"].items())
        name = row["nest"] if row["nest"] != last else ""
        last = row["nest"]
        mark = "chosen" if row["is_chosen"] else row["obstacle"]
        shown.append((name, row["form"], " + ".join(row["instructions"]), words, row["cost"], mark))
    columns = ("layer", "form", "instructions", "words of each engine", "cost", "")
    print_table("Covers compared; the cost is the words that the busiest engine streams", columns, shown)


def print_instructions(rows: Sequence[Mapping[str, str]]) -> None:
    """The rows as a table, without those of another form than their layer; the layers' names stand before the first."""
    shown, last = [], ""
    for row in rows:
        if row["verdict"] != CoverOutcome.OTHER.value:
            name, last = row["nest"] if row["nest"] != last else "", row["nest"]
            shown.append((name, row["instruction"], row["verdict"], row["reason"]))
    print_table("What came of each instruction of the layers' forms", ("layer", "instruction", "", "why"), shown)
