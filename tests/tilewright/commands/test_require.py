"""`tilewright require`, as a user meets it; what it finds is tested with codesign.require."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.codesign.require import walk as module
from tilewright.isa.files.loader import load_machine

WORDS = ("require", MODEL, "--isa", "tiny8", "--effort", 0, "--no-price", "--jobs", 1)
RATE = ("--per-second", 25_000, "--clock", 200)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of the memory for activations, so that it takes seconds."""
    all_steps = module.steps
    monkeypatch.setattr(module, "steps", lambda of: [step for step in all_steps(of) if "act.kib" in step.key])


def test_tables_and_the_machine(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright(*WORDS, *RATE, "--output", tmp_path / "mine.yaml")
    assert ended.code == 0 and max(map(len, ended.out.splitlines())) <= 80
    assert ended.out.startswith("At least, for 25,000 a second at 200 MHz: 8,000 cycles a run\n")
    assert "tiny8, stepped: --isa tiny8 --set memories.act.kib=" in ended.out
    found = load_machine(tmp_path / "mine.yaml")
    assert found.memories["act"].bytes < load_machine("tiny8").memories["act"].bytes


def test_json(tilewright: Command) -> None:
    value = json.loads(tilewright(*WORDS, *RATE, "--json", "-").out)
    assert value["asked"]["cycles"] == 8000 and value["nearest"]["cycles"] <= 8000 and value["nearest"]["misses"] == []
    assert value["least"]["macs"] == -(-value["least"]["products"] // 8000)


def test_what_no_step_reaches(tilewright: Command) -> None:
    ended = tilewright(*WORDS, "--per-second", 200_000, "--clock", 200)
    assert ended.code == 0
    assert "No machine was found that does it. What the nearest misses: too slow." in ended.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing is asked: say --per-second RUNS with --clock MHZ, --area MM2, or both"),
        (("--per-second", 30), "say --clock MHZ, such as --clock 200"),
        (("--area", 1), "machines must be priced: leave --no-price out, or the area"),
        ((*RATE, "--isa", "tiny9"), "no machine 'tiny9'"),
        ((*RATE, "--output", "-", "--json", "-"), "--output and --json cannot both be standard output"),
    ],
)
def test_bad_input(tilewright: Command, words: tuple[object, ...], message: str) -> None:
    ended = tilewright(*WORDS, *words)
    assert ended.code in (1, 2) and message in " ".join(ended.err.replace("│", " ").split())
