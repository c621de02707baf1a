"""From a Liberty file to the tables pins.csv and arcs.csv of a process: delays, loads and energies of its cells.

python -m tilewright.codesign.price.liberty_import library.lib.gz FOLDER

FOLDER is a process, or a corner of one: a folder in it, for the cells of the process.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.process import CELL_COLUMNS, MOST, number_of, table_rows
from tilewright.isa.errors import short
from tilewright.isa.folders.whole_file import read_regular, write_whole

MOST_BYTES = 1 << 26
"""The largest Liberty file, unpacked; those of the shipped process have some 10 MiB."""

MOST_DEPTH = 50

TOKEN = re.compile(r'"([^"]*)(?:"|\Z)|([A-Za-z0-9_.+\-\[\]!*&|^$/]+)|([:;(){},])')

CLEAN = re.compile(r"/\*.*?(?:\*/|\Z)|\\\r?\n", re.DOTALL)

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

    @property
    def name(self) -> str:
        """Its first name. Raises PriceError for a group without any."""
        if not self.names:
            raise PriceError(f"this is no Liberty file: a {self.kind} has no name")
        return self.names[0]

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
    """Read `key : value;`, `key (values);` or the head of a group; returns where the next one begins.

    Raises PriceError for anything else.
    """
    key, sign = tokens[position], tokens[position + 1] if position + 1 < len(tokens) else ""
    if sign == ":":
        end = _next(tokens, ";", position)
        stack[-1].values[key] = list(tokens[position + 2 : end])
        return end + 1
    if sign != "(":
        raise PriceError(f"this is no Liberty file: expected : or ( after {key!r}, got {sign!r}")
    end = _next(tokens, ")", position)
    values = [token for token in tokens[position + 2 : end] if token != ","]
    if end + 1 < len(tokens) and tokens[end + 1] == "{":
        stack[-1].groups.append(Group(key, values))
        stack.append(stack[-1].groups[-1])
        if len(stack) > MOST_DEPTH:
            raise PriceError(f"this is no Liberty file: groups are nested deeper than {MOST_DEPTH}")
        return end + 2
    stack[-1].values[key] = values
    return end + 1


def _next(tokens: Sequence[str], sign: str, position: int) -> int:
    try:
        return tokens.index(sign, position)
    except ValueError as error:
        raise PriceError(f"this is no Liberty file: no {sign} after {short(tokens[position])}") from error


# -- rows --------------------------------------------------------------------------------------------------------------


def arc_rows(cell: Group) -> Iterator[dict[str, str]]:
    """A row for each edge of each delay, and of each setup time, of a cell."""
    for pin in cell.all("pin"):
        for timing in pin.all("timing"):
            kind = timing.text("timing_type") or "combinational"
            facts = {"cell": cell.name, "from": timing.text("related_pin"), "to": pin.name}
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
    return " ".join(f"{number:.4g}" for row in table.values.get(key, []) for number in _row(row, key))


def _row(text: str, key: str) -> list[float]:
    numbers = [number_of(number, f"in the Liberty file, a number of {key}") for number in text.split(",")]
    if any(abs(number) > MOST for number in numbers):
        raise PriceError(f"in the Liberty file, {key} is {short(text)}; expected numbers up to {MOST:g}")
    return numbers


def pin_rows(cell: Group) -> Iterator[dict[str, str]]:
    """A row for each pin: what it loads its net with, and the energy inside the cell for each of its edges."""
    for pin in cell.all("pin"):
        energies = [
            [_middle(table) for power in _unconditional(pin) for table in power.all(f"{edge}_power")] for edge in EDGES
        ]
        rise, fall = (sum(found) / len(found) if found else 0.0 for found in energies)
        yield {
            "cell": cell.name,
            "pin": pin.name,
            "direction": pin.text("direction"),
            "capacitance_pf": _capacitance(pin),
            "rise_pj": f"{rise:.5g}",
            "fall_pj": f"{fall:.5g}",
        }


def _capacitance(pin: Group) -> str:
    text = pin.text("capacitance") or "0"
    number_of(text, f"in the Liberty file, the capacitance of pin {short(pin.name)}")
    return text


def _unconditional(pin: Group) -> list[Group]:
    """The energies of a pin that hold in every state, or all of them where each holds in some; not those of a reset."""
    powers = [power for power in pin.all("internal_power") if "RESET" not in power.text("related_pin")]
    return [power for power in powers if "when" not in power.values] or powers


def _middle(table: Group) -> float:
    rows = [_row(row, "values") for row in table.values.get("values", [])]
    if not rows:
        raise PriceError(f"in the Liberty file, a {table.kind} has no values")
    row = rows[min(MIDDLE[0], len(rows) - 1)]
    return row[min(MIDDLE[1], len(row) - 1)]


def write_tables(library: Group, folder: Path, cells: frozenset[str]) -> None:
    """pins.csv and arcs.csv of those cells: both of them, or none where the library has a fault."""
    wanted = sorted((cell for cell in library.all("cell") if cell.name in cells), key=lambda cell: cell.name)
    texts = {}
    for name, columns, rows in (("arcs.csv", ARC_COLUMNS, arc_rows), ("pins.csv", PIN_COLUMNS, pin_rows)):
        file = StringIO()
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for cell in wanted for row in rows(cell))
        texts[name] = file.getvalue()
    for name, text in texts.items():
        write_whole(folder / name, text.encode())


def read_library(path: Path) -> Group:
    """The library in a Liberty file, which may be packed. Raises PriceError, OSError."""
    data = read_regular(path, MOST_BYTES)
    try:
        if path.suffix == ".gz":
            with gzip.open(BytesIO(data)) as packed:
                data = packed.read(MOST_BYTES + 1)
        text = data.decode()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PriceError(f"{path}: cannot be unpacked: {error}") from error
    except UnicodeDecodeError as error:
        raise PriceError(f"{path}: is no text in UTF-8: {error.reason} at byte {error.start}") from error
    if len(data) > MOST_BYTES:
        raise PriceError(f"{path}: unpacks to more than {MOST_BYTES:,} bytes")
    return parse(text)


def main(arguments: list[str]) -> int:
    """Write the tables of a library."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.codesign.price.liberty_import", description=__doc__)
    parser.add_argument("library", type=Path, help="a Liberty file, as text or .gz")
    parser.add_argument("folder", type=Path, help="a process, whose cells.csv names the cells, or its corner")
    options = parser.parse_args(arguments)
    try:
        own = options.folder / "cells.csv"
        of_process = own if own.exists() else options.folder.absolute().parent / "cells.csv"
        cells = frozenset(row["cell"] for row in table_rows(of_process, CELL_COLUMNS))
        write_tables(read_library(options.library), options.folder, cells)
    except OSError as error:
        print(f"{error.filename or options.library}: {error.strerror}", file=sys.stderr)
        return 1
    except PriceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
