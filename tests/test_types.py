"""What docs/types.md says of weights of four bits is so: its tables, its remarks, and the hardware of its machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests import digits
from tests.compiler.models import conv_model, random_inputs
from tests.compiler.narrow_weights import with_narrow_weights
from tests.rings import slow_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tests.types import NETWORKS, PAGE, machines, right, row, taken, top1_rows
from tests.types import with_narrow_weights as quantized
from tilewright import host
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions

SMALL = ("array.rows=4", "array.cols=8", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner, of the same kind: a word of weights is as wide as the bus."""


@pytest.fixture
def machine(tmp_path: Path) -> str:
    (path,) = machines(tmp_path)
    return str(path)


@pytest.mark.parametrize("network", slow_beyond(2, NETWORKS))
def test_the_page_shows_what_the_command_prints(network: str, machine: str) -> None:
    assert row(network, machine) in PAGE.read_text().splitlines()


@pytest.mark.slow
def test_the_page_shows_what_the_command_counts(machine: str) -> None:
    assert set(top1_rows(machine)) <= set(PAGE.read_text().splitlines())


def test_a_network_bound_by_its_weights_takes_half_as_long(machine: str) -> None:
    from tests.schedules.never_slower import model

    (wide, wide_bytes), (narrow, narrow_bytes) = (
        taken(model("autoencoder"), "base16"),
        taken(quantized("autoencoder"), machine),
    )
    assert narrow <= 0.62 * wide and narrow_bytes <= 0.53 * wide_bytes


@pytest.mark.slow
def test_digits_lose_no_more_than_half_a_point(machine: str) -> None:
    images = len(digits.labels())
    assert right(quantized("digits"), machine) >= right(onnx.load(digits.MODEL), "base16") - 0.005 * images


def remarks(model: onnx.ModelProto, machine: str) -> dict[str, str]:
    program = compile_partitioned(model, load_machine(machine))
    assert isinstance(program, Program)
    return {about: text for about, text in program.metadata.items() if about.startswith("weights")}


def test_says_of_each_layer_that_its_weights_are_widened(machine: str) -> None:
    model = with_narrow_weights(conv_model(np.random.default_rng(3), 16, 16, 6))
    expected = "they are int4 in the model, and int8 in memory: base16 multiplies by these"
    assert remarks(model, "base16") == {"weights of conv": expected}
    assert remarks(model, machine) == {}


def test_says_of_each_layer_that_its_weights_are_sums(machine: str) -> None:
    model = conv_model(np.random.default_rng(3), 16, 16, 6)
    assert remarks(model, machine) == {"weights of conv": "each is a sum of 19 int4: as many tiles as that"}
    assert remarks(model, "base16") == {}


@pytest.mark.slow
def test_networks_are_the_simulators_on_the_hardware(machine: str) -> None:
    narrow = load_machine(machine, SMALL)
    jobs = []
    for channels, size in ((5, 6), (16, 9)):
        model = with_narrow_weights(conv_model(np.random.default_rng(size), channels, 12, size))
        program = compile_model(model, narrow)
        image = host.dram_image(program, random_inputs(model, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(narrow, jobs, range(len(jobs)))
