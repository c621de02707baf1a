"""What the command line prints: tables that are readable in 80 columns, from the values that `--json` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROW = 80
"""The smallest width that output is formatted for, also when it goes to a file."""

Printed = tuple[str, Sequence[str], Iterable[Sequence[Any]]]
"""A table's title, columns and rows."""


def print_tables(tables: Iterable[Printed]) -> None:
    """Tables one after the other, with an empty line between them."""
    for number, (title, columns, rows) in enumerate(tables):
        if number:
            print()
        print_table(title, columns, rows)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title_in_one_line: bool = False
) -> None:
    """A table on standard output: text to the left, numbers to the right, no line wider than the terminal."""
    rows = [tuple(row) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        is_number = bool(rows) and all(_is_number(row[position]) for row in rows)
        # Names may fold; a number in two lines would be another number.
        table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_value(value)) for value in row))
    console = Console(highlight=False)
    console.print(Text(title, style="bold"), soft_wrap=title_in_one_line)
    with console.capture() as captured:
        console.print(table, width=terminal_width())
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_text(text: str, indent: int = 0) -> None:
    """A sentence in as many lines as the terminal needs, those after the first indented; no word is cut."""
    print(fill(text, terminal_width(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False))


def terminal_width() -> int:
    """The columns of standard output: of the terminal, or those that output to a file is formatted for."""
    console = Console()
    return console.width if console.is_terminal else max(NARROW, console.width)


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
