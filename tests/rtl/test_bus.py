"""ReadChannel: fetch's bursts before load's, one at a time on the bus, each client's beats to itself."""

from typing import Any

from tests.rtl.benches import simulate
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import FETCH_PORT
from tilewright.rtl.bus import ReadChannel, axi_lite_signature

MACHINE = load_machine("tiny8")


def ask(ctx: Any, dut: ReadChannel, client: str, address: int, beats: int = 1) -> None:
    request = getattr(dut, f"{client}_request")
    ctx.set(request.valid, 1)
    ctx.set(request.payload, {"address": address, "last_beat": beats - 1})


async def open_burst(ctx: Any, dut: ReadChannel) -> None:
    """Have a burst accepted, so that the bus owes beats; in the cycle afterwards none is asked for."""
    ask(ctx, dut, "dma0", 0x40, 16)
    await ctx.tick()
    ctx.set(dut.dma0_request.valid, 0)
    ctx.set(dut.arready, 1)
    await ctx.tick()


def test_axi_lite_has_the_widths_of_the_specification() -> None:
    """AMBA AXI4-Lite with 32-bit data: a bit for each handshake, two for a response, a strobe for each byte."""
    widths = {name: member.shape for name, member in axi_lite_signature(12).members.items()}
    handshakes = {f"{channel}{end}": 1 for channel in ("aw", "w", "b", "ar", "r") for end in ("valid", "ready")}
    addresses = {"awaddr": 12, "araddr": 12, "awprot": 3, "arprot": 3}
    data = {"wdata": 32, "wstrb": 4, "rdata": 32, "bresp": 2, "rresp": 2}
    assert widths == handshakes | addresses | data


def test_fetch_goes_first() -> None:
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        ask(ctx, dut, "fetch", 0x1000, 16)
        ask(ctx, dut, "dma0", 0x2008, 3)
        assert (ctx.get(dut.fetch_request.ready), ctx.get(dut.dma0_request.ready), ctx.get(dut.arvalid)) == (1, 0, 0)
        await ctx.tick()
        ctx.set(dut.fetch_request.valid, 0)
        assert (ctx.get(dut.arvalid), ctx.get(dut.araddr), ctx.get(dut.arlen), ctx.get(dut.arid)) == (1, 0x1000, 15, 0)
        assert ctx.get(dut.dma0_request.ready) == 0  # the register is full and its content not accepted
        ctx.set(dut.arready, 1)
        assert ctx.get(dut.dma0_request.ready) == 1
        await ctx.tick()
        ctx.set(dut.dma0_request.valid, 0)
        assert (ctx.get(dut.araddr), ctx.get(dut.arlen), ctx.get(dut.arid)) == (0x2008, 2, 1)

    simulate(dut, bench)


def test_a_request_waits_on_the_bus_until_it_is_accepted() -> None:
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        ask(ctx, dut, "dma0", 0x40)
        await ctx.tick()
        ask(ctx, dut, "fetch", 0x1000)
        for _ in range(5):
            assert (ctx.get(dut.arvalid), ctx.get(dut.araddr)) == (1, 0x40)
            await ctx.tick()

    simulate(dut, bench)


def test_each_client_gets_its_beats() -> None:
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        await open_burst(ctx, dut)
        ctx.set(dut.rvalid, 1)
        for owner, data, response in ((0, 11, 0), (1, 22, 0), (1, 33, 2), (0, 44, 3)):
            ctx.set(dut.rid, owner)
            ctx.set(dut.rdata, data)
            ctx.set(dut.rresp, response)
            beats = [dut.fetch_beat, dut.dma0_beat]
            assert [ctx.get(beat.valid) for beat in beats] == [owner == 0, owner == 1]
            payload = ctx.get(beats[owner].payload)
            assert (payload.data, payload.error) == (data, response >= 2)
            for is_ready in (0, 1):
                ctx.set(dut.dma0_beat.ready, is_ready)
                assert ctx.get(dut.rready) == (owner == 0 or is_ready)
            await ctx.tick()

    simulate(dut, bench)


def test_is_idle_when_every_burst_has_ended() -> None:
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        assert ctx.get(dut.is_idle) == 1
        ask(ctx, dut, "dma0", 0x40, 2)
        await ctx.tick()
        ctx.set(dut.dma0_request.valid, 0)
        assert ctx.get(dut.is_idle) == 0
        ctx.set(dut.arready, 1)
        await ctx.tick()
        ctx.set(dut.rid, 1)
        for is_last, is_ready in ((0, 1), (1, 0), (1, 1)):
            assert ctx.get(dut.is_idle) == 0
            ctx.set(dut.rvalid, 1)
            ctx.set(dut.rlast, is_last)
            ctx.set(dut.dma0_beat.ready, is_ready)
            await ctx.tick()
        ctx.set(dut.rvalid, 0)
        assert ctx.get(dut.is_idle) == 1

    simulate(dut, bench)


def test_a_beat_that_nobody_asked_for_is_given_to_nobody() -> None:
    """Such as one of a burst from before a reset: it leaves the bus, though load is not ready for any."""
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.rvalid, 1)
        ctx.set(dut.rlast, 1)
        for owner in (0, 1):
            ctx.set(dut.rid, owner)
            assert (ctx.get(dut.fetch_beat.valid), ctx.get(dut.dma0_beat.valid), ctx.get(dut.rready)) == (0, 0, 1)
            await ctx.tick()
            assert ctx.get(dut.is_idle) == 1

    simulate(dut, bench)


def test_is_owed_while_the_bus_does_nothing() -> None:
    dut = ReadChannel(MACHINE, FETCH_PORT)

    async def bench(ctx: Any) -> None:
        assert ctx.get(dut.is_owed) == 0
        ask(ctx, dut, "dma0", 0x40)
        await ctx.tick()
        ctx.set(dut.dma0_request.valid, 0)
        assert ctx.get(dut.is_owed) == 1  # it does not take the address
        ctx.set(dut.arready, 1)
        assert ctx.get(dut.is_owed) == 0
        await ctx.tick()
        assert ctx.get(dut.is_owed) == 1  # it gives no beat
        ctx.set(dut.rid, 1)
        ctx.set(dut.rvalid, 1)
        assert ctx.get(dut.is_owed) == 0  # the beat waits for load
        ctx.set(dut.rlast, 1)
        ctx.set(dut.dma0_beat.ready, 1)
        await ctx.tick()
        ctx.set(dut.rvalid, 0)
        assert ctx.get(dut.is_owed) == 0

    simulate(dut, bench)
