"""What docs/types.md says of weights of four bits is so: its tables, its remarks, and the hardware of its machine."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from tests import digits
from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.narrow_weights import with_narrow_weights
from tests.compiler.pipelines import simulated
from tests.rings import slow_beyond
from tests.test_simulator_equals_rtl import assert_equal
from tests.type_machines import machine_rows, network_rows, sequence_rows
from tests.types import BASE, MACHINES, NETWORKS, PAGE, Variant, mixed_rows, right, row, tables, taken, top1_rows
from tests.types import with_narrow_weights as quantized
from tilewright.codesign.price.price import price_machine
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.program.program import Program, place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""


@pytest.fixture
def machine() -> str:
    """That whose memory holds weights of four bits alone."""
    return "w4-only"


@pytest.fixture
def both() -> str:
    """That which reads the words of one memory as weights of either type."""
    return "base16-w4"


@pytest.mark.parametrize("name", ["w4-only", "base16-w4"])
def test_the_page_shows_the_files_that_ship(name: str) -> None:
    (shown,) = re.findall(rf"```yaml\n(# {name}\.yaml\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert load_machine_text(shown, name).text == load_machine(name).text


@pytest.mark.parametrize("network", slow_beyond(2, NETWORKS))
def test_the_page_shows_what_the_command_prints(network: str) -> None:
    (shown,) = [table for table in tables() if table[0].startswith(f"| {NETWORKS[0]} | `")]
    of_network = [line for line in shown if line.startswith(f"| {network} | ")]
    assert [row(network, machine) for machine in MACHINES] == of_network
    assert {line.split(" | ")[0] for line in shown} == {f"| {name}" for name in NETWORKS}


@pytest.mark.slow
def test_the_page_shows_what_the_command_counts() -> None:
    shown = tables()
    assert [*top1_rows()] in shown
    assert [*mixed_rows()] in shown


@pytest.mark.long
def test_the_page_shows_what_a_bit_buys() -> None:
    shown = tables()
    assert [*network_rows()] in shown
    assert [*sequence_rows()] in shown


@pytest.mark.long
def test_the_page_shows_what_the_machines_take() -> None:
    assert [*machine_rows()] in tables()


@pytest.mark.parametrize("machine", MACHINES[1:], ids=["w4-only of 32 columns", "base16-w4"])
def test_a_network_bound_by_its_weights_takes_half_as_long(machine: Variant) -> None:
    from tests.schedules.never_slower import model

    (wide, wide_bytes), (narrow, narrow_bytes) = (
        taken(model("autoencoder"), BASE),
        taken(quantized("autoencoder"), machine),
    )
    assert narrow <= 0.62 * wide and narrow_bytes <= 0.53 * wide_bytes


@pytest.mark.slow
def test_digits_lose_no_more_than_half_a_point() -> None:
    images, usual = len(digits.labels()), right(onnx.load(digits.MODEL), BASE)
    assert min(right(quantized("digits"), machine) for machine in MACHINES) >= usual - 0.005 * images


def remarks(model: onnx.ModelProto, machine: str) -> dict[str, str]:
    program = compile_partitioned(model, load_machine(machine))
    assert isinstance(program, Program)
    return {about: text for about, text in program.metadata.items() if about.startswith("weights")}


def test_says_of_each_layer_that_its_weights_are_widened(machine: str) -> None:
    model = with_narrow_weights(conv_model(np.random.default_rng(3), 16, 16, 6))
    expected = "they are int4 in the model, and int8 in memory: mma multiplies by these"
    assert remarks(model, "base16") == {"weights of conv": expected}
    assert remarks(model, machine) == {}


def test_says_of_each_layer_that_its_weights_are_sums(machine: str) -> None:
    model = conv_model(np.random.default_rng(3), 16, 16, 6)
    assert remarks(model, machine) == {"weights of conv": "each is a sum of 19 int4: as many tiles as that"}
    assert remarks(model, "base16") == {}


def products(model: onnx.ModelProto, machine: str) -> set[str]:
    """The instructions that multiply."""
    return {
        each.mnemonic for each in compile_model(model, load_machine(machine)).instructions if "mma" in each.mnemonic
    }


def test_weights_take_the_narrowest_type_that_holds_them(both: str) -> None:
    """17 results are two tiles of int8, and one of int4; whatever the type of the file."""
    rng = np.random.default_rng(5)
    wide = conv_model(rng, 16, 17, 6)
    assert products(wide, both) == {"mma"}
    assert products(with_narrow_weights(wide), both) == {"mma_w4"}
    assert products(with_narrow_weights(wide, "UINT4", 8), both) == {"mma_w4"}
    assert products(with_narrow_weights(wide, "UINT4", 3), both) == {"mma"}


def test_what_fits_in_a_tile_of_the_usual_type_takes_that_and_says_so(both: str) -> None:
    model = with_narrow_weights(conv_model(np.random.default_rng(3), 16, 16, 6))
    assert products(model, both) == {"mma"}
    assert list(remarks(model, both)) == ["weights of conv"]


def test_programs_of_the_usual_type_are_as_long(both: str) -> None:
    from tests.schedules.never_slower import model

    assert taken(model("digits"), Variant(both)) == taken(model("digits"), BASE)


@pytest.mark.parametrize("channels", [17, 40])
@pytest.mark.parametrize(("element", "zero"), [("INT4", 0), ("UINT4", 8), ("INT4", 2)])
def test_results_are_those_of_onnx_runtime(channels: int, element: str, zero: int, both: str) -> None:
    model = with_narrow_weights(conv_model(np.random.default_rng(channels), 24, channels, 7), element, zero)
    inputs = random_inputs(model, np.random.default_rng(1))
    results = simulated(compile_model(model, load_machine(both)), inputs)
    for name, expected in run_onnx(model, inputs).items():
        np.testing.assert_array_equal(results[name], expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["w4-only", "base16-w4"])
def test_networks_are_the_simulators_on_the_hardware(name: str) -> None:
    narrow = load_machine(name, SMALL)
    jobs = []
    for channels, size in ((5, 6), (16, 9)):
        model = with_narrow_weights(conv_model(np.random.default_rng(size), channels, 12, size))
        program = compile_model(model, narrow)
        image = host.dram_image(program, random_inputs(model, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(narrow, jobs, range(len(jobs)))


@pytest.mark.slow
def test_the_array_of_narrow_types_alone_is_two_thirds_as_large() -> None:
    narrow, wide = (price_machine(load_machine(name)).unit("array").area_um2 for name in ("w4-only", "base16"))
    assert narrow <= 0.72 * wide
