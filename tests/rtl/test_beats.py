"""Beats and windows: which bytes of a burst each beat has, and bytes that change from one width to another."""

import random
from itertools import groupby
from typing import Any

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


def test_window_is_a_list_of_bytes() -> None:
    capacity = 11
    dut, held, seed = Window(capacity), [], random.Random(9)

    async def bench(ctx: Any) -> None:
        for _ in range(300):
            take = seed.randint(0, len(held))
            ctx.set(dut.take, take)
            room = capacity - len(held) + take
            assert (ctx.get(dut.count), ctx.get(dut.room)) == (len(held), room)
            assert ctx.get(dut.data) == int.from_bytes(bytes(held), "little")
            put = [seed.randrange(256) for _ in range(seed.randint(0, room))]
            ctx.set(dut.put, len(put))
            ctx.set(dut.put_data, int.from_bytes(bytes(put), "little"))
            del held[:take]
            held.extend(put)
            await ctx.tick()

    simulate(dut, bench)
