"""Room for tiles: what is missing where no tile fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numpy.random import default_rng

from tests.compiler.machines import machine
from tests.compiler.models import conv_model
from tests.compiler.nests import network_for, select_and_tile
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine


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


def test_what_has_to_lie_in_one_bank_takes_a_memory_of_larger_banks() -> None:
    """A window of 5 × 5 needs 26 words; each of the four banks of 1 KiB has 16, and of 2 KiB 32."""
    model = conv_model(default_rng(0), channels_in=16, channels_out=16, size=6, kernel=5, pads=[2] * 4, group=16)
    small, enough = (load_machine("dw16", [f"memories.act.kib={kib}"]) for kib in (1, 2))
    with pytest.raises(CompileError, match=r"needs 416 bytes of act, 256 are free; try --set memories.act.kib=2$"):
        compile_model(model, small, Options(effort=0))
    assert compile_model(model, enough, Options(effort=0))
