"""Random networks on several machines: tiles compute exactly what nests do, and nests what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.compiler.models import random_inputs, run_onnx
from tests.compiler.pipelines import simplified, simulated, steps_apart
from tests.engines import SEVERAL
from tests.random_networks import random_network
from tests.rings import long_beyond, slow_beyond
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

SMALL = ("memories.act.kib=16", "memories.acc.kib=32", "memories.wgt.kib=16")
"""Tensors leave the chip."""

MACHINES: tuple[tuple[str, tuple[str, ...], dict[str, bool]], ...] = (
    ("base16", (), {}),
    ("base16", SMALL, {"transposes": True}),
    ("rect", (), {}),
    ("tiny8", (), {"transposes": True}),
    ("vector16", (), {"transposes": True, "has_softmax": True}),
)

FEW, SOME, MANY = 12, 36, 120
"""Seeds: those of the fast ring, how many more the slow ring has, and all of them, with the long one."""


WITHOUT_ARRAY: tuple[tuple[str, tuple[str, ...], dict[str, bool]], ...] = (
    ("vector-only", (), {}),
    ("vector-only", ("memories.act.kib=16", "memories.acc.kib=8", "memories.wgt.kib=4"), {}),
)
"""Products in the vector engine; the second cuts sums into parts."""

OF_SEVERAL_ENGINES: tuple[tuple[str, tuple[str, ...], dict[str, bool]], ...] = tuple((name, (), {}) for name in SEVERAL)
"""Work divided among engines."""


def check(seed: int, of: Sequence[tuple[str, tuple[str, ...], dict[str, bool]]] = MACHINES) -> None:
    """One network on one machine; failures name both."""
    name, overrides, kinds = of[seed % len(of)]
    machine = load_machine(name, overrides)
    model = random_network(seed, **kinds)
    where = f"seed {seed} on {name} {' '.join(overrides)}"
    nests = lower(simplified(model), machine)
    program = compile_model(model, machine)
    inputs = random_inputs(model, np.random.default_rng(seed))
    by_nests, by_tiles, expected = run_nests(nests, inputs), simulated(program, inputs), run_onnx(model, inputs)
    for tensor in nests.outputs:
        np.testing.assert_array_equal(by_tiles[tensor.name], by_nests[tensor.name], err_msg=where)
        # Each layer may be one step away, and the next one carries that on.
        apart = steps_apart(by_nests[tensor.name], expected[tensor.name], tensor)
        assert (apart <= 2).mean() >= 0.98 and np.median(apart) <= 1, f"{where}: {tensor.name} is {apart.max()} away"


@pytest.mark.parametrize("seed", range(FEW))
def test_a_few(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", slow_beyond(4, range(FEW)))
def test_a_few_without_an_array(seed: int) -> None:
    check(seed, WITHOUT_ARRAY)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(2 * len(SEVERAL), range(SOME)))
def test_some_on_several_engines(seed: int) -> None:
    check(seed, OF_SEVERAL_ENGINES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(SOME, range(FEW, MANY)))
def test_many(seed: int) -> None:
    check(seed)
