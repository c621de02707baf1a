"""What the test benches of the units share: running them, and streams as lists of payloads."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

Bench = Callable[[Any], Awaitable[None]]


MOST_CYCLES = 50_000


def simulate(dut: Any, *benches: Bench, background: Sequence[Bench] = ()) -> None:
    """Run the benches to their ends, on a clock that is there also for a unit without registers.

    A bench that has not ended after MOST_CYCLES fails.
    """
    m = Module()
    m.submodules.dut = dut
    m.d.sync += Signal(name="ticks").eq(1)
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.add_testbench(_deadline, background=True)
    simulator.run()


async def _deadline(ctx: Any) -> None:
    for _ in range(MOST_CYCLES):
        await ctx.tick()
    raise AssertionError(f"a test bench has not ended after {MOST_CYCLES} cycles")


async def stream_put(ctx: Any, stream: Any, payloads: Sequence[Any], pause: float = 0, seed: int = 0) -> None:
    """Send payloads in order, pausing before each with a probability for a cycle."""
    stalls = random.Random(seed)
    for payload in payloads:
        while stalls.random() < pause:
            ctx.set(stream.valid, 0)
            await ctx.tick()
        ctx.set(stream.payload, payload)
        ctx.set(stream.valid, 1)
        is_taken = False
        while not is_taken:
            *_, is_taken = await ctx.tick().sample(stream.ready)
    ctx.set(stream.valid, 0)


async def stream_get(ctx: Any, stream: Any, count: int, pause: float = 0, seed: int = 0) -> list[Any]:
    """Receive so many payloads."""
    stalls, payloads = random.Random(seed), []
    for _ in range(count):
        ctx.set(stream.ready, 0)
        while stalls.random() < pause:
            await ctx.tick()
        ctx.set(stream.ready, 1)
        is_given = False
        while not is_given:
            *_, is_given, payload = await ctx.tick().sample(stream.valid, stream.payload)
        payloads.append(payload)
    ctx.set(stream.ready, 0)
    return payloads
