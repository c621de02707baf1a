"""Fifo against a Python list, one cycle at a time."""

import random
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.rtl.fifo import FEWEST_IN_BLOCK, BlockFifo, Fifo, ShownFifo, queue


@pytest.mark.parametrize("kind", [Fifo, ShownFifo, BlockFifo])
@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("eagerness", [0.3, 0.9])
def test_is_a_list(kind: type[Fifo | BlockFifo], depth: int, eagerness: float) -> None:
    dut, held, seed = kind(8, depth), [], random.Random(f"{depth} {eagerness}")

    async def bench(ctx: Any) -> None:
        for _ in range(300):
            puts, takes, value = seed.random() < eagerness, seed.random() < 0.6, seed.randrange(256)
            ctx.set(dut.input.valid, puts)
            ctx.set(dut.input.payload, value)
            ctx.set(dut.output.ready, takes)
            assert ctx.get(dut.level) == len(held)
            assert ctx.get(dut.input.ready) == (len(held) < depth)
            assert ctx.get(dut.output.valid) == bool(held)
            if held:
                assert ctx.get(dut.output.payload) == held[0]
            accepts = puts and len(held) < depth
            if takes and held:
                held.pop(0)
            if accepts:
                held.append(value)
            await ctx.tick()

    simulate(dut, bench)


def test_is_in_a_block_when_it_is_long() -> None:
    assert isinstance(queue(8, FEWEST_IN_BLOCK - 1), Fifo)
    assert isinstance(queue(8, FEWEST_IN_BLOCK), BlockFifo)
