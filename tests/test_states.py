"""What docs/types.md says of activations of sixteen bits is what `python -m tests.states` prints, and it holds."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from programs.networks.builder import Builder
from tests.compiler.wide_activations import meaning
from tests.rings import slow_beyond
from tests.state_weights import rows
from tests.states import NETWORKS, PAGE, STATES, TYPES, cycle_rows, digit_rows, state_noise, state_rows
from tilewright.quantization.quantize import quantize


def lines() -> set[str]:
    return set(PAGE.read_text().splitlines())


@pytest.mark.parametrize("network", slow_beyond(1, NETWORKS))
def test_the_page_shows_the_cycles(network: str) -> None:
    assert set(cycle_rows([network])) <= lines()


@pytest.mark.slow
def test_the_page_shows_the_states_and_the_images() -> None:
    assert {*state_rows(), *digit_rows()} <= lines()


@pytest.mark.slow
def test_the_page_shows_what_rounded_weights_alone_cost() -> None:
    assert set(rows()) <= lines()


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_states_gain(state: str) -> None:
    """12 dB or more beside the same weights; beside float weights, those of eight bits leave less."""
    (of_float, of_weights), (wide_of_float, wide_of_weights) = (
        [each[state] for each in state_noise(activations)] for activations in TYPES
    )
    assert wide_of_weights - of_weights >= 12
    assert wide_of_float - of_float >= 9


@pytest.mark.slow
def test_digits_are_as_good_as_in_floats() -> None:
    in_floats, _, wide = (row.split("|")[2] for row in digit_rows())
    assert wide == in_floats


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_steps_are_what_the_file_means(kind: str) -> None:
    """Three steps of 24 hidden values, nothing of it on the host."""
    builder = Builder(kind.lower())
    x = builder.input("x", 3, 16)
    y, *_ = builder.recurrent(kind, "cell", builder.transpose("steps", x, (1, 0, 2)), 24)
    network = builder.model(y=y)
    samples = {"x": np.random.default_rng(1).normal(size=(24, 3, 16)).astype(np.float32)}
    quantized = quantize(network, samples, activations="int16")
    program = tilewright.compile(quantized.content, "base16-a16")
    assert not program.host_nodes

    apart = []
    for image in samples["x"][:8]:
        given = {"x": image[None]}
        found, meant = program.run(given).outputs, meaning(quantized.model, given)
        apart.append(np.rint((found["y"] - meant["y"]) / program.programs[0].outputs[0].scale).ravel())
    steps = np.abs(np.concatenate(apart))
    assert steps.max() <= 2 and np.mean(steps == 0) >= 0.98  # of ten layers, each within a step
