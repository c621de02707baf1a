"""A machine as tables: figures that a person can work out, and a layout that fits 80 columns."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.table import Table as RichTable

from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.pages.show import Cell, Table, list_machines, tables


def rows_of(machine: str, title: str) -> dict[Cell, tuple[Cell, ...]]:
    """Rows of one table by their first cell."""
    table = next(t for t in tables(load_machine(machine)) if t.title == title)
    return {row[0]: row[1:] for row in table.rows}


def test_shows_what_the_machine_is() -> None:
    machine = rows_of("rect", "Machine")

    assert machine["name"] == ("rect",)
    assert machine["array"] == ("16×32: vectors of 16 elements in, 32 sums out",)
    assert machine["bus"] == ("16 bytes a beat, 64 cycles latency",)


def test_shows_memories_with_their_sizes() -> None:
    memories = rows_of("base16", "Memories")

    # KiB, words, banks, bytes a word: 16 lanes of 1, 4 and 8 bytes
    assert memories["act"] == ("256", 256 * 1024 // 16, 4, 16, "16 × int8")
    assert memories["acc"] == ("128", 128 * 1024 // 64, 2, 64, "16 × int32")
    assert memories["par"] == ("16", 16 * 1024 // 128, 2, 128, "16 × {bias: int32, scale: uint16, shift: uint6}")


def test_shows_engines_with_their_reach() -> None:
    assert rows_of("base16", "Engines")["mma"] == ("systolic", 2, "act, wgt", "acc")


def test_shows_instructions_with_opcode_bits_and_loops() -> None:
    # 8 opcode, 4 · 16 waits, 30 trip counts, 2 · (14 base, 3 · 15 strides)
    assert rows_of("base16", "Instructions")["copy"] == (12, 220, 28, "i10 j10 k10")


def test_shows_the_statement_of_every_instruction() -> None:
    statements = rows_of("base16", "Statements")

    assert statements["copy"] == ("y = a",)
    assert list(statements) == list(rows_of("base16", "Instructions"))


MOST_LINES = {"base16-a16": 4, "mixed16": 4, "sequence16-a16": 4, "llm16-a16": 4}
"""Of a statement, where it may have more than two: a polynomial of the third degree is long."""


@pytest.mark.parametrize("name", shipped_machines())
def test_no_statement_takes_more_than_two_lines_of_80_columns(name: str) -> None:
    table = next(t for t in tables(load_machine(name)) if t.title == "Statements")

    lines = printed_in_80_columns(table).splitlines()

    # The line after one that continues a statement begins with the next instruction.
    continues = "".join("+" if line.startswith(" ") else " " for line in lines)
    assert max(map(len, continues.split())) < MOST_LINES.get(name, 2)


def test_shows_peak_rates_and_the_ridge_point() -> None:
    table = next(t for t in tables(load_machine("rect", ["dram.bus_bytes=8"])) if t.title == "Peak rates")
    rates = {row[2]: row[1] for row in table.rows}

    assert rates["MACs a cycle"] == 16 * 32
    assert rates["words a cycle"] == 1
    assert rates["elements a cycle"] == 16
    assert rates["bytes a cycle"] == 8
    assert rates["MACs a byte"] == 16 * 32 / 8


def test_lists_machines() -> None:
    table = list_machines([load_machine("base16"), load_machine("tiny8")])

    assert table.rows == (
        ("base16", "16×16", 16, "act 256, wgt 128, acc 128, par 16, lut 16", 16),
        ("tiny8", "8×8", 8, "act 64, wgt 32, acc 32, par 4, lut 8", 8),
    )


def every_table() -> list[Table]:
    machines = [load_machine(name) for name in shipped_machines()]
    return [list_machines(machines), *(table for machine in machines for table in tables(machine))]


def test_every_row_has_a_cell_for_each_column() -> None:
    assert all(len(row) == len(table.columns) for table in every_table() for row in table.rows)


def printed_in_80_columns(table: Table) -> str:
    rich_table = RichTable(*table.columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in table.rows:
        rich_table.add_row(*map(str, row))
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(rich_table)
    return console.export_text()


@pytest.mark.parametrize("table", every_table(), ids=lambda table: table.title)
def test_fits_80_columns_without_breaking_a_word(table: Table) -> None:
    printed = printed_in_80_columns(table)

    assert max(map(len, printed.splitlines())) <= 80
    words = {word for row in table.rows for cell in row for word in str(cell).split()}
    assert {word for word in words if word not in printed} == set()
