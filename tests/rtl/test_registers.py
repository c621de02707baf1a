"""Registers over AXI4-Lite: what the host writes and reads, and what the map promises."""

import random
from typing import Any

from tests.rtl.benches import simulate
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.rtl.registers import (
    BITS,
    ID,
    WATCHDOG_CYCLES,
    WORD_BYTES,
    Registers,
    bits_of,
    isa_hash_word,
    register_map,
    register_map_markdown,
)

MACHINE = load_machine("tiny8", ["counters=all"])
OFFSETS = {register.name: register.offset for register in register_map(MACHINE)}


async def write(ctx: Any, bus: Any, offset: int, word: int, strobes: int = 0b1111) -> None:
    ctx.set(bus.awaddr, offset)
    ctx.set(bus.wdata, word)
    ctx.set(bus.wstrb, strobes)
    ctx.set(bus.awvalid, 1)
    ctx.set(bus.wvalid, 1)
    await ctx.tick().until(bus.awready & bus.wready)
    ctx.set(bus.awvalid, 0)
    ctx.set(bus.wvalid, 0)
    ctx.set(bus.bready, 1)
    await ctx.tick().until(bus.bvalid)
    ctx.set(bus.bready, 0)


async def read(ctx: Any, bus: Any, offset: int) -> int:
    ctx.set(bus.araddr, offset)
    ctx.set(bus.arvalid, 1)
    await ctx.tick().until(bus.arready)
    ctx.set(bus.arvalid, 0)
    ctx.set(bus.rready, 1)
    (word,) = await ctx.tick().sample(bus.rdata).until(bus.rvalid)
    ctx.set(bus.rready, 0)
    return word


def test_regions_hold_what_was_written() -> None:
    dut, seed = Registers(MACHINE), random.Random(1)
    values = {region: (seed.getrandbits(50) << 12, seed.getrandbits(32)) for region in REGIONS}

    async def bench(ctx: Any) -> None:
        for region, (base, limit) in values.items():
            for name, value in (("base", base), ("limit", limit)):
                for part in range(2):
                    offset = OFFSETS[f"{region}.{name}"] + part * WORD_BYTES
                    await write(ctx, dut.s_axi, offset, value >> 32 * part & 0xFFFFFFFF)
        for region, (base, limit) in values.items():
            held = ctx.get(dut.regions)[region]
            assert (held.base, held.limit) == (base, limit)
            assert await read(ctx, dut.s_axi, OFFSETS[f"{region}.base"] + WORD_BYTES) == base >> 32
            assert await read(ctx, dut.s_axi, OFFSETS[f"{region}.limit"]) == limit

    simulate(dut, bench)


def test_a_base_is_aligned() -> None:
    dut = Registers(MACHINE)

    async def bench(ctx: Any) -> None:
        await write(ctx, dut.s_axi, OFFSETS["inputs.base"], 0x12345FFF)
        assert await read(ctx, dut.s_axi, OFFSETS["inputs.base"]) == 0x12345000

    simulate(dut, bench)


def test_strobes_choose_bytes() -> None:
    dut = Registers(MACHINE)

    async def bench(ctx: Any) -> None:
        await write(ctx, dut.s_axi, OFFSETS["inputs.limit"], 0x11FF33FF)
        await write(ctx, dut.s_axi, OFFSETS["inputs.limit"], 0xAA00CC00, strobes=0b0101)
        assert await read(ctx, dut.s_axi, OFFSETS["inputs.limit"]) == 0x11003300

    simulate(dut, bench)


def test_a_busy_machine_takes_no_start_and_keeps_its_regions() -> None:
    dut, starts = Registers(MACHINE), []

    async def watch(ctx: Any) -> None:
        while True:
            *_, is_start = await ctx.tick().sample(dut.start)
            starts.append(is_start)

    async def bench(ctx: Any) -> None:
        await write(ctx, dut.s_axi, OFFSETS["weights.limit"], 5)
        await write(ctx, dut.s_axi, OFFSETS["control"], 0)
        assert sum(starts) == 0
        await write(ctx, dut.s_axi, OFFSETS["control"], 1)
        await ctx.tick()
        assert sum(starts) == 1
        ctx.set(dut.is_busy, 1)
        await write(ctx, dut.s_axi, OFFSETS["control"], 1)
        await write(ctx, dut.s_axi, OFFSETS["weights.limit"], 6)
        await ctx.tick()
        assert sum(starts) == 1
        assert await read(ctx, dut.s_axi, OFFSETS["weights.limit"]) == 5

    simulate(dut, bench, background=[watch])


def test_shows_identity_status_fault_and_counters() -> None:
    dut = Registers(MACHINE)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.is_busy, 1)
        ctx.set(dut.has_fault, 1)
        ctx.set(dut.fault, {"code": 3, "instruction": 77, "address": -2})
        ctx.set(dut.counters["vec.wait.store"], 0x12_3456_789A)
        expected = {
            "id": ID,
            "isa_hash": isa_hash_word(MACHINE),
            "control": 0,
            "status": 0b101,
            "fault_code": 3,
            "fault_instruction": 77,
            "fault_address": 0xFFFFFFFE,
            "counter.cycles": 0,
            "counter.vec.wait.store": 0x3456789A,
        }
        came = {name: await read(ctx, dut.s_axi, OFFSETS[name]) for name in expected}
        assert came == expected
        assert await read(ctx, dut.s_axi, OFFSETS["counter.vec.wait.store"] + WORD_BYTES) == 0x12
        assert await read(ctx, dut.s_axi, OFFSETS["fault_address"] + WORD_BYTES) == 0xFFFFFFFF

    simulate(dut, bench)


