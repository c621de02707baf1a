"""Random quantised operators against unoptimised ONNX Runtime: at most one step away, and nearly all equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.operators.measure import Exactness, exactness
from tests.quantised_arithmetic import Case, random_case
from tests.rings import long_beyond
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

EQUAL_SHARE = 0.999


def require_exact(seeds: Sequence[int], machine: Machine) -> None:
    """No result is more than a step away, and of all together at least EQUAL_SHARE are equal."""
    found = [_measured(seed, machine) for seed in seeds]
    far = [f"seed {seed}: {case.words}: {of.steps} steps" for seed, case, of in found if of.steps > 1]
    assert far == []
    equal, count = (sum(getattr(of, name) for _, _, of in found) for name in ("equal", "count"))
    assert equal >= EQUAL_SHARE * count, f"{equal} of {count} equal, seeds {seeds[0]} to {seeds[-1]}"


def _measured(seed: int, machine: Machine) -> tuple[int, Case, Exactness]:
    case = random_case(np.random.default_rng(seed))
    return seed, case, exactness(case.model, machine, runs=2, seed=seed)


@pytest.mark.parametrize("isa", ["base16", "tiny8"])
def test_a_sample_is_exact(isa: str) -> None:
    require_exact(range(12), load_machine(isa))


@pytest.mark.slow
@pytest.mark.parametrize("first", long_beyond(1, range(100, 600, 100)))
@pytest.mark.parametrize("isa", ["base16", "tiny8", "rect"])
def test_many_are_exact(isa: str, first: int) -> None:
    require_exact(range(first, first + 100), load_machine(isa))


def test_cases_reach_the_ends_of_the_numbers() -> None:
    """Zero points at both limits, and biases that fill most of the accumulator."""
    cases = [random_case(np.random.default_rng(seed)) for seed in range(100)]
    words = [case.words for case in cases]
    assert any(text.endswith("zero -128") for text in words) and any(text.endswith("zero 255") for text in words)
    assert max(_largest_bias(case) for case in cases) > 2**30


def _largest_bias(case: Case) -> int:
    biases = [onnx.numpy_helper.to_array(t) for t in case.model.graph.initializer if t.name == "b.b"]
    return max((int(np.abs(bias.astype(np.int64)).max()) for bias in biases), default=0)
