"""Calibration data: inputs of a network, from a `.npz` file, from arrays, or random; checked against its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import read_arrays
from tilewright.isa.program.stored_types import REALS
from tilewright.quantization.float_model import Input

RANDOM = "random"
"""Given in place of data where only cycles matter."""

RANDOM_COUNT = 8
"""How many random samples a network gets."""

Feed = Mapping[str, NDArray[Any]]
"""Input → its array."""

Calibration = str | Path | Mapping[str, NDArray[Any]]
"""A `.npz` file, arrays by input, or RANDOM."""


@dataclass(frozen=True)
class Samples:
    """Any number of inputs of a network, in order: arrays [samples, *the input's shape] by input."""

    arrays: Mapping[str, NDArray[Any]]
    seed: int | None = None  # of random ones

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __iter__(self) -> Iterator[Feed]:
        for number in range(len(self)):
            yield {name: np.asarray(array[number]) for name, array in self.arrays.items()}  # one number is no array


def read_samples(calibration: Calibration, inputs: Sequence[Input], seed: int = 0) -> Samples:
    """The samples for a network's inputs; `seed` is that of random ones.

    An array has the input's own shape with one more dimension in front, the samples; or with a first size that is a
    multiple of the input's. Example: 64 images for an input [1, 3, 32, 32] are [64, 3, 32, 32] or [64, 1, 3, 32, 32].
    Raises InputError for data that does not fit, OSError for a file that cannot be read.
    """
    if not isinstance(calibration, Mapping) and str(calibration) == RANDOM:
        return _random(inputs, seed)
    source = "the calibration data" if isinstance(calibration, Mapping) else str(calibration)
    if isinstance(calibration, Mapping):
        _require_names(list(calibration), inputs, source)
        given = calibration
    else:
        given = read_arrays(calibration, lambda forms: _require_names(list(forms), inputs, source))
    arrays = {entry.name: _as_samples(np.asarray(given[entry.name]), entry, source) for entry in inputs}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        came = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise InputError(f"{source}: expected as many samples of every input; {came}")
    return Samples(arrays)


def _random(inputs: Sequence[Input], seed: int) -> Samples:
    if seed < 0:
        raise InputError(f"the seed is {seed}; expected 0 or more")
    generator = np.random.default_rng(seed)
    for entry in inputs:
        if entry.dtype not in REALS:
            raise InputError(
                f"--calibration {RANDOM}: input {entry.name!r} is {entry.dtype}, and only float32 ones can be made up; "
                "give a .npz file"
            )
    made = {entry.name: generator.standard_normal((RANDOM_COUNT, *entry.shape), np.float32) for entry in inputs}
    return Samples({entry.name: made[entry.name].astype(entry.dtype, copy=False) for entry in inputs}, seed)


def _require_names(given: Sequence[str], inputs: Sequence[Input], source: str) -> None:
    names = [entry.name for entry in inputs]
    if set(given) != set(names):
        came = ", ".join(map(repr, given)) or "nothing"
        expected = ", ".join(f"{entry.name!r} ({_described(entry.dtype, entry.shape)})" for entry in inputs)
        raise InputError(f"{source}: expected an array for each input, {expected}; got {came}")


def _as_samples(array: NDArray[Any], entry: Input, source: str) -> NDArray[Any]:
    """The array as [samples, *shape], if it is what the input takes."""
    is_stacked = array.shape[1:] == entry.shape
    is_batched = bool(entry.shape) and array.ndim == len(entry.shape) and array.shape[1:] == entry.shape[1:]
    if array.dtype.name != entry.dtype or not (is_stacked or (is_batched and array.shape[0] % entry.shape[0] == 0)):
        raise InputError(
            f"{source}: array {entry.name!r} is {_described(array.dtype.name, array.shape)}; expected "
            f"{_described(entry.dtype, _samples_first(entry.shape))}, with any number N of samples"
        )
    if not array.size:
        raise InputError(f"{source}: array {entry.name!r} is {_described(array.dtype.name, array.shape)}; it is empty")
    samples = array.reshape(-1, *entry.shape)
    if array.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(samples).reshape(len(samples), -1).all(axis=1))
        if wrong.size:
            raise InputError(f"{source}: array {entry.name!r}, sample {wrong[0]} holds NaN or infinite values")
    return samples


def _samples_first(shape: tuple[int, ...]) -> tuple[int | str, ...]:
    """The shape of N samples: the batch grows, if there is one."""
    if not shape:
        return ("N",)
    return (f"{shape[0]}·N" if shape[0] > 1 else "N", *shape[1:])


def _described(dtype: str, shape: Sequence[int | str]) -> str:
    return f"{dtype} [{', '.join(map(str, shape))}]"
