"""Arrays in files come back."""

from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright.files import read_arrays, write_arrays


def test_integers_of_few_bits_come_back_as_bytes(tmp_path: Path) -> None:
    """No `.npy` file has them: numpy would read bytes without a meaning."""
    arrays = {"a": np.array([-8, 7], ml_dtypes.int4), "b": np.array([0, 3], ml_dtypes.uint2), "c": np.array([0.5])}
    write_arrays(tmp_path / "x.npz", arrays)
    back = read_arrays(tmp_path / "x.npz")
    assert {name: (array.dtype.name, array.tolist()) for name, array in back.items()} == {
        "a": ("int8", [-8, 7]), "b": ("uint8", [0, 3]), "c": ("float64", [0.5]),
    }  # fmt: skip
