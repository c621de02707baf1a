"""Archives of arrays, damaged in bytes or in structure; what is read has the values that numpy reads."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tests.tilewright.files.test_arrays_fuzz import DAMAGES, valid
from tilewright.errors import InputError
from tilewright.files.arrays import read_arrays


@dataclass(frozen=True)
class DamagedArchive:
    """An archive that numpy writes, and damages to it one after the other, each with its seed."""

    seed: int
    damages: tuple[tuple[int, int], ...]

    @property
    def content(self) -> bytes:
        content = valid(np.random.default_rng(self.seed))
        for damage, seed in self.damages:
            if content:
                content = DAMAGES[damage](content, np.random.default_rng(seed))
        return content


@strategies.composite
def damaged_archives(draw: DrawFn) -> DamagedArchive:
    damages = strategies.tuples(strategies.integers(0, len(DAMAGES) - 1), strategies.integers(0, 2**31))
    return DamagedArchive(draw(strategies.integers(0, 9)), tuple(draw(strategies.lists(damages, max_size=3))))


def attempt(archive: DamagedArchive) -> Outcome:
    content = archive.content
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        path.write_bytes(content)
        try:
            arrays = read_arrays(path)
        except InputError:
            return Outcome.REFUSED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about odd headers
        expected = np.load(BytesIO(content), allow_pickle=False)
        if sorted(arrays) != sorted(expected.files):
            raise WrongAnswer(f"it has the arrays {sorted(expected.files)}, not {sorted(arrays)}", "npz: names")
        for name, array in arrays.items():
            other = expected[name]
            if array.shape != other.shape or array.dtype != other.dtype.newbyteorder("="):
                raise WrongAnswer(f"{name!r} is {other.dtype} {other.shape}", "npz: forms")
            if array.tobytes() != other.astype(array.dtype).tobytes():
                raise WrongAnswer(f"{name!r} has other values", "npz: values")
    return Outcome.RIGHT


TARGET = Target("npz arrays", damaged_archives(), attempt)
