"""`tilewright advise`, as a user meets it; what it says is tested with codesign.advise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilewright as package
from tests.codesign.advise.test_advice import few
from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.codesign.advise import advice as module
from tilewright.codesign.advise.changes import overlays

WORDS = ("advise", MODEL, "--isa", "tiny8", "--effort", 0, "--no-price", "--jobs", 1)


@pytest.fixture(autouse=True)
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "steps", few)
    monkeypatch.setattr(module, "overlays", lambda *of: of[2] and overlays(*of))
    for engines in ("engines_more", "engines_fewer"):
        monkeypatch.setattr(module, engines, lambda machine: iter(()))


def test_tables(tilewright: Command) -> None:
    ended = tilewright(*WORDS)
    assert ended.code == 0
    assert any(
        line.startswith("array.rows 8 → 16: ") and line.endswith(" % fewer cycles") for line in ended.err.splitlines()
    )
    assert ended.out.startswith("What gains, on tiny8: best first\nchange")
    assert "array.rows 8 → 16" in ended.out and "Instructions in no program: load_acc" in ended.out
    assert "mm²" not in ended.out


def test_json(tilewright: Command) -> None:
    value = json.loads(tilewright(*WORDS, "--json", "-").out)
    assert value["machine"] == "tiny8" and value["gains"][0]["name"] == "array.rows 8 → 16"


def test_what_an_instruction_buys(tilewright: Command) -> None:
    ended = tilewright(*WORDS, "--only", "instructions.copy")
    assert ended.code == 0 and ended.err == "without copy: as many cycles\n"
    assert ended.out.startswith("What each instruction of tiny8 buys: without it, cycles more\ninstruction")
    assert "copy" in ended.out and "Instructions in no program" in ended.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--overlay", "nowhere.yaml"), "no machine 'nowhere.yaml'"),
        (("--set", "dram.latency=1"), "dram has no 'latency'"),
        (("--top", "0"), "greater than or equal to 1"),
        (("--only", "array.bus"), "no key to step is 'array.bus' or below it"),
        (("--only", "instructions.copi"), "(did you mean 'instructions.copy'?)"),
        (("--against", "base16"), "tiny8 has no instruction that base16 lacks: there is nothing to take away"),
        (("--against", "nothing16"), "no machine 'nothing16'"),
        ((MODEL,), "is named twice"),
    ],
)
def test_bad_input(tilewright: Command, words: tuple[object, ...], message: str) -> None:
    ended = tilewright(*WORDS, *words)
    assert ended.code in (1, 2) and message in " ".join(ended.err.replace("│", " ").split())


def test_a_network_that_does_not_run(tilewright: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    ended = tilewright("advise", broken, "--isa", "tiny8", "--no-price")
    assert (ended.code, ended.err.partition(":")[0]) == (1, "error") and "broken on tiny8 fails" in ended.err


def test_in_python() -> None:
    found = package.advise([MODEL], "tiny8", effort=0, price=False, jobs=1)
    assert isinstance(found, package.Advice) and repr(found).startswith("<Advice for tiny8: 1 changes gain, ")
