"""Work on several arrays with memories of their own: who computes what, what is loaded twice, and that values stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import random_inputs
from tests.compiler.nests import NetworkByHand, network_for, run
from tests.compiler.pipelines import simulated
from tests.digits import MODEL
from tests.schedules.never_slower import model as onnx_model
from tests.twins import PRODUCT, SMALL, arrays
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.spread import can_spread, spread
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles


def convolutions(machine: Machine) -> tuple[NetworkByHand, str]:
    """A convolution, one that adds its result to a tensor, and a depthwise one."""
    network = network_for(machine, 0)
    source = network.input(1, 16, 12, 12)
    first = network.conv(source, 16, (3, 3), pad=1)
    second = network.conv(first, 16, (1, 1), add=source)
    return network, network.conv(second, 16, (3, 3), pad=1, groups=16)


def in_tiles(machine: Machine) -> tuple[NetworkByHand, TileProgram]:
    network, result = convolutions(machine)
    return network, tile(select(network.program(result), machine))


def products_of(program: TileProgram) -> Counter[str]:
    """How many products each array computes."""
    return Counter(engine.name for engine in engines(program) if engine.template is Template.SYSTOLIC)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_all_arrays_work_and_values_are_those_of_numpy(count: int) -> None:
    network, tiles = in_tiles(arrays(count))
    found = spread(tiles)

    assert len(products_of(found)) == count
    for name, values in run(network, found).items():
        np.testing.assert_array_equal(values, network.values[name])


def test_work_is_divided_evenly() -> None:
    _, tiles = in_tiles(arrays(2))
    vectors = Counter[str]()
    for engine, operation in zip(engines(spread(tiles)), spread(tiles).operations, strict=True):
        if engine.template is Template.SYSTOLIC:
            vectors[engine.name] += int(np.prod([operation.fields.get(f"trip.{loop}", 1) for loop in "nrskyx"]))

    assert max(vectors.values()) <= 1.1 * min(vectors.values())


def test_every_buffer_of_a_group_is_in_the_memories_of_its_array() -> None:
    found = spread(in_tiles(arrays(2))[1])

    for operation in found.operations:
        format = found.machine.format(operation.mnemonic)
        for operand in format.operands:
            place = found.buffers[operation.bases[operand.name].buffer].place
            assert place == operand.memory or operand.memory == "dram"


def test_weights_that_two_arrays_read_are_loaded_for_both() -> None:
    """A convolution of one block of channels can only be divided by its pixels."""
    network = network_for(arrays(2), 0)
    result = network.conv(network.input(1, 16, 16, 16), 4, (3, 3), pad=1)
    tiles = tile(select(network.program(result), arrays(2)))
    found = spread(tiles)

    def loads(program: TileProgram, mnemonic: str) -> list[object]:
        return [of.bases["d"] for of in program.operations if of.mnemonic == mnemonic]

    assert loads(tiles, "load_wgt")
    assert loads(found, "load_wgt") == loads(found, "load_wgt_mma2") == loads(tiles, "load_wgt")
    for name, values in run(network, found).items():
        np.testing.assert_array_equal(values, network.values[name])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_arrays_work_than_are_to(most: int) -> None:
    network, tiles = in_tiles(arrays(4))
    found = spread(tiles, most)

    assert len(products_of(found)) == most
    for name, values in run(network, found).items():
        np.testing.assert_array_equal(values, network.values[name])


def test_tiles_for_two_of_four_arrays_are_those_of_a_machine_with_two() -> None:
    """Up to the memories that are left, and with that, how many tiles there are."""
    two, four = (
        tile(select(convolutions(arrays(count))[0].program(convolutions(arrays(count))[1]), arrays(count)), tiling)
        for count, tiling in ((2, TilingOptions()), (4, TilingOptions(arrays=2)))
    )

    assert [of.fields for of in four.operations] == [of.fields for of in two.operations]


def test_an_array_whose_sums_nobody_reads_gets_none() -> None:
    tiles = in_tiles(load_machine_text(PRODUCT.format(cols=16, kib=128, bits=6), "m.yaml"))[1]

    assert can_spread(tiles)
    assert spread(tiles) is tiles


def test_one_array_has_nothing_to_spread() -> None:
    _, tiles = in_tiles(arrays(1))

    assert not can_spread(tiles)
    assert spread(tiles) is tiles


def digits_on(machine: Machine, ahead: Ahead = Ahead(), effort: int = 1) -> Program:  # noqa: B008
    return compile_model(onnx.load(MODEL), machine, Options(ahead=ahead, effort=effort))


def cycles_of(program: Program) -> int:
    return simulate_cycles(program, place_regions(program.limits)).cycles


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_a_network_has_the_values_of_one_array_in_fewer_cycles(count: int) -> None:
    inputs = random_inputs(onnx.load(MODEL), np.random.default_rng(0))
    alone, program = digits_on(arrays(1)), digits_on(arrays(count))

    np.testing.assert_equal(simulated(program, inputs), simulated(alone, inputs))
    assert cycles_of(program) < 0.8 * cycles_of(alone)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_the_first_array_works_alone_where_the_bus_is_what_takes_longest(count: int) -> None:
    """Instructions are longer by the wait counts of other arrays, and come over a bus of one byte."""
    alone, several = (arrays(each, SMALL + "dram: {bus_bytes: 1}\n") for each in (1, count))

    assert cycles_of(digits_on(several)) <= 1.01 * cycles_of(digits_on(alone))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "count"),
    [("autoencoder", 2), ("ds-cnn", 3)],  # that waits for weights; a third of whose tiles no array can take
)
def test_an_array_more_makes_no_network_slower(network: str, count: int) -> None:
    model, base = onnx_model(network), "extends: base16\nmemories: {act: {banks: 64}}\n"
    fewer, more = (tilewright.compile(model, arrays(each, base)).profile()["cycles"] for each in (count - 1, count))

    assert more <= 1.005 * fewer


def test_the_same_program_comes_out_each_time() -> None:
    assert spread(in_tiles(arrays(2))[1]) == spread(in_tiles(arrays(2))[1])
