"""Work is divided among engines that have the same instructions: who runs what, and that values stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np
import onnx
import pytest

import tilewright
from tests.compiler.models import random_inputs
from tests.compiler.nests import NetworkByHand, network_for, run
from tests.compiler.pipelines import simulated
from tests.compiler.tile_programs import TileBuilder
from tests.digits import MODEL
from tests.schedules.never_slower import model as onnx_model
from tests.twins import PRODUCT, SMALL, arrays
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.divide import can_spread, divided, has_choice, spread
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

TWO_OF_EACH = """
extends: base16
dram: {ports: 2}
engines:
  load2: {template: dma, port: 1, queue: 4, reads: [dram], writes: [act, wgt, acc, par, lut]}
  vec2: {template: vector, queue: 4, results: 4, reads: [act, acc, par], writes: [act, acc]}
instructions:
  load_act: {engine: [load, load2]}
  load_wgt: {engine: [load, load2]}
  load_par: {engine: [load, load2]}
  requantize: {engine: [vec, vec2]}
  max_pool: {engine: [vec, vec2]}
  add: {engine: [vec, vec2]}
"""


TWO_PORTS = """
extends: base16
dram: {bus_bytes: 4, ports: 2}
engines:
  load2: {template: dma, port: %d, queue: 4, reads: [dram], writes: [act, wgt, acc, par, lut]}
  store2: {template: dma, port: 1, queue: 2, reads: [act, acc], writes: [dram]}
instructions:
  load_act: {engine: [load, load2]}
  load_wgt: {engine: [load, load2]}
  load_par: {engine: [load, load2]}
  store_act: {engine: store2}
