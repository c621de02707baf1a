"""Reads what Verilator's simulations count, and puts several runs together.

The file's lines are `C 'key' count`; a key is fields of a name of one letter, byte 2, and a value, each after byte 1
(Verilator's manual, "Coverage data format"): `f` file, `l` line, `n` column, `t` kind, `page` with the module,
`o` what is counted, `S` the lines that belong to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HEAD = "# SystemC::Coverage-3"

LINE = re.compile(r"C '(.*)' (\d+)")

TOGGLE = "toggle"


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """Something that is counted: a bit's change in one direction, or a choice that is taken in a line of a file."""

    file: str
    module: str
    line: int
    column: int
    kind: str
    what: str

    @property
    def is_toggle(self) -> bool:
        return self.kind == TOGGLE


def read_points(text: str) -> Counter[Point]:
    """How often each point was reached. Raises ValueError for a file of another form."""
    head, *lines = text.splitlines()
    if head != HEAD:
        raise ValueError(f"coverage begins with {head!r}; expected {HEAD!r}")
    counts: Counter[Point] = Counter()
    for number, line in enumerate(lines, 2):
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"line {number} of the coverage is {line!r}; expected C 'key' count")
        fields = dict(part.split("\x02", 1) for part in found[1].split("\x01")[1:])
        module = fields["page"].partition("/")[2]
        counts[Point(fields["f"], module, int(fields["l"]), int(fields["n"]), fields["t"], fields["o"])] += int(
            found[2]
        )
    return counts


def together(runs: Iterable[Mapping[Point, int]]) -> Counter[Point]:
    """The counts of several runs of the same Verilog; points that none reached stay, with 0."""
    total: Counter[Point] = Counter()
    for run in runs:
        for point, count in run.items():
            total[point] += count
    return total
