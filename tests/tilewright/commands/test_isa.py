"""`tilewright isa` for a person at 80 columns: what is grouped, what is folded, what is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tilewright.command_line import Command
from tilewright.commands.isa import grouped
from tilewright.isa.files.schema import machine_schema
from tilewright.terminal.tables import percent, print_tables


def test_neighbours_with_one_key_stand_under_it() -> None:
    lines = ["lanes: 16 → 8", "instructions.mma: opcode: 7 → 8", "instructions.mma: bits in all: 9 → 8", "lanes: x"]
    assert grouped(lines) == [
        "lanes: 16 → 8",
        "instructions.mma:",
        "  opcode: 7 → 8",
        "  bits in all: 9 → 8",
        "lanes: x",
    ]


def test_long_lines_fold_under_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert grouped(["timing: " + " ".join(["word"] * 16)]) == [
        "timing: " + " ".join(["word"] * 14),
        "    word word",
    ]


def test_diff_sets_keys_of_the_second_machine(tilewright: Command) -> None:
    ended = tilewright("isa", "diff", "base16", "base16", "--set", "dram.bus_bytes=8")
    assert ended.out.splitlines()[0] == "dram.bus_bytes: 16 → 8"
    assert tilewright("isa", "diff", "base16", "base16").out == "the same machine\n"


def test_diff_as_json_keeps_whole_lines(tilewright: Command) -> None:
    words = ["isa", "diff", "base16", "base16", "--set", "array.cols=32", "--json", "-"]
    differences = json.loads(tilewright(*words).out)["differences"]
    assert "instructions.mma: to.c: acc[n, y, x] → 2 * acc[n, y, x]" in differences


def test_the_schema_is_printed_or_written(tilewright: Command, tmp_path: Path) -> None:
    printed = tilewright("isa", "schema")
    assert json.loads(printed.out) == machine_schema()
    written = tilewright("isa", "schema", "-o", tmp_path / "machine.schema.json")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "machine.schema.json").read_text() == printed.out


@pytest.mark.parametrize(("lanes", "count"), [("lanes: x y", "1 fault"), ("lanes: x y\nwait_bits: 99", "2 faults")])
def test_lint_counts_faults(tilewright: Command, tmp_path: Path, lanes: str, count: str) -> None:
    machine = tmp_path / "mine.yaml"
    machine.write_text(f"extends: base16\n{lanes}\n")
    ended = tilewright("isa", "lint", machine)
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == f"{machine}: {count}"


def test_tables_stand_apart_without_trailing_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(
        [
            ("One", ("name", "share"), [("long name", percent(0.5)), ("x", percent(1))]),
            ("Two", ("a",), [("b",), ("longer",)]),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "One",
        "name         share",
        "long name   50.0 %",
        "x          100.0 %",
        "",
        "Two",
        "a",
        "b",
        "longer",
    ]


def test_show_draws_the_machine(tilewright: Command, tmp_path: Path) -> None:
    file = tmp_path / "tiny8.svg"
    ended = tilewright("isa", "show", "tiny8", "--svg", str(file))
    assert "Memories" in ended.out and ">acc</text>" in file.read_text()
    assert tilewright("isa", "show", "tiny8", "--svg", "-").out == file.read_text()
    both = tilewright("isa", "show", "tiny8", "--svg", "-", "--json", "-")
    assert both.code == 2 and "only one of --json and --svg can be standard output" in " ".join(both.err.split())
