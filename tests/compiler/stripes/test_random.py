"""Random chains in random stripes, on machines with memories of any size: compiled, they give the values of nests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.accumulator_networks import from_accumulators, pooled, projection, shallow
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import simulated
from tests.compiler.stripes.networks import before_stripes, block_model
from tests.rings import long_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler import passes
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.stripes.chain import Chain, chains
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.host import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""A machine that is built in a minute."""


def random_model(rng: np.random.Generator) -> onnx.ModelProto:
    return block_model(
        height=int(rng.integers(4, 20)),
        width=int(rng.integers(3, 12)),
        channels=int(rng.choice([16, 32, 40, 48])),
        kernel=int(rng.choice([3, 5])),
        stride=int(rng.integers(1, 4)),
        dilation=int(rng.integers(1, 3)),
        is_residual=bool(rng.integers(2)),
        seed=int(rng.integers(1000)),
    )


def cut_at_random(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> list[Stripes]:
    """Have all chains cut, whatever they take; the stripes are there after compiling."""
    taken: list[Stripes] = []

    def cut(program: NestProgram, machine: Machine, *_: object) -> NestProgram:
        for chain in list(chains(program, machine.vector.lanes)):
            channels = rng.choice([0, machine.vector.lanes, 2 * machine.vector.lanes])
            taken.append(Stripes(int(rng.integers(1, chain.rows + 1)), int(channels) or None))
            program = in_stripes(Chain(chain.nests, program), taken[-1])
        return program

    monkeypatch.setattr(passes, "cut_chains", cut)
    return taken


def assert_same_values(
    model: onnx.ModelProto, machine: Machine, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model compiled with its chains cut at random has the values of its nests before they are cut."""
    expected_of = before_stripes(model, machine)
    taken = cut_at_random(rng, monkeypatch)
    program = compile_model(model, machine, Options(effort=0, verifies=True))
    inputs = random_inputs(model, rng)
    expected, found = run_nests(expected_of, inputs), simulated(program, inputs)
    assert taken and all(np.array_equal(values, found[name]) for name, values in expected.items())


@pytest.mark.parametrize("seed", long_beyond(12, range(300)))
def test_the_values_are_those_of_the_nests(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    machine = load_machine("dw16", [f"memories.act.kib={rng.choice([2, 4, 16, 64])}"])
    assert_same_values(random_model(rng), machine, rng, monkeypatch)


@pytest.mark.slow
def test_hardware_and_simulator_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, jobs = load_machine("dw16", [*SMALL, "memories.act.kib=4"]), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = random_model(rng)
        cut_at_random(rng, monkeypatch)
        program = compile_model(model, machine, Options(effort=0))
        jobs.append((program, dram_image(program, random_inputs(model, rng)), place_regions(program.limits)))
    assert_equal(machine, jobs, range(6))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("network", [projection, shallow, pooled])
def test_sums_that_stay_in_accumulators_keep_their_values(
    network: Callable[[], onnx.ModelProto], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same_values(network(), from_accumulators(), np.random.default_rng(seed), monkeypatch)