"""


def two_ports(port_of_load2: int = 1) -> Machine:
    return load_machine_text(TWO_PORTS % port_of_load2, "ports.yaml")


@cache
def two_of_each() -> Machine:
    return load_machine_text(TWO_OF_EACH, "two.yaml")


def two_convolutions(machine: Machine) -> TileProgram:
    network = network_for(machine, 0)
    first = network.conv(network.input(1, 16, 24, 24), 32, (3, 3), pad=1)
    return tile(select(network.program(network.conv(first, 16, (1, 1))), machine))


def digits_on(machine: Machine, ahead: Ahead, effort: int = 0) -> Program:
    return compile_model(onnx.load(MODEL), machine, Options(ahead=ahead, effort=effort))


def test_operations_go_to_engines_that_are_free_and_stay_what_they_are() -> None:
    tiles = two_convolutions(two_of_each())
    found = divided(tiles)

    used = Counter(engine.name for engine in engines(found))
    assert min(used["load"], used["load2"]) > 0
    assert not used["vec2"]  # each result waits for the array, and by then the first engine is free
    assert [(of.fields, of.bases, of.layer) for of in found.operations] == [
        (of.fields, of.bases, of.layer) for of in tiles.operations
    ]
    assert [of.mnemonic.partition("_vec2")[0].partition("_load2")[0] for of in found.operations] == [
        of.mnemonic for of in tiles.operations
    ]


def test_a_machine_with_one_engine_for_each_instruction_has_no_choice() -> None:
    tiles = two_convolutions(load_machine("base16"))

    assert not has_choice(tiles)
    assert divided(tiles) is tiles


@pytest.mark.parametrize(("lanes", "share"), [(16, 0.5), (4, 0.2)])
def test_an_engine_of_few_lanes_gets_less_of_the_work(lanes: int, share: float) -> None:
    """Two pools in some rows of tiles each: 4 lanes beside 16 do a fifth of what both do in the same time."""
    machine = load_machine_text(TWO_OF_EACH.replace("vec2: {", f"vec2: {{lanes: {lanes}, "), "two.yaml")
    network = network_for(machine, 0)
    x = network.input(1, 16, 24, 24)
    program = network.program(*(network.max_pool(x, 3, stride=1) for _ in range(2)))
    words = Counter[str]()
    for operation in divided(tile(select(program, machine))).operations:
        words[operation.mnemonic] += prod(trip for name, trip in operation.fields.items() if name.startswith("trip."))

    assert words["max_pool"] + words["max_pool_vec2"] == 2 * 22 * 22 * 9
    assert words["max_pool_vec2"] / (2 * 22 * 22 * 9) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("idle", [(), ("load2",), ("load2", "vec2")])
def test_a_program_has_the_same_values_whoever_works(idle: Sequence[str]) -> None:
    inputs = random_inputs(onnx.load(MODEL), np.random.default_rng(0))
    plain = digits_on(load_machine("base16"), Ahead())
    program = digits_on(two_of_each(), Ahead(idle=frozenset(idle)))

    used = {instruction.engine.name for instruction in program.instructions}
    assert used & {"load2", "vec2"} == {"load2", "vec2"} - set(idle)
    np.testing.assert_equal(simulated(program, inputs), simulated(plain, inputs))


def test_a_program_has_the_same_values_through_two_ports() -> None:
    inputs = random_inputs(onnx.load(MODEL), np.random.default_rng(0))
    program = digits_on(two_ports(), Ahead())

    used = {instruction.engine.name for instruction in program.instructions}
    assert {"load", "load2", "store2"} <= used
    np.testing.assert_equal(simulated(program, inputs), simulated(digits_on(load_machine("base16"), Ahead()), inputs))


@pytest.mark.slow
def test_a_second_port_makes_a_program_faster_than_a_second_engine_on_the_same_one() -> None:
    cycles = [
        simulate_cycles(program, place_regions(program.limits)).cycles
        for program in (digits_on(two_ports(port), Ahead()) for port in (1, 0))
    ]

    assert cycles[0] < 0.9 * cycles[1], cycles


def engines_of_loads(machine: Machine) -> Counter[str]:
    """Who has four loads that nothing has to come before, each of 384 beats of 4 bytes."""
    build = TileBuilder(machine, np.random.default_rng(0))
    for _ in range(4):
        build.load("act", 96)
    return Counter(engine.name for engine in engines(divided(build.program())))


def test_loads_that_fill_a_port_stay_on_one_engine_of_it() -> None:
    """A second engine could start none sooner."""
    assert engines_of_loads(two_ports(0)) == {"load": 4}
    assert engines_of_loads(two_ports(1)) == {"load": 2, "load2": 2}


def test_loads_that_leave_beats_of_a_port_are_shared() -> None:
    """With one burst under way, an engine waits for DRAM between bursts of 16 beats."""
    one_burst = TWO_PORTS.replace("  load2: {", "  load: {bursts: 1}\n  load2: {bursts: 1, ")

    assert engines_of_loads(load_machine_text(one_burst % 0, "one.yaml")) == {"load": 2, "load2": 2}


@pytest.mark.slow
@pytest.mark.parametrize(("bursts", "most"), [(2, 0.6), (16, 1.005)])
def test_two_engines_on_one_port_are_not_slower_than_one_and_faster_where_they_can(bursts: int, most: float) -> None:
    """Layers of the autoencoder wait for weights: with two bursts under way, an engine waits for DRAM between them."""
    one = load_machine("base16", [f"engines.load.bursts={bursts}"])
    alike = [f"engines.{name}.bursts={bursts}" for name in ("load", "load2")]
    two = load_machine("base16-2dma", ["dram.ports=1", "engines.load2.port=0", *alike])
    alone, both = (
        simulate_cycles(program, place_regions(program.limits)).cycles
        for program in (compile_model(onnx_model("autoencoder"), machine) for machine in (one, two))
    )

    assert both <= most * alone, (alone, both)


@pytest.mark.slow
def test_engines_of_a_program_are_kept_where_its_order_is_taken_over() -> None:
    """A search arranges a stand-in; the program has its order, and with it its engines."""
    small = TWO_OF_EACH.replace("ports: 2", "ports: 2, bus_bytes: 4") + "array: {rows: 4, cols: 4}\nlanes: 4\n"
    machine = load_machine_text(small, "small.yaml")
    inputs = random_inputs(onnx.load(MODEL), np.random.default_rng(0))
    program = digits_on(machine, Ahead(), effort=1)

    assert {"load2", "vec2"} <= {instruction.engine.name for instruction in program.instructions}
    np.testing.assert_equal(simulated(program, inputs), simulated(digits_on(load_machine("base16"), Ahead()), inputs))


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


def digits_spread_on(machine: Machine, ahead: Ahead = Ahead(), effort: int = 1) -> Program:  # noqa: B008
    return compile_model(onnx.load(MODEL), machine, Options(ahead=ahead, effort=effort))


def cycles_of(program: Program) -> int:
    return simulate_cycles(program, place_regions(program.limits)).cycles


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_a_network_has_the_values_of_one_array_in_fewer_cycles(count: int) -> None:
    inputs = random_inputs(onnx.load(MODEL), np.random.default_rng(0))
    alone, program = digits_spread_on(arrays(1)), digits_spread_on(arrays(count))

    np.testing.assert_equal(simulated(program, inputs), simulated(alone, inputs))
    assert cycles_of(program) < 0.8 * cycles_of(alone)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_the_first_array_works_alone_where_the_bus_is_what_takes_longest(count: int) -> None:
    """Instructions are longer by the wait counts of other arrays, and come over a bus of one byte."""
    alone, several = (arrays(each, SMALL + "dram: {bus_bytes: 1}\n") for each in (1, count))

    assert cycles_of(digits_spread_on(several)) <= 1.01 * cycles_of(digits_spread_on(alone))


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
