"""Machines of any types: networks keep their meaning, the checker is brute force's, and the simulator is the hardware.

`python -m tests.random_types SEED` prints a machine. The long ring takes 25 of them, with 200 random programs and 100
networks.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.compiler.models import random_inputs, run_onnx
from tests.compiler.narrow_weights import with_narrow_weights
from tests.machine_laws import MODELS, STEPS, hold_encoding_laws, hold_text_laws, specification
from tests.random_types import ACTIVATIONS, SUMS, WEIGHTS, machine_of_types, overlay_of_types, text_of_types
from tests.rings import long_beyond, slow_beyond
from tests.test_random_programs import check_checker, check_executors
from tests.test_simulator_equals_rtl import assert_equal, job, random_jobs
from tilewright.api import compile  # noqa: A004
from tilewright.rtl.proof.all import datapath_proofs

MACHINES, PROGRAMS = 25, 8

NETWORKS = ("padded convolution", "strided convolution", "residual", "gemm")

SEEDS = long_beyond(1, range(MACHINES))


def test_machines_have_all_types() -> None:
    overlays = [overlay_of_types(seed) for seed in range(MACHINES)]
    found = [{each["memories"][name]["element"] for each in overlays} for name in ("act", "wgt", "acc")]
    assert found == [set(ACTIVATIONS), set(WEIGHTS), set(SUMS)]
    narrower = {name for each in overlays for name in each["instructions"] if name.startswith("mma_int")}
    assert narrower == {"mma_int2", "mma_int4", "mma_int8"}


@pytest.mark.parametrize("seed", slow_beyond(1, range(3)))
def test_the_simulator_is_the_interpreter_and_the_checker_is_brute_force(seed: int) -> None:
    machine = hold_text_laws(text_of_types(seed), f"types{seed}.yaml")
    hold_encoding_laws(machine, seed, 40)
    check_executors(machine, seed, 12)
    assert check_checker(machine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(5, range(3, MACHINES)))
def test_the_checker_is_brute_force_on_many(seed: int) -> None:
    machine = hold_text_laws(text_of_types(seed), f"types{seed}.yaml")
    hold_encoding_laws(machine, seed)
    for number in range(8):
        check_executors(machine, 100 * seed + number, 12)
        assert check_checker(machine, 100 * seed + number)


def network(name: str, seed: int) -> onnx.ModelProto:
    """One of the networks; for every second machine of each type of weights, with weights of four bits."""
    model = specification(name)[0]
    return with_narrow_weights(model) if seed // len(WEIGHTS) % 2 else model


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_networks_keep_their_meaning(seed: int) -> None:
    """Host and machine together: at most a step for each rounding between input and output."""
    machine = machine_of_types(seed)
    for name in NETWORKS:
        assert name in MODELS
        model = network(name, seed)
        program = compile(model, machine)
        inputs = random_inputs(model, np.random.default_rng(seed))
        found, meant = program.run(inputs).outputs, run_onnx(model, inputs)
        scales = {tensor.name: tensor.scale for part in program.programs for tensor in part.outputs}
        for output, values in meant.items():
            step = scales.get(output, 1.0)
            apart = np.abs(np.rint((found[output].astype(np.float64) - values) / step))
            assert apart.max() <= STEPS.get(name, 1), f"{seed}, {name}: {apart.max()} steps"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_simulator_is_the_hardware(seed: int) -> None:
    machine, rng = machine_of_types(seed), np.random.default_rng(seed)
    programs = [(name, part) for name in NETWORKS for part in compile(network(name, seed), machine).programs]
    names = [*(f"program {number}" for number in range(PROGRAMS)), *(name for name, _ in programs)]
    jobs = [*random_jobs(machine, range(PROGRAMS), 30), *(job(part, rng) for _, part in programs)]
    assert_equal(machine, jobs, [f"{seed}, {name}" for name in names])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_datapaths_are_proved(seed: int) -> None:
    proofs = [proof for _, proof in datapath_proofs([machine_of_types(seed)])]
    assert proofs and all(proof.holds for proof in proofs)
