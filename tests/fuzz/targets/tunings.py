"""Tuning files with values, keys and bytes changed, for the very network and machine that they are for.

A program that follows one that is accepted has passed the checker, and computes what the program without it does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.compiler.models import small_cnn
from tests.fuzz.compiling import prepare_compiler, shipped
from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tests.fuzz.trees import Edit, edited, edits
from tilewright import api
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.program.program import Program

MACHINE = "tiny8"


@dataclass(frozen=True)
class ChangedTuning:
    """A tuning file with changes: of its values, then of single bytes, then cut short."""

    edits: tuple[Edit, ...]
    bytes: tuple[tuple[int, bytes], ...] = ()
    cut: int = 0

    @property
    def content(self) -> bytes:
        content = json.dumps(edited(_tuning(), self.edits)).encode()
        for place, new in self.bytes:
            place %= len(content)
            content = content[:place] + new + content[place + 1 :]
        return content[: len(content) - self.cut]


@cache
def _model() -> bytes:
    return small_cnn(np.random.default_rng(0)).SerializeToString()


@cache
def _tuning() -> Any:
    """What a search found, with some entries that it may have, too."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.json"
        _compiled(path)
        tuning = json.loads(path.read_text())
    for record in tuning["networks"]:
        record["limits"] = {"act": 64}
        record["off_chip"] = record["tensors"][1:2]
    return tuning


def _compiled(tuning: Path | None) -> Program:
    options = Options(effort=0) if tuning is None else Options(effort=1, tuning=tuning)
    return compile_model(_model(), shipped(MACHINE), options)


@cache
def _expected() -> dict[str, bytes]:
    return _outputs(_compiled(None))


def _outputs(program: Program) -> dict[str, bytes]:
    """The bytes of each output for inputs that are always the same."""
    rng = np.random.default_rng(1)
    inputs = {each.name: rng.normal(size=each.shape).astype(each.dtype) for each in program.inputs}
    return {name: array.tobytes() for name, array in api.Program(program).run(inputs).outputs.items()}


@strategies.composite
def changed_tunings(draw: DrawFn) -> ChangedTuning:
    names = [
        "tiles",
        "points_outer",
        "act",
        "wgt",
        "acc",
        "key",
        "cycles",
        "layers",
        "loads",
        "eighths",
        "residency",
        "x",
    ]
    values = strategies.one_of(
        strategies.sampled_from([None, True, 0, -1, 1, 2, 3, 7, 64, 1 << 20, 1 << 40, 1 << 63, 10**30]),
        strategies.sampled_from([0.0, 0.01, 0.25, 1.0, 1.5, float("nan"), float("inf"), "none", "auto", "", [], {}]),
    )
    places = strategies.tuples(strategies.integers(0, 1 << 16), strategies.binary(min_size=0, max_size=3))
    return ChangedTuning(
        draw(edits(_tuning(), names, values)),
        draw(strategies.one_of(strategies.just(()), strategies.lists(places, max_size=2).map(tuple))),
        draw(strategies.sampled_from([0] * 9 + [1, 50])),
    )


def attempt(changed: ChangedTuning) -> Outcome:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.json"
        path.write_bytes(changed.content)
        try:
            program = _compiled(path)
        except CompileError:
            return Outcome.REFUSED
        if _outputs(program) != _expected():
            raise WrongAnswer("the program with this tuning has other outputs", "tunings: values")
        if [each.name for each in Path(folder).iterdir()] != ["tuning.json"]:
            raise WrongAnswer("something is left beside the file", "tunings: left")
    return Outcome.RIGHT


def prepare() -> None:
    """Compile kernels, and search once."""
    prepare_compiler()
    _tuning()
    _expected()


TARGET = Target("tunings", changed_tunings(), attempt, prepare=prepare)
