"""Random networks in batches: each image gives, byte for byte, what it gives alone; on the host's parts too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import random_inputs
from tests.mixed_networks import mixed_network
from tests.random_networks import random_network
from tests.rings import long_beyond
from tests.test_random_networks import MACHINES
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.program import Program

BATCH, IMAGES = 3, 4

FEW, SOME, MANY = 5, 20, 120


def check(model: onnx.ModelProto, machine: Machine, seed: int) -> None:
    """Each of some images alone, and all of them in a batch.

    A network is refused, and skipped, that turns or folds its first dimension into another.
    """
    single = Program(compile_partitioned(model, machine, Options(effort=0)))
    try:
        many = Program(compile_partitioned(model, machine, Options(effort=0, batch=BATCH)))
    except CompileError as error:
        assert error.node or "output" in str(error)
        assert any(node.op_type in ("Transpose", "Reshape") for node in model.graph.node)
        pytest.skip(str(error))
    rng = np.random.default_rng(seed)
    images = [random_inputs(model, rng) for _ in range(IMAGES)]
    assert many.check() == ()
    found = many.run({name: np.concatenate([image[name] for image in images]) for name in images[0]}).outputs
    for at, image in enumerate(images):
        for name, alone in single.run(image).outputs.items():
            rows = alone.shape[0]
            own = found[name][at * rows : (at + 1) * rows]
            assert own.tobytes() == alone.tobytes(), f"seed {seed} on {machine.name}: image {at} of {name!r}"


def check_seed(seed: int) -> None:
    name, overrides, kinds = MACHINES[seed % len(MACHINES)]
    check(random_network(seed, **kinds), load_machine(name, overrides), seed)


@pytest.mark.parametrize("seed", range(FEW))
def test_a_few(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(SOME, range(FEW, MANY)))
def test_many(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("seed", range(FEW))
def test_a_few_with_nodes_on_the_host(seed: int) -> None:
    check(mixed_network(np.random.default_rng(seed), 6 + seed), load_machine("base16"), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(SOME, range(FEW, MANY)))
def test_many_with_nodes_on_the_host(seed: int) -> None:
    check(mixed_network(np.random.default_rng(seed), 6 + seed % 15), load_machine("base16"), seed)
