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
            ctx.set(dut.burst.last_byte, (first + size - 1) % bus_bytes)
            ctx.set(dut.burst.last_beat, (first + size - 1) // bus_bytes)
            ctx.set(dut.step, 1)
            beats = [list(group) for _, group in groupby(range(first, first + size), lambda byte: byte // bus_bytes)]
            for number, beat in enumerate(beats):
                came = ctx.get(dut.first_byte), ctx.get(dut.bytes), ctx.get(dut.is_last)
                assert came == (beat[0] % bus_bytes, len(beat), number == len(beats) - 1)
                await ctx.tick()

    simulate(dut, bench)


SIZES = [(8, 1, 1), (8, 1, 8), (8, 8, 1), (16, 2, 4), (1, 1, 1)]


@pytest.mark.parametrize(("beat_bytes", "put_step", "take_step"), SIZES)
def test_window_is_a_list_of_bytes(beat_bytes: int, put_step: int, take_step: int) -> None:
    dut, held, seed = Window(beat_bytes, put_step, take_step), [], random.Random(9)

    async def bench(ctx: Any) -> None:
        for _ in range(600):
            take = seed.randrange(0, min(beat_bytes, len(held)) + 1, take_step)
            ctx.set(dut.takes, take > 0)
            ctx.set(dut.take, take or seed.randrange(0, beat_bytes + 1, take_step))
            room = dut.capacity - len(held) + take
            assert ctx.get(dut.count) == len(held)
            first = seed.randrange(0, beat_bytes, take_step)
            ctx.set(dut.data_first, first)
            shown = ctx.get(dut.data).to_bytes(beat_bytes, "little")[first:][: len(held)]
            assert list(shown) == held[: beat_bytes - first]
            may_put = seed.randrange(0, beat_bytes + 1, put_step)
            first = seed.randrange(0, beat_bytes - may_put + 1, put_step) % beat_bytes
            ctx.set(dut.put, may_put)
            assert ctx.get(dut.fits) == (may_put <= room)
            put = may_put if may_put <= room and seed.random() < 0.8 else 0
            beat = [seed.randrange(256) for _ in range(beat_bytes)]
            ctx.set(dut.puts, put > 0)
            ctx.set(dut.put_first, first)
            ctx.set(dut.put_data, int.from_bytes(bytes(beat), "little"))
            del held[:take]
            held.extend(beat[first : first + put])
            await ctx.tick()

    simulate(dut, bench)
