"""Calibration data: what fits, and for what does not an error that says what was expected and what came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.quantization.float_model import Input
from tilewright.quantization.samples import read_samples

IMAGE = Input("image", "float32", (1, 3, 4, 4))
IDS = Input("ids", "int64", (2, 5))


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(("shape", "count"), [((6, 3, 4, 4), 6), ((6, 1, 3, 4, 4), 6), ((1, 3, 4, 4), 1)])
def test_samples_are_stacked_or_a_larger_batch(shape: tuple[int, ...], count: int) -> None:
    found = read_samples({"image": zeros(*shape)}, [IMAGE])
    assert [feed["image"].shape for feed in found] == [(1, 3, 4, 4)] * count


def test_a_larger_batch_is_cut_into_the_networks() -> None:
    data = np.arange(20).reshape(4, 5)
    found = [feed["ids"].tolist() for feed in read_samples({"ids": data}, [IDS])]
    assert found == [data[:2].tolist(), data[2:].tolist()]


def test_a_scalar_input_has_one_number_a_sample() -> None:
    """It is an array, which ONNX Runtime wants, and not a number."""
    for given in ({"t": np.array([1, 2, 3], np.float32)}, "random"):
        feeds = [feed["t"] for feed in read_samples(given, [Input("t", "float32", ())])]
        assert {(type(feed), feed.shape) for feed in feeds} == {(np.ndarray, ())}
    found = read_samples({"t": np.array([1, 2, 3], np.float32)}, [Input("t", "float32", ())])
    assert [float(feed["t"]) for feed in found] == [1, 2, 3]


def test_reads_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=zeros(2, 3, 4, 4))
    assert len(read_samples(tmp_path / "data.npz", [IMAGE])) == 2


def test_random_samples_depend_on_the_seed_alone() -> None:
    first, second, other = (read_samples("random", [IMAGE], seed).arrays["image"] for seed in (1, 1, 2))
    assert first.shape == (8, 1, 3, 4, 4)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def with_nan(sample: int) -> np.ndarray:
    data = zeros(4, 3, 4, 4)
    data[sample, 1, 2, 3] = np.nan
    return data


@pytest.mark.parametrize(
    ("data", "inputs", "message"),
    [
        (
            {"img": zeros(1, 3, 4, 4)},
            [IMAGE, IDS],
            "expected an array for each input, 'image' (float32 [1, 3, 4, 4]), 'ids' (int64 [2, 5]); got 'img'",
        ),
        ({}, [IMAGE], "expected an array for each input, 'image' (float32 [1, 3, 4, 4]); got nothing"),
        (
            {"image": zeros(9, 4, 4, 3)},
            [IMAGE],
            "array 'image' is float32 [9, 4, 4, 3]; expected float32 [N, 3, 4, 4], with any number N of samples",
        ),
        (
            {"image": zeros(9, 3, 4, 4, dtype=np.float64)},
            [IMAGE],
            "array 'image' is float64 [9, 3, 4, 4]; expected float32 [N, 3, 4, 4], with any number N of samples",
        ),
        (
            {"ids": zeros(3, 5, dtype=np.int64)},
            [IDS],
            "array 'ids' is int64 [3, 5]; expected int64 [2·N, 5], with any number N of samples",
        ),
        ({"image": zeros(0, 3, 4, 4)}, [IMAGE], "array 'image' is float32 [0, 3, 4, 4]; it is empty"),
        ({"image": with_nan(2)}, [IMAGE], "array 'image', sample 2 holds NaN or infinite values"),
        (
            {"image": zeros(3, 3, 4, 4), "ids": zeros(4, 5, dtype=np.int64)},
            [IMAGE, IDS],
            "expected as many samples of every input; 'image' has 3, 'ids' has 2",
        ),
    ],
)
def test_refuses_what_does_not_fit(data: dict[str, np.ndarray], inputs: list[Input], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_samples(data, inputs)
    assert str(caught.value) == f"the calibration data: {message}"


def test_refuses_to_make_up_integers() -> None:
    with pytest.raises(InputError) as caught:
        read_samples("random", [IMAGE, IDS])
    assert str(caught.value) == (
        "--calibration random: input 'ids' is int64, and only float32 ones can be made up; give a .npz file"
    )


def test_refuses_a_negative_seed() -> None:
    with pytest.raises(InputError) as caught:
        read_samples("random", [IMAGE], -1)
    assert str(caught.value) == "the seed is -1; expected 0 or more"


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", image=zeros(2, 3))
    with pytest.raises(InputError) as caught:
        read_samples(tmp_path / "data.npz", [IMAGE])
    assert str(caught.value) == (
        f"{tmp_path}/data.npz: array 'image' is float32 [2, 3]; expected float32 [N, 3, 4, 4], with any number N of "
        "samples"
    )
