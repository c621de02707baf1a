"""Tiles: they fit, they are as large as they may be, and the message says what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tilewright.compiler.emission.lifetimes import buffer_lifetimes, live_lower_bound
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tiling.lower_tiles import select_and_tile
from tilewright.compiler.tiling.tiling import TilingOptions, longest_buffer
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import Memory, integer_element


def test_names_layer_memory_and_bytes_when_nothing_fits() -> None:
    memories = dict(machine("base16").memories)
    memories["wgt"] = replace(memories["wgt"], depth=8, banks=1)
    starved = replace(machine("base16"), memories=memories)
    network = network_for(starved, 0)
    output = network.conv(network.input(1, 16, 4, 4), 16, (1, 1))
    with pytest.raises(CompileError) as failure:
        select_and_tile(network.program(output), starved)
    assert str(failure.value) == (
        "conv0 (ByHand): its smallest tile needs 256 bytes of wgt, 128 are free; try --set memories.wgt.kib=1"
    )


@pytest.mark.parametrize("depth", [96, 128, 200, 256, 400, 512, 800])
def test_never_overlaps_more_than_fits(depth: int) -> None:
    memories = dict(machine("base16").memories)
    memories["act"] = replace(memories["act"], depth=depth, banks=1)
    of = replace(machine("base16"), memories=memories)
    network = network_for(of, 0)
    output = network.rescale(network.input(1, 16, 13, 16))
    program = select_and_tile(network.program(output), of, TilingOptions(residency="none"))
    in_act = [life for life in buffer_lifetimes(program) if life.buffer.place == "act"]
    assert live_lower_bound(in_act) <= depth


def test_a_smaller_budget_makes_smaller_tiles() -> None:
    of = machine("tiny8")
    network = network_for(of, 0)
    output = network.conv(network.input(1, 64, 40, 40), 64, (3, 3), pad=1)

    def largest(fraction: float) -> int:
        program = select_and_tile(network.program(output), of, TilingOptions(fraction, "none"))
        return max(b.size for b in program.buffers.values() if b.place == "act")

    assert largest(0.02) <= of.memories["act"].depth * 0.04
    assert largest(0.02) < largest(0.5)


def memory(depth: int, banks: int) -> Memory:
    return Memory("m", integer_element(IntegerType(8, True)), 4, depth, banks)


def test_groups_that_divide_a_bank_may_fill_the_memory() -> None:
    assert longest_buffer(memory(64, 4), 4) == 64


def test_groups_that_do_not_divide_a_bank_stay_within_one() -> None:
    # A bank of 15 words can begin one or two words before a multiple of 3, so 13 words are sure: 12 in whole groups.
    assert longest_buffer(memory(30, 2), 3) == 30
    assert longest_buffer(memory(32, 2), 3) == 12
