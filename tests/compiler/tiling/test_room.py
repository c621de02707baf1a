"""Room for tiles: what is missing where no tile fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for, select_and_tile
from tilewright.compiler.errors import CompileError


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
