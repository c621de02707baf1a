"""What the command line prints: tables that are readable in 80 columns, from the values that `--json` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.options import NARROW

Printed = tuple[str, Sequence[str], Iterable[Sequence[Any]]]
"""A table's title, columns and rows."""


def print_tables(tables: Iterable[Printed]) -> None:
    """Tables one after the other, with an empty line between them."""
    for number, (title, columns, rows) in enumerate(tables):
        if number:
            print()
        print_table(title, columns, rows)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on standard output: text to the left, numbers to the right, no line wider than the terminal."""
    rows = [tuple(row) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        is_number = bool(rows) and all(_is_number(row[position]) for row in rows)
        # Names may fold; a number in two lines would be another number.
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_value(value)) for value in row))
    console = Console(highlight=False)
    console.print(Text(title, style="bold"))
    with console.capture() as captured:
        console.print(table, width=console.width if console.is_terminal else max(NARROW, console.width))
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _is_number(value: Any) -> bool:
    return value == "" or isinstance(value, int | float) or (isinstance(value, str) and bool(PERCENT.fullmatch(value)))


def format_value(value: Any) -> str:
    """Integers with thousands apart, fractions as they read best."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        case list() | tuple():
            return "×".join(str(item) for item in value)
        case _:
            return str(value)


PERCENT = re.compile(r"-?[\d.]+ %")
"""What `percent` gives, and nothing else."""


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"


# -- the tables --------------------------------------------------------------------------------------------------------


def print_profile(profile: Mapping[str, Any]) -> None:
    """The profile by layer and by engine."""
    print_layers(profile)
    print()
    print_engines(profile)


def print_layers(profile: Mapping[str, Any]) -> None:
    read, written = profile["dram_bytes"]["read"], profile["dram_bytes"]["written"]
    rows = [
        (
            layer["name"],
            layer["cycles"],
            layer["macs"],
            percent(layer["utilisation"]),
            _total(layer["dram_bytes"]),
            str(layer["bound"]),
        )
        for layer in profile["layers"]
    ]
    total = ("total", profile["cycles"], profile["macs"], percent(profile["utilisation"]), read + written, "")
    print_table(
        f"Layers on {profile['isa']}", ("layer", "cycles", "MACs", "utilisation", "DRAM bytes", "bound"), [*rows, total]
    )


def _total(dram_bytes: Mapping[str, int] | int) -> int:
    return dram_bytes if isinstance(dram_bytes, int) else sum(dram_bytes.values())


def print_engines(profile: Mapping[str, Any]) -> None:
    """A column for each engine, a row for each use of its cycles; every column adds up to the run."""
    engines = profile["engines"]
    uses = {
        name: {
            "busy": of["busy"],
            **_prefixed("wait", of["wait"]),
            **_prefixed("stall", of["stall"]),
            "idle": of["idle"],
        }
        for name, of in engines.items()
    }
    labels = dict.fromkeys(label for counts in uses.values() for label in counts)
    rows = [(label, *(of.get(label, 0) for of in uses.values())) for label in labels]
    total = ("total", *(sum(of.values()) for of in uses.values()))
    print_table("Engines, in cycles", ("cycles", *engines), [*rows, total])


def _prefixed(kind: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{kind} {cause}": count for cause, count in counts.items()}
