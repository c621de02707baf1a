"""Room for tiles: buffers that are sure to find a place, and what is missing where no tile fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for, select_and_tile
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tiling.room import longest_buffer
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


def memory(depth: int, banks: int) -> Memory:
    return Memory("m", integer_element(IntegerType(8, True)), 4, depth, banks)


def test_groups_that_divide_a_bank_may_fill_the_memory() -> None:
    assert longest_buffer(memory(64, 4), 4) == 64


def test_groups_that_do_not_divide_a_bank_stay_within_one() -> None:
    # A bank of 15 words can begin one or two words before a multiple of 3, so 13 words are sure: 12 in whole groups.
    assert longest_buffer(memory(30, 2), 3) == 30
    assert longest_buffer(memory(32, 2), 3) == 12
