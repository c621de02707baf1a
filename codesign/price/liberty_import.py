"""From a Liberty file to the tables pins.csv and arcs.csv of a process: delays, loads and energies of its cells.

python -m tilewright.codesign.price.liberty_import library.lib.gz FOLDER
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.codesign.errors import PriceError

TOKEN = re.compile(r'"([^"]*)"|([A-Za-z0-9_.+\-\[\]!*&|^$:/]+?(?=\s*[:;(){},]|\s))|([:;(){},])')

CLEAN = re.compile(r"/\*.*?\*/|\\\n", re.DOTALL)

ARC_COLUMNS = ("cell", "from", "to", "kind", "sense", "edge", "slews_ns", "loads_pf", "delay_ns", "transition_ns")

PIN_COLUMNS = ("cell", "pin", "direction", "capacitance_pf", "rise_pj", "fall_pj")

EDGES = ("rise", "fall")

MIDDLE = (1, 1)
"""The place in a table of energies that stands for all of it: they hardly depend on slew and load."""


@dataclass(slots=True)
class Group:
    """`kind (name) { attributes; groups }` of a Liberty file."""

    kind: str
    names: list[str]
    values: dict[str, list[str]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    def all(self, kind: str) -> Iterator[Group]:
        return (group for group in self.groups if group.kind == kind)

    def text(self, key: str) -> str:
        return " ".join(self.values.get(key, []))


def parse(text: str) -> Group:
    """The outermost group of a Liberty file. Raises PriceError for text that is none."""
    tokens = [string or word or sign for string, word, sign in TOKEN.findall(CLEAN.sub("", text))]
    root, position = Group("", []), 0
    stack = [root]
    while position < len(tokens):
        if tokens[position] == "}":
            if len(stack) == 1:
                raise PriceError("this is no Liberty file: a } is one too many")
            stack.pop()
            position += 1
            continue
        if tokens[position] == ";":
            position += 1
            continue
        position = _statement(tokens, position, stack)
    if len(stack) != 1 or len(root.groups) != 1:
        raise PriceError("this is no Liberty file: expected one library (…) { … }")
    return root.groups[0]


def _statement(tokens: Sequence[str], position: int, stack: list[Group]) -> int:
    """Read `key : value;`, `key (values);` or the head of a group; returns where the next one begins."""
    key, sign = tokens[position], tokens[position + 1] if position + 1 < len(tokens) else ""
    if sign == ":":
        end = tokens.index(";", position)
        stack[-1].values[key] = list(tokens[position + 2 : end])
        return end + 1
    if sign != "(":
        raise PriceError(f"this is no Liberty file: expected : or ( after {key!r}, got {sign!r}")
    end = tokens.index(")", position)
    values = [token for token in tokens[position + 2 : end] if token != ","]
    if end + 1 < len(tokens) and tokens[end + 1] == "{":
        stack[-1].groups.append(Group(key, values))
        stack.append(stack[-1].groups[-1])
        return end + 2
    stack[-1].values[key] = values
    return end + 1


# -- rows --------------------------------------------------------------------------------------------------------------


def arc_rows(cell: Group) -> Iterator[dict[str, str]]:
    """A row for each edge of each delay, and of each setup time, of a cell."""
    for pin in cell.all("pin"):
        for timing in pin.all("timing"):
            kind = timing.text("timing_type") or "combinational"
            facts = {"cell": cell.names[0], "from": timing.text("related_pin"), "to": pin.names[0]}
            for edge in EDGES:
                match kind:
                    case "combinational" | "rising_edge" | "falling_edge":
                        names = (f"cell_{edge}", f"{edge}_transition")
                    case "setup_rising" | "setup_falling":
                        names = (f"{edge}_constraint", "")
                    case _:  # resets, pulse widths and hold times do not limit the clock
                        continue
                name = "clock" if kind.endswith("_edge") else kind.partition("_")[0]
                sense = {"kind": name, "sense": timing.text("timing_sense"), "edge": edge}
                for tables in _tables(*(next(timing.all(name), None) for name in names)):
                    yield {**facts, **sense, **tables}


def _tables(delay: Group | None, transition: Group | None) -> Iterator[dict[str, str]]:
    if delay is None:
        return
    yield {
        "slews_ns": _numbers(delay, "index_1"),
        "loads_pf": _numbers(delay, "index_2"),
        "delay_ns": _numbers(delay, "values"),
        "transition_ns": _numbers(transition, "values") if transition else "",
    }


def _numbers(table: Group, key: str) -> str:
    return " ".join(f"{float(number):.4g}" for row in table.values.get(key, []) for number in row.split(","))


def pin_rows(cell: Group) -> Iterator[dict[str, str]]:
    """A row for each pin: what it loads its net with, and the energy inside the cell for each of its edges."""
    for pin in cell.all("pin"):
        energies = [
            [_middle(table) for power in _unconditional(pin) for table in power.all(f"{edge}_power")] for edge in EDGES
        ]
        rise, fall = (sum(found) / len(found) if found else 0.0 for found in energies)
        yield {
            "cell": cell.names[0],
            "pin": pin.names[0],
            "direction": pin.text("direction"),
            "capacitance_pf": pin.text("capacitance") or "0",
            "rise_pj": f"{rise:.5g}",
            "fall_pj": f"{fall:.5g}",
        }


def _unconditional(pin: Group) -> list[Group]:
    """The energies of a pin that hold in every state, or all of them where each holds in some; not those of a reset."""
    powers = [power for power in pin.all("internal_power") if "RESET" not in power.text("related_pin")]
    return [power for power in powers if "when" not in power.values] or powers


def _middle(table: Group) -> float:
    rows = [[float(number) for number in row.split(",")] for row in table.values["values"]]
    row = rows[min(MIDDLE[0], len(rows) - 1)]
    return row[min(MIDDLE[1], len(row) - 1)]


def write_tables(library: Group, folder: Path, cells: frozenset[str]) -> None:
    """pins.csv and arcs.csv of those cells."""
    wanted = sorted((cell for cell in library.all("cell") if cell.names[0] in cells), key=lambda cell: cell.names[0])
    for name, columns, rows in (("arcs.csv", ARC_COLUMNS, arc_rows), ("pins.csv", PIN_COLUMNS, pin_rows)):
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for cell in wanted for row in rows(cell))


def main(arguments: list[str]) -> int:
    """Write the tables of a library."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.liberty_import", description=__doc__)
    parser.add_argument("library", type=Path, help="a Liberty file, as text or .gz")
    parser.add_argument("folder", type=Path, help="a process, whose cells.csv names the cells that count")
    options = parser.parse_args(arguments)
    try:
        data = options.library.read_bytes()
        text = (gzip.decompress(data) if options.library.suffix == ".gz" else data).decode()
        with open(options.folder / "cells.csv", newline="", encoding="utf-8") as file:
            cells = frozenset(row["cell"] for row in csv.DictReader(file))
        write_tables(parse(text), options.folder, cells)
    except (OSError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
