"""`tilewright compare` and `tilewright.compare`, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import tilewright as package
from tests.digits import MODEL
from tests.tilewright.command_line import Command

WORDS = ("compare", MODEL, "--isa", "tiny8", "--effort", 0, "--no-price")


def test_table(tilewright: Command) -> None:
    ended = tilewright(*WORDS, "--isa", "rect")
    assert ended.code == 0 and ended.err == ""
    first, head, cycles, *_ = ended.out.splitlines()
    assert first == "Networks on machines; * is the best of its row"
    assert head.split() == ["figure", "tiny8", "rect"]
    assert cycles.split()[:2] == ["digits_int8", "cycles"] and cycles.endswith("*")
    assert "mm²" not in ended.out and " ms" not in ended.out


def test_names_of_settings_are_shown_whole(tilewright: Command) -> None:
    ended = tilewright(*WORDS, "--set", "dram.latency_cycles=1000", "--set", "fetch_beats=16")
    assert "[dram.latency_cycles=1000,\n" in ended.out and "fetch_beats=16]\n" in ended.out


def test_layers_say_why(tilewright: Command) -> None:
    ended = tilewright(*WORDS, "--set", "dram.latency_cycles=1000", "--by", "layer")
    title = ended.out.index("digits_int8: tiny8[dram.latency_cycles=1000] against tiny8, by layer")
    assert "load +" in ended.out[title:]
    nothing = tilewright(*WORDS, "--set", "counters=none", "--by", "layer")
    assert "no layer takes other cycles on tiny8[counters=none] than on tiny8" in nothing.out


def test_json_and_csv_have_all_points(tilewright: Command, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    value = json.loads(tilewright(*WORDS, "--isa", "rect", "--json", "-", "--csv", file, "--by", "layer").out)
    lines = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [of["machine"] for of in value["points"]] == [of["machine"] for of in lines] == ["tiny8", "rect"]
    assert [str(of["cycles"]) for of in value["points"]] == [of["cycles"] for of in lines]
    assert sum(layer["cycles"] for layer in value["points"][0]["layers"]) == value["points"][0]["cycles"]


def test_a_failure_is_shown_with_its_reason(tilewright: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    ended = tilewright("compare", MODEL, broken, "--isa", "tiny8", "--effort", 0, "--no-price")
    assert ended.code == 0
    assert "broken on tiny8 fails in the stage compile:" in ended.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--isa", "tiny8"), "two machines are called tiny8"),
        (("--set", "dram.latency=8"), "dram has no 'latency'"),
        (("--overlay", "nowhere.yaml"), "no machine 'nowhere.yaml': there is no file"),
        (("--by", "engine"), "expected layer"),
        (("--clock", "100"), "--no-price shows no time"),
        (("--csv", "-", "--json", "-"), "--csv and --json cannot both be standard output"),
        ((MODEL,), "is named twice"),
    ],
)
def test_bad_input(tilewright: Command, words: tuple[object, ...], message: str) -> None:
    ended = tilewright(*WORDS, *words)
    assert ended.code in (1, 2) and message in " ".join(ended.err.replace("│", " ").split())


def test_in_python() -> None:
    found = package.compare([MODEL], ["tiny8"], overrides=["dram.latency_cycles=8"], effort=0, price=False)
    assert isinstance(found, package.Comparison)
    assert repr(found) == "<Comparison: digits_int8 on tiny8, tiny8[dram.latency_cycles=8]>"
    assert found.best("cycles", "digits_int8") == {"tiny8[dram.latency_cycles=8]"}
