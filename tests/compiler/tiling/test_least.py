"""The least that a nest takes: never above the exact cycles, and near them where nothing is in the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.random import default_rng

from tests.compiler.models import conv_model, gemm_model, pool_model, residual_model
from tests.compiler.tiling.test_window_sums import PLAIN, asymmetric
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import finished
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.tiling.least import least_cycles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile_part
from tilewright.isa.files.loader import load_machine

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "3x3": lambda: conv_model(default_rng(0), 24, 40, size=12, pads=[1] * 4),
    "1x1, stride 2": lambda: conv_model(default_rng(0), 40, 24, size=13, kernel=1, stride=2),
    "first": lambda: conv_model(default_rng(0), 3, 16, size=20, stride=2, pads=[1] * 4),
    "depthwise": lambda: conv_model(default_rng(0), 48, 48, size=12, group=48, pads=[1] * 4),
    "dense": lambda: gemm_model(default_rng(0), inputs=200, outputs=100),
    "asymmetric": lambda: asymmetric(PLAIN, 100),
    "pool": lambda: pool_model(default_rng(0), channels=40, size=16, kernel=3, stride=2),
    "sum": lambda: residual_model(default_rng(0), channels=24, size=10),
}


@pytest.mark.parametrize(("of", "residency"), [("tiny8", "none"), ("dw16", "auto")])
@pytest.mark.parametrize("name", MODELS)
def test_no_tiling_takes_less(name: str, of: str, residency: str) -> None:
    assert max(ratios(name, of, residency, 4)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("residency", ["auto", "none"])
@pytest.mark.parametrize("of", ["tiny8", "base16", "dw16", "rect", "wide32", "vector16"])
@pytest.mark.parametrize("name", MODELS)
def test_no_tiling_of_many_takes_less(name: str, of: str, residency: str) -> None:
    assert max(ratios(name, of, residency, 60)) <= 1


def test_is_near_what_the_best_tilings_take() -> None:
    assert max(ratios("3x3", "tiny8", "none", 40)) > 0.9


def ratios(name: str, of: str, residency: str, tilings: int) -> list[float]:
    """For random tilings of each nest of a model, the least cycles by the exact ones of the nest alone."""
    kept: dict[str, Any] = {}
    machine = load_machine(of)
    compile_partitioned(MODELS[name](), machine, Options(effort=0), keep=kept.__setitem__)
    selection = kept["select"]
    planner = Planner(selection, TilingOptions(residency=residency))
    plan = planner.plan()
    found = []
    for position in range(len(plan.choices)):
        candidates = planner.alone().candidates(position, plan.residency)
        cuts = candidates.cuts
        least = least_cycles(plan.shapes[position], machine, cuts.sizes, cuts.points_outer)
        few = np.flatnonzero(candidates.is_possible & (candidates.tiles <= 64))
        for at in default_rng(1).permutation(few)[:tilings]:
            choices = list(plan.choices)
            choices[position] = candidates.choice(int(at))
            part = tile_part(selection, replace(plan, choices=tuple(choices)), range(position, position + 1))
            found.append(least[at] / exact_cycles(finished(part, Options(effort=0), machine)))
    return found
