"""docs/mutation.md, from what became of each fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tests.copied_tree import ROOT
from tests.mutation.faults import Fault
from tests.mutation.rooms import room_of
from tests.mutation.survivors import reason

PAGE = ROOT / "docs" / "mutation.md"

HEAD = """\
# The mutation check

Do the tests notice when the code is wrong? `make mutate` puts one small fault into a copy of the tree and runs the fast
tests that should notice: an operator is swapped, a constant is off by one, a condition is turned, `min` stands for
`max`. It does so with a hundred faults, spread over every room of `isa/`, `compiler/`, `simulator/`, `rtl/` and
`tilewright/` by the lines of the rooms. A seed chooses them; an edit of the code leaves most of the choice as it is.

The test named after the file runs first, then those of its room. What they do not notice is shown to a few tests that
see much of the package (`tests/mutation/rooms.py`). Slow tests do not take part. A test counts only if it passes
without the fault. Two faults are tried at a time. `python -m tests.mutation --seed 1` takes other faults,
`--only compiler/tiling` those of one room, `--list` shows them, and `--page` writes this page.

The last run, seed {seed}: **{summary}.** Lines are those of the tree of that run; tests are
named from `tests/` on.
"""

SURVIVORS = """\
## Faults that no test notices

One that is explained changes nothing that can be observed, or nothing that is promised; the reasons stand in
`tests/mutation/survivors.py`. The others count against the tests.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A fault, and the first test that fails because of it, if any does."""

    fault: Fault
    noticed_by: str

    @property
    def reason(self) -> str:
        """Why no test notices it, if that is known."""
        return reason(self.fault)

    @property
    def is_gap(self) -> bool:
        return not self.noticed_by and not self.reason

    @property
    def end(self) -> str:
        if self.noticed_by:
            return self.noticed_by
        return f"survives: {self.reason}" if self.reason else "**survived**"


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many are noticed, and what of the others."""
    noticed = sum(bool(outcome.noticed_by) for outcome in outcomes)
    gaps = sum(outcome.is_gap for outcome in outcomes)
    explained = len(outcomes) - noticed - gaps
    return f"{noticed} of {len(outcomes)} faults are noticed, {explained} survive with a reason, {gaps} without"


def page(outcomes: Sequence[Outcome], untried: Sequence[Fault], seed: int) -> str:
    """The page's text; `untried` are the faults of the seed that the run left out."""
    lines = [HEAD.format(seed=seed, summary=summary(outcomes))]
    lines += ["## By room", "", *_head("room", "faults", "noticed", "explained", "unexplained")]
    for room, group in groupby(outcomes, lambda outcome: room_of(outcome.fault.path)):
        lines.append(_room(room, list(group)))
    survivors = [outcome for outcome in outcomes if not outcome.noticed_by]
    if survivors:
        lines += ["", SURVIVORS, *_head("place", "fault", "why")]
        lines += [_row(outcome, outcome.reason or "**unexplained**") for outcome in survivors]
    if untried:
        lines += ["", "## Faults that this run did not try", "", *_head("place", "fault")]
        lines += [f"| {' | '.join(_cells(fault))} |" for fault in untried]
    lines += ["", "## Faults that a test notices", "", *_head("place", "fault", "noticed by")]
    lines += [_row(outcome, outcome.noticed_by) for outcome in outcomes if outcome.noticed_by]
    return "\n".join([*lines, ""])


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(['---'] * len(columns))} |"]


def _room(room: str, group: Sequence[Outcome]) -> str:
    noticed = sum(bool(outcome.noticed_by) for outcome in group)
    gaps = sum(outcome.is_gap for outcome in group)
    return f"| `{room}/` | {len(group)} | {noticed} | {len(group) - noticed - gaps} | {gaps} |"


def _row(outcome: Outcome, end: str) -> str:
    return f"| {' | '.join((*_cells(outcome.fault), _escaped(end.removeprefix('tests/'))))} |"


def _cells(fault: Fault) -> tuple[str, str]:
    return f"{fault.path}:{fault.line}", _escaped(f"`{fault.before}` → `{fault.after}`")


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
