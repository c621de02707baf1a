"""TableMemory against a list of words: every lane reads where it likes, and writers take turns."""

import random
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import Memory, integer_element
from tilewright.rtl.memory import Requester
from tilewright.rtl.table_memory import TableMemory


@pytest.mark.parametrize(
    ("bits", "width", "depth", "lanes"), [(8, 4, 64, 4), (16, 3, 37, 3), (8, 1, 5, 1), (8, 6, 9, 2)]
)
def test_gives_each_lane_the_elements_at_its_own_address(bits: int, width: int, depth: int, lanes: int) -> None:
    memory = Memory("t", integer_element(IntegerType(bits, False)), width, depth, 1)
    table, seed = TableMemory(memory, [Requester("vec"), Requester("load")], lanes), random.Random(bits)
    words = [[0] * width for _ in range(depth)]

    async def bench(ctx: Any) -> None:
        last = 1  # of two that ask, the one that was not granted last
        for _ in range(400):
            halt = seed.random() < 0.1
            asks = [seed.random() < 0.5 for _ in table.writes]
            addresses = [seed.randrange(depth) for _ in table.writes]
            data = [[seed.getrandbits(bits) for _ in range(width)] for _ in table.writes]
            for n, writer in enumerate(table.writes):
                port = getattr(table, f"write_{writer.name}")
                ctx.set(port.valid, asks[n])
                ctx.set(port.address, addresses[n])
                ctx.set(port.data, packed(data[n], bits))
            looked_up = [seed.randrange(depth) for _ in range(lanes)]
            ctx.set(table.halt, halt)
            ctx.set(table.lookup.address, packed(looked_up, memory.address_bits))
            expected = packed([words[looked_up[element % lanes]][element] for element in range(width)], bits)
            winner = None if halt or not any(asks) else 1 - last if all(asks) else asks.index(True)
            granted = [
                n for n, writer in enumerate(table.writes) if ctx.get(getattr(table, f"write_{writer.name}").granted)
            ]
            assert granted == ([] if winner is None else [winner])
            if winner is not None:
                last = winner
                words[addresses[winner]] = data[winner]
            await ctx.tick()
            assert ctx.get(table.lookup.data) == expected

    simulate(table, bench)


def packed(values: list[int], bits: int) -> int:
    return sum(value << position * bits for position, value in enumerate(values))
