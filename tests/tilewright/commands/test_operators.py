"""`tilewright operators`: what a machine can do, and what keeps it from the rest."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tilewright.command_line import Command


def test_shows_one_operators_forms(tilewright: Command) -> None:
    ended = tilewright("operators", "MaxPool", "--isa", "tiny8")
    assert (ended.code, ended.err) == (0, "")
    assert "Operators on tiny8" in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_json_has_the_types(tilewright: Command, tmp_path: Path) -> None:
    tilewright("operators", "GlobalMaxPool", "--isa", "tiny8", "--json", tmp_path / "operators.json")
    (entry,) = json.loads((tmp_path / "operators.json").read_text())["operators"]
    assert (entry["where"], entry["types"], entry["reason"]) == ("NPU", ["int8", "uint8"], "")


def test_a_machine_without_an_instruction_does_less(tilewright: Command, tmp_path: Path) -> None:
    """The answer is the machine's, not a list of ours: without `max_pool` there is no MaxPool."""
    machine = tmp_path / "less.yaml"
    machine.write_text("extends: tiny8\nname: less\nabout: tiny8 without its maximum\ninstructions: {max_pool: null}\n")
    ended = tilewright("operators", "GlobalMaxPool", "--isa", machine)
    assert ended.code == 0
    assert "host" in ended.out


def test_an_unknown_operator_is_wrong_usage(tilewright: Command) -> None:
    ended = tilewright("operators", "Frobnicate", "--isa", "tiny8")
    assert ended.code == 2
    assert "Frobnicate" in ended.err
