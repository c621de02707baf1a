"""Fetch against a bus that answers after a while: all beats once, in order, and never more than the buffer holds."""

import random
from collections import deque
from typing import Any

import pytest

from tests.rtl.benches import simulate, stream_get
from tilewright.isa.files.loader import load_machine
from tilewright.isa.timing import BURST_BEATS
from tilewright.rtl.fetch import Fetch

BASE = 0x3000


def beat_at(address: int, bus_bytes: int) -> int:
    """What the test's memory holds: the beat's number."""
    return (address - BASE) // bus_bytes


async def begin(ctx: Any, dut: Fetch, beats: int, missing_bytes: int = 0) -> None:
    """Begin the run of a program, as the machine does: with the end of a halt. Its last beat misses some bytes."""
    ctx.set(dut.base, BASE)
    ctx.set(dut.limit, beats * dut.bus_bytes - missing_bytes)
    ctx.set(dut.halt, 1)
    await ctx.tick()
    ctx.set(dut.halt, 0)


def answer(dut: Fetch, latency: int, seed: random.Random, requests: list[tuple[int, int]]) -> Any:
    """A bus that accepts now and then and answers a beat a cycle; it notes (address, beats) of each request."""

    async def bench(ctx: Any) -> None:
        pending: deque[tuple[int, int]] = deque()
        cycle = 0
        while True:
            ctx.set(dut.request.ready, seed.random() < 0.7)
            ctx.set(dut.beat.valid, bool(pending) and pending[0][0] <= cycle)
            if pending and pending[0][0] <= cycle:
                ctx.set(dut.beat.payload.data, pending.popleft()[1])
            if ctx.get(dut.request.valid) and ctx.get(dut.request.ready):
                address, beats = ctx.get(dut.request.payload.address), ctx.get(dut.request.payload.last_beat) + 1
                requests.append((address, beats))
                pending += [(cycle + latency, beat_at(address, dut.bus_bytes) + n) for n in range(beats)]
            await ctx.tick()
            cycle += 1

    return bench


@pytest.mark.parametrize("beats", [1, 15, 16, 17, 150])
@pytest.mark.parametrize("pause", [0, 0.7])
def test_reads_the_program_once(beats: int, pause: float) -> None:
    machine = load_machine("tiny8")
    dut, seed, requests = Fetch(machine), random.Random(f"{beats} {pause}"), []

    async def bench(ctx: Any) -> None:
        await begin(ctx, dut, beats)
        assert ctx.get(dut.is_finished) == 0
        payloads = await stream_get(ctx, dut.output, beats, pause)
        assert [payload.data for payload in payloads] == list(range(beats))
        assert ctx.get(dut.is_finished) == 1

    simulate(dut, bench, background=[answer(dut, 9, seed, requests)])
    assert [size for _, size in requests] == [min(BURST_BEATS, beats - n) for n in range(0, beats, BURST_BEATS)]


@pytest.mark.parametrize("bus_bytes", [1, 2, 4, 8, 16, 64])
def test_tells_how_many_words_of_the_last_beat_are_the_programs(bus_bytes: int) -> None:
    machine = load_machine("tiny8", [f"dram.bus_bytes={bus_bytes}"])
    dut, beats, missing = Fetch(machine), 19, bus_bytes // 2 // 4 * 4
    unit = min(4, bus_bytes)

    async def bench(ctx: Any) -> None:
        await begin(ctx, dut, beats, missing)
        payloads = await stream_get(ctx, dut.output, beats, pause=0.3)
        assert [payload.data for payload in payloads] == [beat % 256**bus_bytes for beat in range(beats)]
        assert [payload.units * unit for payload in payloads] == [bus_bytes] * (beats - 1) + [bus_bytes - missing]
        assert ctx.get(dut.is_finished) == 1

    simulate(dut, bench, background=[answer(dut, 9, random.Random(bus_bytes), [])])


def test_asks_no_more_than_its_buffer_holds() -> None:
    machine = load_machine("tiny8")
    dut, requests = Fetch(machine), []

    async def bench(ctx: Any) -> None:
        await begin(ctx, dut, 1000)
        await ctx.tick().repeat(300)
        assert sum(size for _, size in requests) == machine.fetch_beats
        await stream_get(ctx, dut.output, BURST_BEATS - 1)
        await ctx.tick().repeat(50)
        assert sum(size for _, size in requests) == machine.fetch_beats
        await stream_get(ctx, dut.output, 1)
        await ctx.tick().repeat(50)
        assert sum(size for _, size in requests) == machine.fetch_beats + BURST_BEATS

    simulate(dut, bench, background=[answer(dut, 3, random.Random(1), requests)])


@pytest.mark.parametrize("first", [0, 1, 20, 63])
def test_tells_of_the_first_beat_with_an_error(first: int) -> None:
    machine, beats = load_machine("tiny8"), 64
    dut, requests = Fetch(machine), []

    async def spoil(ctx: Any) -> None:
        """Two beats have an error: this one and the one after the next."""
        came = 0
        while True:
            ctx.set(dut.beat.payload.error, came in (first, first + 2))
            *_, comes = await ctx.tick().sample(dut.beat.valid)
            came += comes

    async def bench(ctx: Any) -> None:
        await begin(ctx, dut, beats)
        payloads = await stream_get(ctx, dut.output, first + 1, pause=0.6)
        assert [payload.error for payload in payloads] == [0] * first + [1]

    simulate(dut, bench, background=[answer(dut, 9, random.Random(first), requests), spoil])


def test_asks_for_nothing_while_halted() -> None:
    dut, requests = Fetch(load_machine("tiny8")), []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.halt, 1)
        ctx.set(dut.limit, 1000 * dut.bus_bytes)
        await ctx.tick().repeat(20)
        assert requests == []

    simulate(dut, bench, background=[answer(dut, 3, random.Random(1), requests)])
