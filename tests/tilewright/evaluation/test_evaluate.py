"""The machine's answers are those of runs, the references' those of ONNX Runtime, on any number of cores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import tilewright as package
from tests.tilewright.command_line import Command

IMAGES = 40


@pytest.fixture
def digits(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NDArray[np.float32]]:
    """Forty digits, with x.npz and y.npy of them in the working directory; and the networks beside them."""
    monkeypatch.chdir(tmp_path)
    for name in ("digits.onnx", "digits_int8.onnx"):
        (tmp_path / name).symlink_to(repository / "programs/digits" / name)
    held_back = np.load(repository / "programs/digits/images.npz")
    np.savez("x.npz", image=held_back["images"][:IMAGES])
    np.save("y.npy", held_back["labels"][:IMAGES])
    return {"image": held_back["images"][:IMAGES]}


def in_onnx_runtime(model: str, images: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(["logits"], {"image": image[None]})[0] for image in images])


@pytest.mark.parametrize(("jobs", "batch"), [(1, None), (3, None), (2, 7)])
def test_each_answers_for_itself(digits: dict[str, NDArray[np.float32]], jobs: int, batch: int | None) -> None:
    told: list[tuple[int, int]] = []
    found = package.evaluate(
        "digits_int8.onnx", "base16", "x.npz", "y.npy", float_model="digits.onnx", jobs=jobs, batch=batch,
        done=lambda finished, asked: told.append((finished, asked)),
    )  # fmt: skip
    program = package.compile("digits_int8.onnx", "base16", batch=batch)
    result = program.run(digits)
    assert np.array_equal(found.answers["machine"], result.outputs["logits"])
    assert np.array_equal(found.answers["model"], in_onnx_runtime("digits_int8.onnx", digits["image"]))
    assert np.array_equal(found.answers["float"], in_onnx_runtime("digits.onnx", digits["image"]))
    assert found.cycles_per_image == program.run_profile().cycles / (batch or 1)
    assert (told[0], told[-1]) == ((0, IMAGES), (IMAGES, IMAGES))


def test_counts_right_answers(digits: dict[str, NDArray[np.float32]], tilewright: Command) -> None:
    labels = np.load("y.npy")
    answers = in_onnx_runtime("digits_int8.onnx", digits["image"]).argmax(axis=1)
    labels[:7] = (answers[:7] + 1) % 10  # seven labels that no answer agrees with
    np.save("y.npy", labels)
    ended = tilewright(
        "evaluate", "digits_int8.onnx", "--isa", "base16", "--data", "x.npz", "--labels", "y.npy", "--json", "-"
    )
    value = json.loads(ended.out)
    right = int((answers == labels).sum())
    assert value["answers"][1] == {"of": "model", "score": right / IMAGES, "right": right, "answers": IMAGES}
    assert right <= IMAGES - 7


def test_a_float_model_is_quantised_first(digits: dict[str, NDArray[np.float32]], tilewright: Command) -> None:
    words = ["evaluate", "digits.onnx", "--isa", "base16", "--data", "x.npz", "--calibration", "x.npz"]
    ended = tilewright(*words, "--metric", "mse")
    assert ended.code == 0
    assert "Against the float model in ONNX Runtime: 40 of 40 images have other numbers" in " ".join(ended.out.split())
    assert max(map(len, ended.out.splitlines())) <= 80


BASE = ["evaluate", "digits_int8.onnx", "--isa", "base16", "--data", "x.npz"]

MISTAKES = {
    "--labels x.npz": "x.npz: labels are float32; top1 takes integers, the right classes",
    "--labels digits.onnx": "digits.onnx: not a .npy file of numbers, or a damaged one; write it with numpy.save",
    "--labels none.npy": "none.npy: No such file or directory",
    "--metric best": "no metric 'best'; --metric takes: top1, top5 or any other topK, mse, mae",
    "--answer image": "no output 'image'; say which one answers with --answer: logits",
    "--data y.npy": "y.npy: holds one unnamed array; expected a .npz file with arrays by name",
    "--float none.onnx": "none.onnx: cannot be read: No such file or directory",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told(digits: dict[str, NDArray[np.float32]], tilewright: Command, words: str) -> None:
    ended = tilewright(*BASE, *words.split())
    assert (ended.code, ended.err) == (1, f"error: {MISTAKES[words]}\n")
