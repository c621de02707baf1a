"""`compile --explain-selection`: the covers that were compared for each layer, what they cost, and which was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.compiler.nest.text import parse_nests
from tilewright.compiler.pipeline import pass_names
from tilewright.compiler.select.compared import compared_covers, compared_sums
from tilewright.dumps import Texts
from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.tables import print_table

BEFORE = pass_names()[pass_names().index("diagonals") - 1]
"""The pass whose nests the selection begins with."""

BEFORE_SUMS = pass_names()[pass_names().index("read-sums") - 1]
"""The pass whose nests may leave their sums to their readers."""


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
