"""Arrays of any number of images for a program that takes some of them in each run: cut, filled up, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import ArrayForm
from tilewright.isa.program.partitioned import NetworkValue
from tilewright.isa.program.program import Tensor

Ends = Sequence[Tensor] | Sequence[NetworkValue]


@dataclass(frozen=True, slots=True)
class Batches:
    """`images` in runs of `each`; the last run is filled up with images of zeros."""

    images: int
    each: int

    def __str__(self) -> str:
        filled = f" and {self.padding} of zeros to fill the last" if self.padding else ""
        runs = f"{self.runs} run{'s' * (self.runs != 1)} of {self.each}"
        return f"{self.images} image{'s' * (self.images != 1)} in {runs}{filled}"

    @property
    def runs(self) -> int:
        """How many runs it takes."""
        return -(-self.images // self.each)

    @property
    def padding(self) -> int:
        """How many images of zeros the last run computes besides."""
        return self.runs * self.each - self.images

    def of_one_run(self, forms: Mapping[str, ArrayForm]) -> dict[str, ArrayForm]:
        """The forms of what a single run is given."""
        return {name: replace(form, shape=(self.each, *form.shape[1:])) for name, form in forms.items()}

    def parts(self, inputs: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, NDArray[Any]]]:
        """What each run is given."""
        for start in range(0, self.images, self.each):
            yield {name: _filled(array[start : start + self.each], self.each) for name, array in inputs.items()}

    def joined(self, outputs: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        """The results of all runs, those of the images of zeros dropped."""
        found = {}
        for name, first in outputs[0].items():
            whole = np.concatenate([each[name] for each in outputs])
            found[name] = whole[: first.shape[0] // self.each * self.images]
        return found


def batches_of(inputs: Ends, outputs: Ends, images: int | None, forms: Mapping[str, ArrayForm]) -> Batches | None:
    """How arrays of these forms are cut into runs; None for those of one run, and for others that no cut would help.

    `images` are those of a run, as the program says. Where it says nothing, a run is of one image if each input and
    output has a first dimension of 1. Raises InputError for arrays that differ in their number of images, and for more
    than one run of a program whose first dimension is no batch.
    """
    if not inputs or set(forms) != {value.name for value in inputs}:
        return None
    if all(_fits(value.shape, forms[value.name].shape) for value in inputs):
        return None
    if not all(_fits(value.shape[1:], forms[value.name].shape[1:]) and forms[value.name].shape for value in inputs):
        return None
    counts = {value.name: forms[value.name].shape[0] for value in inputs}
    each = images or _one(inputs, outputs, counts)
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise InputError(f"the inputs are of different numbers of images: {listed}; give as many of each")
    count = next(iter(counts.values()))
    if not count:
        raise InputError("the inputs are of no images; give at least one")
    return Batches(count, each)


def _one(inputs: Ends, outputs: Ends, counts: Mapping[str, int]) -> int:
    """The images of a run of which nothing is said."""
    for value in inputs:
        if not value.shape or value.shape[0] != 1:
            took, given = list(value.shape), counts[value.name]
            raise InputError(
                f"input {value.name!r} has {given} as its first size; the model takes {took}, and was not compiled for "
                "any number of images: compile it with --batch"
            )
    for value in outputs:
        if not value.shape or value.shape[0] != 1:
            raise InputError(
                f"output {value.name!r} is {list(value.shape)}, so that those of several images cannot be put "
                "together: compile it with --batch, or give one image"
            )
    return 1


def _fits(shape: Sequence[int | None], given: Sequence[int]) -> bool:
    """Whether an array is of a shape; a size that is None is any."""
    return len(shape) == len(given) and all(size in (None, own) for size, own in zip(shape, given, strict=True))


def _filled(array: NDArray[Any], images: int) -> NDArray[Any]:
    """The images, and zeros behind them; empty texts where they are texts."""
    missing = images - array.shape[0]
    if not missing:
        return array
    zeros = np.full((missing, *array.shape[1:]), "" if array.dtype.kind in "OUS" else 0, array.dtype)
    return np.concatenate([array, zeros])