def test_an_offset_without_a_register_reads_as_zero() -> None:
    dut = Registers(MACHINE)
    last = register_map(MACHINE)[-1]

    async def bench(ctx: Any) -> None:
        assert await read(ctx, dut.s_axi, last.offset + last.words * WORD_BYTES) == 0

    simulate(dut, bench)


def test_the_map_has_no_gaps_and_no_overlaps() -> None:
    offset = 0
    for register in register_map(MACHINE):
        assert register.offset == offset
        offset += register.words * WORD_BYTES


def test_the_manual_lists_every_register() -> None:
    text = register_map_markdown(MACHINE)
    assert [name for name in OFFSETS if f"`{name}`" not in text] == []
    assert f"| {OFFSETS['status']:#05x} | `status` | 32 | read |" in text


def test_no_two_bits_of_a_register_are_the_same() -> None:
    assert len({(bit.register, bit.number) for bit in BITS}) == len(BITS)
    assert {bit.register for bit in BITS} <= set(OFFSETS)


def test_a_counter_that_carries_between_two_reads_is_read_whole() -> None:
    dut, offset = Registers(MACHINE), OFFSETS["counter.cycles"]

    async def bench(ctx: Any) -> None:
        ctx.set(dut.counters["cycles"], 0x1_FFFF_FFFF)
        assert await read(ctx, dut.s_axi, offset) == 0xFFFF_FFFF
        ctx.set(dut.counters["cycles"], 0x2_0000_0000)
        assert await read(ctx, dut.s_axi, offset + WORD_BYTES) == 1
        assert [await read(ctx, dut.s_axi, offset + word * WORD_BYTES) for word in range(2)] == [0, 2]

    simulate(dut, bench)


def test_an_interrupt_lasts_from_the_end_of_a_run_until_it_is_acknowledged() -> None:
    dut, seen = Registers(MACHINE), []

    async def bench(ctx: Any) -> None:
        async def note() -> None:
            pending = await read(ctx, dut.s_axi, OFFSETS["interrupt_pending"])
            seen.append((ctx.get(dut.interrupt), pending))

        await write(ctx, dut.s_axi, OFFSETS["control"], 1 << bits_of("control")["start"])
        ctx.set(dut.is_done, 1)
        await ctx.tick()
        await note()  # (0, 1): not enabled
        await write(ctx, dut.s_axi, OFFSETS["interrupt_enable"], 1)
        await note()  # (1, 1)
        await write(ctx, dut.s_axi, OFFSETS["interrupt_pending"], 0)
        await note()  # (1, 1): a 0 acknowledges nothing
        await write(ctx, dut.s_axi, OFFSETS["interrupt_pending"], 1)
        await note()  # (0, 0): though the run's end still stands in `status`
        ctx.set(dut.is_done, 0)
        await ctx.tick()
        ctx.set(dut.is_done, 1)
        await ctx.tick()
        await note()  # (1, 1): the next run
        await write(ctx, dut.s_axi, OFFSETS["control"], 1 << bits_of("control")["start"])
        await note()  # (0, 0): a start acknowledges, too

    simulate(dut, bench)
    assert seen == [(0, 1), (1, 1), (1, 1), (0, 0), (1, 1), (0, 0)]


def test_no_run_starts_while_the_bus_owes_an_answer() -> None:
    dut, starts = Registers(MACHINE), []

    async def watch(ctx: Any) -> None:
        while True:
            *_, is_start = await ctx.tick().sample(dut.start)
            starts.append(is_start)

    async def bench(ctx: Any) -> None:
        for is_open in (1, 0):
            ctx.set(dut.is_open, is_open)
            await write(ctx, dut.s_axi, OFFSETS["control"], 1 << bits_of("control")["start"])
            await ctx.tick()
            assert sum(starts) == 1 - is_open

    simulate(dut, bench, background=[watch])


def test_a_busy_machine_takes_a_stop_and_a_reset() -> None:
    dut = Registers(MACHINE)
    came: set[str] = set()

    async def watch(ctx: Any) -> None:
        while True:
            *_, stop, reset = await ctx.tick().sample(dut.stop, dut.reset)
            came.update(name for name, is_set in (("stop", stop), ("reset", reset)) if is_set)

    async def bench(ctx: Any) -> None:
        await write(ctx, dut.s_axi, OFFSETS["watchdog"], 77)
        await write(ctx, dut.s_axi, OFFSETS["inputs.limit"], 5)
        ctx.set(dut.is_busy, 1)
        await write(ctx, dut.s_axi, OFFSETS["watchdog"], 78)
        assert (await read(ctx, dut.s_axi, OFFSETS["watchdog"]), ctx.get(dut.watchdog)) == (77, 77)
        for name, values in (("stop", (77, 5)), ("reset", (WATCHDOG_CYCLES, 0))):
            came.clear()
            await write(ctx, dut.s_axi, OFFSETS["control"], 1 << bits_of("control")[name])
            await ctx.tick()
            assert came == {name}
            assert tuple([await read(ctx, dut.s_axi, OFFSETS[of]) for of in ("watchdog", "inputs.limit")]) == values

    simulate(dut, bench, background=[watch])
