"""Data and labels of an evaluation, from files or as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import read_arrays
from tilewright.host.segments import forms_of
from tilewright.program import Program


def read_data(data: str | Path | Mapping[str, NDArray[Any]], program: Program) -> Mapping[str, NDArray[Any]]:
    """The arrays that a program takes, of any number of images. Raises InputError for others, OSError."""
    if isinstance(data, Mapping):
        program.require_inputs(forms_of(data))
        return data
    return read_arrays(data, program.require_inputs)


def read_labels(labels: str | Path | NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Labels, and where they are from: the array of a .npy file, or the only one of a .npz file.

    Raises InputError, OSError.
    """
    if isinstance(labels, np.ndarray):
        return labels, "the labels"
    path = Path(labels)
    if path.suffix == ".npz":
        found = read_arrays(path)
        if len(found) != 1:
            raise InputError(f"{path}: expected one array, the labels; it has: {', '.join(found) or 'none'}")
        return next(iter(found.values())), str(path)
    try:
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False)), str(path)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a .npy file of numbers, or a damaged one; write it with numpy.save") from error
