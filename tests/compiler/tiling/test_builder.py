"""What a tile program is built from: constants lie apart in DRAM, and the same content lies there once."""

from __future__ import annotations

import pytest

from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.isa.files.loader import load_machine


@pytest.fixture
def builder() -> TileBuilder:
    machine = load_machine("base16", ["dram.bus_bytes=16"])
    return TileBuilder(machine, find_transfers(machine))


def test_constants_begin_at_bursts_and_lie_apart(builder: TileBuilder) -> None:
    """A burst is 16 beats of 16 bytes."""
    names = [builder.constant("a", b"x" * 300), builder.constant("b", b"y" * 7), builder.constant("c", b"x")]
    assert [builder.buffers[name].offset for name in names] == [0, 512, 768]
    assert builder.weights == b"x" * 300 + bytes(212) + b"y" * 7 + bytes(249) + b"x"


def test_the_same_content_lies_in_dram_once(builder: TileBuilder) -> None:
    first, other, again = (builder.constant("step", content) for content in (b"one", b"two", b"one"))
    assert len({first, other, again}) == 3
    assert [builder.buffers[name].offset for name in (first, other, again)] == [0, 256, 0]
    assert builder.weights == b"one" + bytes(253) + b"two"
