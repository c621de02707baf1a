"""Fifo against a Python list, one cycle at a time."""

import random
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.rtl.fifo import Fifo


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("eagerness", [0.3, 0.9])
def test_is_a_list(depth: int, eagerness: float) -> None:
    dut, held, seed = Fifo(8, depth), [], random.Random(f"{depth} {eagerness}")

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
