"""Arbiter against the rule in words: who always wins, and whose turn it is otherwise."""

import random
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.rtl.arbiter import Arbiter


@pytest.mark.parametrize(("count", "privileged"), [(1, 0), (1, 1), (2, 0), (3, 0), (4, 1), (5, 2), (3, 3)])
def test_grants_by_privilege_then_by_turn(count: int, privileged: int) -> None:
    dut, seed = Arbiter(count, privileged), random.Random(f"{count} {privileged}")
    last = count - 1  # after reset, the last requester counts as served, so the first is next

    async def bench(ctx: Any) -> None:
        nonlocal last
        for _ in range(200):
            asking = [n for n in range(count) if seed.random() < 0.5]
            ctx.set(dut.requests, sum(1 << n for n in asking))
            winner = None
            favoured = [n for n in asking if n < privileged]
            if favoured:
                winner = favoured[0]
            elif asking:
                sharing = [*range(last + 1, count), *range(privileged, last + 1)]
                winner = last = next(n for n in sharing if n in asking)
            assert ctx.get(dut.grants) == (0 if winner is None else 1 << winner)
            await ctx.tick()

    simulate(dut, bench)
