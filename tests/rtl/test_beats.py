"""Beats and windows: which bytes of a burst each beat has, and bytes that change from one width to another."""

import random
from itertools import groupby
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tilewright.rtl.beats import BeatCursor, Window


def test_cursor_gives_the_bytes_of_each_beat() -> None:
    bus_bytes = 8
    dut, seed = BeatCursor(bus_bytes), random.Random(5)

    async def bench(ctx: Any) -> None:
        for _ in range(30):
            first, size = seed.randrange(bus_bytes), seed.randint(1, 60)
            ctx.set(dut.burst.first_byte, first)
            ctx.set(dut.burst.bytes, size)
            ctx.set(dut.step, 1)
            beats = [list(group) for _, group in groupby(range(first, first + size), lambda byte: byte // bus_bytes)]
            for number, beat in enumerate(beats):
                came = ctx.get(dut.first_byte), ctx.get(dut.bytes), ctx.get(dut.is_last)
                assert came == (beat[0] % bus_bytes, len(beat), number == len(beats) - 1)
                await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize(("most_put", "takes"), [(None, None), (4, None), (11, (3, 8)), (5, (5, 2))])
def test_window_is_a_list_of_bytes(most_put: int | None, takes: tuple[int, ...] | None) -> None:
    capacity = 11
    dut, held, seed = Window(capacity, most_put, takes), [], random.Random(9)

    async def bench(ctx: Any) -> None:
        for _ in range(300):
            may_take = range(len(held) + 1) if takes is None else (0, *(n for n in takes if n <= len(held)))
            take = seed.choice(may_take)
            ctx.set(dut.take, take)
            room = capacity - len(held) + take
            assert (ctx.get(dut.count), ctx.get(dut.room)) == (len(held), room)
            assert ctx.get(dut.data) == int.from_bytes(bytes(held), "little")
            put = [seed.randrange(256) for _ in range(seed.randint(0, min(room, most_put or room)))]
            ctx.set(dut.put, len(put))
            ctx.set(dut.put_data, int.from_bytes(bytes(put), "little"))
            del held[:take]
            held.extend(put)
            await ctx.tick()

    simulate(dut, bench)
