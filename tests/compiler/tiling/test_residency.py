"""What stays on chip: everything where it fits, with the padding its readers want, and the largest leaves first."""

from __future__ import annotations

from tests.compiler.machines import machine
from tests.compiler.nests import NetworkByHand, network_for, select_and_tile
from tilewright.compiler.tiling.layout import Border
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.residency import everything_on_chip, evict_largest, lives, wanted_border


def small_network() -> tuple[NetworkByHand, str]:
    network = network_for(machine("base16"), 0)
    a = network.conv(network.input(1, 3, 8, 8), 16, (3, 3), pad=1)
    b = network.conv(a, 16, (3, 3), pad=1)
    return network, network.add(b, a)


def test_a_small_network_never_leaves_the_chip() -> None:
    network, output = small_network()
    program = select_and_tile(network.program(output), machine("base16"))
    assert not [buffer for buffer in program.buffers.values() if buffer.place == "workspace"]


def test_no_tensor_stays_when_none_may() -> None:
    network, output = small_network()
    program = select_and_tile(network.program(output), machine("base16"), TilingOptions(residency="none"))
    assert sorted(b.name for b in program.buffers.values() if b.place == "workspace") == [
        "conv0.workspace",
        "conv1.workspace",
    ]


def test_a_tensor_lives_from_its_first_to_its_last_use() -> None:
    network, output = small_network()
    assert lives(network.program(output)) == {
        "in0": range(0, 1), "conv0": range(0, 3), "conv1": range(1, 3), "add2": range(2, 3),
    }  # fmt: skip


def test_what_a_nest_reads_lives_as_long_as_the_nest_that_it_is_computed_in() -> None:
    """The first convolution within the second: its input is read, and its result made, where the second one is."""
    network, output = small_network()
    assert lives(network.program(output), within={0: 1}) == {
        "in0": range(1, 2), "conv0": range(1, 3), "conv1": range(1, 3), "add2": range(2, 3),
    }  # fmt: skip


def test_padding_is_what_the_widest_reader_sees() -> None:
    network, output = small_network()
    nest = network.program(output).nests[1]
    assert wanted_border(nest.reads["x"], nest, (1, 16, 8, 8)) == Border(1, 1, 1, 1)


def test_there_is_no_padding_where_a_reader_sees_none() -> None:
    network, output = small_network()
    add = network.program(output).nests[2]
    assert {wanted_border(read, add, (1, 16, 8, 8)) for read in add.reads.values()} == {Border(0, 0, 0, 0)}


def test_the_largest_tensor_leaves_first() -> None:
    network, output = small_network()
    program = network.program(output)
    full = everything_on_chip(program, machine("base16"), 1)
    smaller = evict_largest(full, 2, lives(program))
    assert smaller is not None
    assert full.layouts.keys() - smaller.layouts.keys() == {"conv0"}  # the only one with padding of those alive
    assert [a - b for a, b in zip(full.words, smaller.words, strict=True)] == [full.layouts["conv0"].words] * 3
