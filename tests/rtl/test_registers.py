"""Registers over AXI4-Lite: what the host writes and reads, and what the map promises."""

import random
from typing import Any

from tests.rtl.benches import simulate
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.rtl.registers import ID, WORD_BYTES, Registers, isa_hash_word, register_map, register_map_markdown

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
            "counter.vec.wait.store": 0x3456789A,
            "counter.cycles": 0,
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
