"""From nests to tiles: the operations compute what the nests mean, on every machine and for every shape."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.machines import SHAPES, machine, without
from tests.compiler.nests import INT8, NetworkByHand, assert_computes, axis, network_for, run, select_and_tile
from tests.random_machines import random_machine
from tests.rings import long_beyond, slow_beyond
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import CompileError, DoesNotFit
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.check.checker import require_valid
from tilewright.isa.machine.machine import Machine

OPTIONS = (TilingOptions(), TilingOptions(residency="none"), TilingOptions(0.25, "none"))


def assert_checked(program: TileProgram) -> None:
    """The program's instructions pass the checker: nothing out of bounds, unwritten or raced."""
    require_valid(emit(waits(allocate(program))))


def residual_network(of: Machine) -> tuple[NetworkByHand, str]:
    network = network_for(of, 3)
    a = network.conv(network.input(1, 3, 8, 8), 16, (3, 3), pad=1)
    b = network.conv(a, 24, (3, 3), stride=2, pad=1)
    c = network.conv(b, 24, (3, 3), pad=1, add=b)
    return network, network.conv(network.max_pool(c, 2, 2), 10, (2, 2))


@pytest.mark.parametrize("options", OPTIONS[:2], ids=["on chip", "through DRAM"])
@pytest.mark.parametrize("name", SHAPES)
def test_computes_a_small_network(name: str, options: TilingOptions) -> None:
    network, output = residual_network(machine(name))
    assert_checked(assert_computes(network, machine(name), output, options=options))


