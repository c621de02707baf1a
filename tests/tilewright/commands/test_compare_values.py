"""`tilewright compare-values` and `run --dump-tensors`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model
from tests.digits import MODEL, images
from tests.tilewright.command_line import Command

COARSE = "memories.par.element.scale=uint4"
"""Four bits of a scale are too few: a difference that is not of the compiler's making."""


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    np.savez(tmp_path / "one.npz", image=images()[:1])
    return tmp_path / "one.npz"


def test_a_right_network_ends_with_0(tilewright: Command, picture: Path) -> None:
    ended = tilewright("compare-values", MODEL, "--isa", "base16", "--input", picture, "--effort", 0)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Every layer by itself is within its limit: of 2,602 values ")
    assert max(map(len, ended.out.splitlines()[1:])) <= 80


def test_a_float_model_is_quantised_first(tilewright: Command, picture: Path, tmp_path: Path) -> None:
    given = ("--calibration", picture, "--input", picture, "--isa", "base16", "--effort", 0)
    ended = tilewright("compare-values", MODEL.with_name("digits.onnx"), *given)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Every layer by itself is within its limit: of 2,602 values ")
    refused = tilewright("compare-values", MODEL.with_name("digits.onnx"), *given[2:])
    assert refused.code == 1 and "the model is float; expected an int8 one" in refused.err


def test_a_difference_ends_with_1_and_shows_the_instruction(tilewright: Command, picture: Path, tmp_path: Path) -> None:
    words = ("compare-values", MODEL, "--isa", "base16", "--set", COARSE, "--input", picture, "--effort", 0)
    ended = tilewright(*words, "--json", tmp_path / "found.json")
    assert (ended.code, ended.err) == (1, "")
    assert "First difference: " in ended.out
    assert "statement:    y = clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero,\n" in ended.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["is_within_limits"] is False
    assert found["first"]["culprit"]["read"][1]["memory"] == "par"


def test_says_what_is_wrong_with_the_input(tilewright: Command, picture: Path, tmp_path: Path) -> None:
    words = ("compare-values", MODEL, "--isa", "base16", "--effort", 0, "--input")
    ended = tilewright(*words, tmp_path / "none.npz")
    assert (ended.code, ended.err) == (1, f"error: {tmp_path / 'none.npz'}: No such file or directory\n")
    np.savez(tmp_path / "other.npz", picture=images()[:1])
    ended = tilewright(*words, tmp_path / "other.npz")
    assert (ended.code, ended.err) == (1, "error: missing input 'image'; the model takes: image; got: picture\n")


def test_dumps_the_tensors_of_a_run(tilewright: Command, picture: Path, tmp_path: Path) -> None:
    program, tensors, outputs = tmp_path / "net.npu", tmp_path / "tensors.npz", tmp_path / "out.npz"
    assert tilewright("compile", MODEL, "--isa", "base16", "-o", program).code == 0
    words = ("run", program, "--input", picture, "-o", outputs, "--dump-tensors", tensors)
    assert tilewright(*words, "--model", MODEL).code == 0
    dumped, logits = np.load(tensors), np.load(outputs)["logits"]
    steps = dumped["logits"].reshape(-1).astype(np.float32)
    assert (
        np.unique(np.round(np.diff(logits[0])[np.diff(steps) != 0] / np.diff(steps)[np.diff(steps) != 0], 5)).size == 1
    )
    assert all(array.dtype == np.int8 and array.ndim == 4 for array in dumped.values())


def test_a_dump_needs_the_model_of_the_program(tilewright: Command, picture: Path, tmp_path: Path) -> None:
    program, other = tmp_path / "net.npu", tmp_path / "other.onnx"
    assert tilewright("compile", MODEL, "--isa", "base16", "-o", program).code == 0
    words = ("run", program, "--input", picture, "--dump-tensors", tmp_path / "t.npz")
    ended = tilewright(*words)
    assert (ended.code, ended.err) == (
        1,
        "error: --dump-tensors takes the model, too: --model NET.onnx says which tensors there are\n",
    )
    onnx.save(conv_model(np.random.default_rng(0), 3, 4, 4, 3), other)
    ended = tilewright(*words, "--model", other)
    assert ended.code == 1
    assert ended.err.startswith(f"error: {other}: another program comes of it; expected the model of this program")
    assert not (tmp_path / "t.npz").exists()
