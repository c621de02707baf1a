"""Addresses: buffers that live at the same time are apart, and what does not fit is refused with the figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.emission.lives import overlaps
from tests.compiler.tile_programs import TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.lifetimes import buffer_lifetimes
from tilewright.compiler.errors import DoesNotFit
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("seed", range(4))
def test_keeps_living_buffers_apart(machine: str, seed: int) -> None:
    program = random_tiles(load_machine(machine), seed)
    placement = allocate(program).placement
    lifetimes = buffer_lifetimes(program)
    for place in ("act", "wgt", "acc", "par", "workspace"):
        here = [item for item in lifetimes if item.buffer.place == place]
        assert overlaps(here, dict(placement.addresses)) == []


def test_refuses_what_is_too_large_with_the_figures() -> None:
    machine = load_machine("base16", ["memories.wgt.kib=1"])
    builder = TileBuilder(machine, np.random.default_rng(0))
    depth = machine.memories["wgt"].depth
    first, second = builder.buffer("wgt", depth), builder.buffer("wgt", machine.array.rows)
    for buffer in (first, second, first):
        builder.run("load_wgt", {}, d="weights", y=buffer)
    with pytest.raises(DoesNotFit) as refused:
        allocate(builder.program())
    assert (refused.value.memory, refused.value.needed, refused.value.available) == ("wgt", depth + 16, depth)
    assert str(refused.value) == f"layer0: wgt needs {depth + 16} words at the same time, the machine has {depth}"


def test_fixed_buffers_keep_their_offset() -> None:
    program = random_tiles(load_machine("tiny8"), 1)
    moved = replace(program.buffers["inputs"], offset=0)
    assert allocate(program).placement.addresses["inputs"] == moved.offset


def test_is_deterministic() -> None:
    machine = load_machine("base16")
    assert allocate(random_tiles(machine, 3)) == allocate(random_tiles(machine, 3))
