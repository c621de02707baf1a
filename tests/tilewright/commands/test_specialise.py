"""`tilewright specialise`, as a user meets it; how it chooses is tested with codesign.specialise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.codesign.specialise.test_candidates import depthwise
from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "depthwise.onnx"
    path.write_bytes(depthwise(16).SerializeToString())
    return path


def test_proposals(tilewright: Command, model: Path) -> None:
    ended = tilewright("specialise", model, "--isa", "base16", "--propose", 1)
    assert ended.code == 0
    assert ended.out.startswith("What base16 computes in several instructions and could in one (1 of 2)\ninstruction")
    statement = "y = clamp(round_shift((sum(words_sum(a * w)) + p.bias)"
    assert f"channel_products_requantize_by_3: {statement}" in " ".join(ended.out.split())


def test_a_machine_is_written_and_loads(tilewright: Command, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    words = ("specialise", model, "--isa", "base16", "--area", "+20%", "--no-control", "--jobs", 1, "-o", output)

    ended = tilewright(*words, "--json", tmp_path / "mine.json")

    assert ended.code == 0
    machine = load_machine(output)
    (name,) = json.loads((tmp_path / "mine.json").read_text())["chosen"]
    assert name == "channel_products_requantize_by_3" and name in machine.formats
    assert "chosen" in ended.out and f"With {name}" in ended.out
    used = {instruction.mnemonic for instruction in compile_model(model, machine).instructions}
    assert name in used


def test_nothing_pays(tilewright: Command, tmp_path: Path) -> None:
    output = tmp_path / "none.yaml"
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", "--area", "+0.5%", "--jobs", 1, "-o", output)
    assert ended.code == 0 and "Nothing pays on tiny8 within" in ended.out
    assert not output.exists() and "is not written: there is no instruction to add" in " ".join(ended.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--area", "-5%"), "--area -5%: expected how much logic the instructions may add, such as +10%"),
        (("--area", "much"), "--area much: expected how much logic the instructions may add, such as +10%"),
        (("--area", "+0%"), "--area +0%: expected how much logic the instructions may add, such as +10%"),
        (("--set", "dram.latency_cycles=8", "-o", "x.yaml"), "--output with --set: the file extends a machine"),
        (("--propose", "0"), "greater than or equal to 1"),
    ],
)
def test_what_is_asked_wrongly(tilewright: Command, words: tuple[str, ...], message: str) -> None:
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", *words)
    assert ended.code != 0 and message in " ".join(ended.err.split())


def test_a_machine_without_an_array(tilewright: Command) -> None:
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", "--set", "engines.mma=null", "--propose", 3)
    assert ended.code == 1 and "has no instruction that multiplies" in ended.err