def random_network(seed: int, of: Machine) -> tuple[NetworkByHand, list[str]]:
    """A few layers of any kind on tensors of odd sizes."""
    rng = random.Random(seed)
    network = network_for(of, seed)
    sizes = (rng.choice([1, 1, 2, 3]), rng.choice([1, 3, 8, 17, 33]), rng.randint(1, 14), rng.randint(1, 14))
    names = [network.input(*sizes)]
    for _ in range(rng.randint(1, 4)):
        x = names[-1]
        _, channels, height, width = network.buffers[x].shape
        match rng.choice(["conv", "conv", "grouped", "fused", "whole", "pool", "add", "rescale", "copy"]):
            case "conv":
                kernel, pad = (rng.randint(1, min(3, height)), rng.randint(1, min(3, width))), rng.randint(0, 1)
                dilation = rng.choice([1, 1, 2]) if pad == 0 and min(height, width) > 5 else 1
                stride = rng.randint(1, 3)
                names.append(network.conv(x, rng.choice([1, 10, 16, 20, 40]), kernel, stride, pad, dilation))
            case "grouped":
                groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
                kernel = (min(3, height), min(3, width))
                names.append(network.conv(x, groups * rng.randint(1, 2), kernel, groups=groups))
            case "fused":
                names.append(network.conv(x, channels, (3, 3), pad=1, add=x))
            case "whole":
                names.append(network.conv(x, rng.choice([1, 10, 35]), (height, width)))
            case "pool":
                kernel_size = rng.randint(1, min(3, height, width))
                names.append(network.max_pool(x, kernel_size, rng.randint(1, 2), rng.choice([0, kernel_size // 2])))
            case "add":
                names.append(network.add(x, x))
            case "rescale":
                names.append(network.rescale(x))
            case "copy":
                names.append(network.copy(x))
    return network, [names[-1], names[1]] if len(names) > 2 and rng.random() < 0.3 else [names[-1]]


def assert_some_options_fit(network: NetworkByHand, of: Machine, outputs: list[str]) -> None:
    """Compiled with ever smaller tiles until the allocator finds room, it computes the right values."""
    for options in OPTIONS:
        program = assert_computes(network, of, *outputs, options=options)
        try:
            assert_checked(program)
        except DoesNotFit:
            if options is OPTIONS[-1]:
                raise


@pytest.mark.parametrize("seed", range(16))
def test_computes_random_networks_on_machines_of_odd_shapes(seed: int) -> None:
    of = machine(list(SHAPES)[seed % len(SHAPES)])
    assert_some_options_fit(*_with_machine(seed, of))


@pytest.mark.slow
@pytest.mark.parametrize("seed", long_beyond(30, range(100)))
def test_computes_random_networks_on_random_machines(seed: int) -> None:
    of = random_machine(seed)
    assert_some_options_fit(*_with_machine(seed, of))


def _with_machine(seed: int, of: Machine) -> tuple[NetworkByHand, Machine, list[str]]:
    network, outputs = random_network(seed, of)
    return network, of, outputs


LARGE = {
    "more rows of weights than fit": lambda n: n.conv(n.input(1, 512, 6, 6), 64, (3, 3), pad=1),
    "more pixels than fit": lambda n: n.conv(n.input(1, 3, 160, 160), 8, (5, 5), stride=2, pad=2),
    "a long line": lambda n: n.conv(n.input(1, 5, 1, 5000), 20, (1, 5)),
    "a tall line": lambda n: n.max_pool(n.input(1, 5, 3000, 3), 3, 2, 1),
    "a matrix product": lambda n: n.conv(n.input(70, 300, 1, 1), 100, (1, 1)),
    "a kernel as large as the image": lambda n: n.conv(n.input(1, 8, 28, 28), 10, (28, 28)),
    "a kernel beyond a loop's bits": lambda n: n.conv(n.input(1, 3, 24, 24), 16, (17, 17), pad=8),
    "wide dilation": lambda n: n.conv(n.input(1, 16, 30, 30), 16, (3, 3), pad=8, dilation=8),
    "a channel each": lambda n: n.conv(n.input(1, 64, 20, 20), 64, (3, 3), pad=1, groups=64),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("name", slow_beyond(1, ["tiny8", "array 4x12"]))
def test_computes_layers_that_do_not_fit_the_chip(name: str, case: str) -> None:
    network = network_for(machine(name), 5)
    output = LARGE[case](network)
    assert_checked(assert_computes(network, machine(name), output))


def test_fills_padding_by_loads_where_no_instruction_writes_a_constant() -> None:
    of = without(machine("base16"), "fill")
    network, output = residual_network(of)
    assert_checked(assert_computes(network, of, output))


def test_fills_padding_anew_for_a_reader_that_wants_another_value() -> None:
    network = network_for(machine("base16"), 3)
    x = network.copy(network.input(1, 16, 6, 6))
    convolved, pooled = network.conv(x, 16, (3, 3), pad=1), network.max_pool(x, 3, 1, 1)
    again = network.conv(x, 16, (3, 3), pad=1)
    output = network.add(network.add(convolved, pooled), again)
    assert_checked(assert_computes(network, machine("base16"), output))


def test_writes_parts_of_one_tensor() -> None:
    network = network_for(machine("base16"), 3)
    a, b = network.input(1, 16, 5, 7), network.input(1, 16, 5, 7)
    output = network.conv(network.concat(a, b, a), 20, (3, 3), pad=1)
    for options in OPTIONS:
        assert_checked(assert_computes(network, machine("base16"), output, options=options))


def test_reads_a_constant_tensor() -> None:
    network = network_for(machine("base16"), 3)
    a, b = network.input(1, 20, 5, 7), network.input(1, 20, 5, 7)
    output = network.add(a, b)
    program = network.program(output)
    constant = replace(
        program,
        inputs=program.inputs[:1],
        buffers={name: buffer for name, buffer in program.buffers.items() if name != b},
        constants={b: network.values[b]},
        constant_types={b: INT8},
    )
    tiles = select_and_tile(constant, machine("base16"))
    np.testing.assert_array_equal(run(network, tiles)[output], network.values[output])


def test_multiplies_no_tile_of_zeros() -> None:
    """A channel each: of 4 × 4 tiles of channels only those on the diagonal are there."""
    network = network_for(machine("base16"), 3)
    output = network.conv(network.input(1, 64, 8, 8), 64, (3, 3), pad=1, groups=64)
    program = select_and_tile(network.program(output), machine("base16"))
    loaded = sum(b.size for b in program.buffers.values() if b.place == "wgt")
    assert loaded == 4 * 9 * machine("base16").array.rows


def test_loads_every_weight_once_when_the_image_is_on_chip() -> None:
    network = network_for(machine("base16"), 3)
    output = network.conv(network.input(1, 64, 8, 8), 64, (3, 3), pad=1)
    program = select_and_tile(network.program(output), machine("base16"))
    loaded = sum(b.size for b in program.buffers.values() if b.place == "wgt")
    assert loaded * machine("base16").array.cols == 64 * 64 * 9


def test_never_loads_the_same_tile_twice_in_a_row() -> None:
    network = network_for(machine("base16"), 3)
    output = network.conv(network.input(1, 48, 24, 24), 512, (3, 3), pad=1)
    program = select_and_tile(network.program(output), machine("base16"), TilingOptions(residency="none"))
    sources = [op.bases["d"].offset for op in program.operations if op.mnemonic == "load_act"]
    products = [op for op in program.operations if op.mnemonic == "mma"]
    assert 1 < len(sources) < len(products)
    assert all(before != after for before, after in zip(sources, sources[1:], strict=False))


def test_is_the_same_every_time() -> None:
    network, output = residual_network(machine("rect"))
    first = select_and_tile(network.program(output), machine("rect"))
    second = select_and_tile(network.program(output), machine("rect"))
    assert (first.operations, first.weights, first.buffers) == (second.operations, second.weights, second.buffers)


def test_layers_are_the_nests() -> None:
    network, output = residual_network(machine("base16"))
    program = select_and_tile(network.program(output), machine("base16"))
    assert [layer.name for layer in program.layers] == ["conv0", "conv1", "conv2", "pool3", "conv4"]
    assert program.layers[0].macs == 16 * 8 * 8 * 3 * 3 * 3
    assert {operation.layer for operation in program.operations} == set(range(5))


def test_refuses_a_result_that_two_loops_move() -> None:
    network = network_for(machine("base16"), 3)
    output = network.copy(network.input(1, 16, 4, 4))
    program = network.program(output)
    odd = Access(output, (axis(("n", 1)), axis(("o", 1)), axis(("y", 1), ("x", 1)), axis()))
    broken = replace(program, nests=(replace(program.nests[0], result=odd),))
    with pytest.raises(CompileError, match="must have four dimensions, one loop in each"):
        select_and_tile(broken, machine("base16"))
