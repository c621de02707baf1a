"""`tilewright specialise`, as a user meets it; how it chooses is tested with codesign.specialise."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest

from tests.codesign.specialise.test_candidates import depthwise
from tests.digits import MODEL
from tests.tilewright.command_line import Command
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import SPECS, load_machine

QUICK = ("--no-control", "--no-removals", "--no-clock", "--jobs", 1)


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


@pytest.mark.slow
def test_a_machine_is_written_and_loads(tilewright: Command, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    words = ("specialise", model, "--isa", "base16", "--area", "+20%", *QUICK, "-o", output)

    ended = tilewright(*words, "--json", tmp_path / "mine.json", "--html", tmp_path / "mine.html")

    assert ended.code == 0
    page = (tmp_path / "mine.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert f"<pre>{escape(output.read_text())}</pre>" in page
    machine = load_machine(output)
    (name,) = json.loads((tmp_path / "mine.json").read_text())["chosen"]
    assert name == "channel_products_requantize_by_3" and name in machine.formats
    assert "chosen" in ended.out and f"With {name}" in ended.out
    used = {instruction.mnemonic for instruction in compile_model(model, machine).instructions}
    assert name in used


@pytest.mark.slow
def test_nothing_pays(tilewright: Command, tmp_path: Path) -> None:
    output = tmp_path / "none.yaml"
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", "--area", "+0.5%", *QUICK, "-o", output)
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
        (("--weight", "digits_int8"), "--weight digits_int8: expected a network and how often it runs"),
        (("--weight", "digits_int8=0"), "--weight digits_int8=0: expected a network and how often it runs"),
        (("--weight", "a=1", "--weight", "a=2"), "--weight a=2: a has a weight of 1 already"),
        (("--weight", "other=2"), "weight of other: expected one of the networks digits_int8"),
        (("--propose", "3", "--html", "x"), "--propose only lists candidates: leave --html out, or --propose"),
        (("--objective", "speed"), "'speed' is not one of"),
        (("--with", "none.yaml"), "none.yaml"),
        (("--html", "x", "--json", "x"), "--html, --json and --output want the same file"),
    ],
)
def test_what_is_asked_wrongly(tilewright: Command, words: tuple[str, ...], message: str) -> None:
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", *words)
    assert ended.code != 0 and message in " ".join(ended.err.split())


@pytest.mark.slow
def test_instructions_of_a_person_are_judged(tilewright: Command, model: Path, tmp_path: Path) -> None:
    """What dw16 has by hand, beside what is found: each is what the other one is."""
    words = ("specialise", model, "--isa", "base16", "--area", "+20%", *QUICK, "--with", SPECS / "dw16.yaml")

    ended = tilewright(*words, "--objective", "area", "--json", tmp_path / "mine.json")

    assert ended.code == 0 and "What was given" in ended.out
    found = json.loads((tmp_path / "mine.json").read_text())
    (given,) = found["given"]
    assert given["name"] == "depthwise" and given["saved"] > 0 and not given["is_subsumed"]
    assert found["objective"] == {"goal": "area", "weights": {}, "host_cycles": None}


def test_a_machine_without_an_array(tilewright: Command) -> None:
    ended = tilewright("specialise", MODEL, "--isa", "tiny8", "--set", "engines.mma=null", "--propose", 3)
    assert ended.code == 1 and "has no instruction that multiplies" in ended.err
