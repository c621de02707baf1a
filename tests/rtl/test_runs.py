"""Runs, bursts and their faults against nested loops over single bytes."""

import random
from typing import Any

import pytest

from tests.rtl.benches import simulate
from tests.rtl.nests import all_iterations, random_instruction
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import Instruction, encode
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.templates.dma import chip_operand, dram_operand
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.runs import Bursts

BASES = {region: 0x10_0000 * number + 0x4000 for number, region in enumerate(REGIONS)}


def words_of(instruction: Instruction) -> list[int]:
    """DRAM offset of the word of every iteration, in order."""
    name = dram_operand(instruction.format).name
    return [addresses[name] for _, addresses in all_iterations(instruction)]


def expected_bursts(machine: Machine, instruction: Instruction) -> list[tuple[int, int]]:
    """(offset, bytes) of every burst, byte by byte.

    A burst goes on while the next byte is its neighbour in the same run, inside its BURST_BEATS beats and its 4 KiB.
    """
    of = instruction.format
    word = machine.memories[chip_operand(of).memory].word_bytes
    innermost = of.loops[-1].name
    run_words = instruction.trips[innermost] if instruction.strides(dram_operand(of))[innermost] == word else 1
    bursts: list[tuple[int, int]] = []
    longest = BURST_BEATS * machine.dram.bus_bytes
    for position, first in enumerate(words_of(instruction)):
        for byte in range(first, first + word):
            starts_run = byte == first and position % run_words == 0
            if not starts_run and bursts and bursts[-1][0] + bursts[-1][1] == byte:
                start, size = bursts[-1]
                same_beats = byte - start // machine.dram.bus_bytes * machine.dram.bus_bytes < longest
                if same_beats and byte % BURST_BOUNDARY_BYTES != 0:
                    bursts[-1] = start, size + 1
                    continue
            bursts.append((byte, 1))
    return bursts


def transfers(machine: Machine, seed: random.Random, count: int) -> list[Instruction]:
    """Random loads, half of them contiguous over the innermost loop, with bases near a 4 KiB boundary."""
    made = []
    for _ in range(count):
        of = seed.choice(machine.formats_of(machine.engines["load"]))
        instruction = random_instruction(machine, of, seed, spread=150)
        dram, innermost = dram_operand(of), of.loops[-1].name
        word = machine.memories[of.destination.memory].word_bytes
        changes = {f"{dram.name}.base": 8192 + seed.randrange(-300, 300), f"{dram.name}.region": seed.randrange(5)}
        if seed.random() < 0.5:
            changes |= {f"{dram.name}.{innermost}": word, f"trip.{innermost}": seed.randint(1, 60)}
        made.append(instruction.replace(changes))
    return made


def configure(ctx: Any, dut: Bursts, limit: int) -> None:
    for region, base in BASES.items():
        ctx.set(dut.regions[region].base, base)
        ctx.set(dut.regions[region].limit, limit)


def start(ctx: Any, dut: Bursts, machine: Machine, instruction: Instruction) -> None:
    ctx.set(dut.instruction.bits, int.from_bytes(encode(instruction), "little"))
    ctx.set(dut.start, 1)


@pytest.mark.parametrize("name", ["tiny8", "base16"])
def test_cuts_as_byte_by_byte(name: str) -> None:
    machine, seed = load_machine(name), random.Random(7)
    dut = Bursts(machine, machine.formats_of(machine.engines["load"]))

    async def bench(ctx: Any) -> None:
        configure(ctx, dut, 1 << 20)
        for instruction in transfers(machine, seed, 12):
            start(ctx, dut, machine, instruction)
            await ctx.tick()
            ctx.set(dut.start, 0)
            base = BASES[REGIONS[instruction[f"{dram_operand(instruction.format).name}.region"]]]
            expected = expected_bursts(machine, instruction)
            for number, (offset, size) in enumerate(expected):
                ctx.set(dut.step, 0)
                if seed.random() < 0.2:
                    await ctx.tick()
                bus_bytes = machine.dram.bus_bytes
                last = offset + size - 1
                came = (ctx.get(dut.request.address), ctx.get(dut.bytes.first_byte), ctx.get(dut.bytes.last_byte))
                assert came == (base + offset, offset % bus_bytes, last % bus_bytes)
                assert ctx.get(dut.bytes.last_beat) == last // bus_bytes - offset // bus_bytes
                assert ctx.get(dut.beats) == (offset + size - 1) // bus_bytes - offset // bus_bytes + 1
                assert ctx.get(dut.request.last_beat) + 1 == ctx.get(dut.beats)
                assert ctx.get(dut.is_last) == (number == len(expected) - 1)
                assert (ctx.get(dut.is_active), ctx.get(dut.fault)) == (1, 0)
                ctx.set(dut.step, 1)
                await ctx.tick()
            ctx.set(dut.step, 0)
            assert ctx.get(dut.is_active) == 0

    simulate(dut, bench)


def first_outside(bursts: list[tuple[int, int]], limit: int) -> tuple[int, int] | None:
    """The first burst with a byte outside [0, limit) and that byte, by looking at every byte."""
    for number, (offset, size) in enumerate(bursts):
        for byte in range(offset, offset + size):
            if not 0 <= byte < limit:
                return number, byte
    return None


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("name", ["tiny8", "base16"])
def test_faults_as_byte_by_byte(name: str, number: int) -> None:
    """Regions that end anywhere in a transfer, or behind it: the burst at fault, and its first byte outside."""
    machine, seed = load_machine(name), random.Random(number)
    dut, (instruction,) = Bursts(machine, machine.formats_of(machine.engines["load"])), transfers(machine, seed, 1)
    region = REGIONS[instruction[f"{dram_operand(instruction.format).name}.region"]]
    bursts = expected_bursts(machine, instruction)
    limit = max(0, seed.choice(bursts)[0] + seed.randrange(-20, 200))
    expected = first_outside(bursts, limit)

    async def bench(ctx: Any) -> None:
        configure(ctx, dut, limit)
        start(ctx, dut, machine, instruction)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.step, 1)
        steps = 0
        while ctx.get(dut.is_active) and not ctx.get(dut.fault):
            await ctx.tick()
            steps += 1
        came = (steps, ctx.get(dut.fault_address) - BASES[region]) if ctx.get(dut.fault) else None
        assert came == expected

    simulate(dut, bench)


LIMIT, WORD = 5000, 8


@pytest.mark.parametrize(
    ("first", "words", "outside"),
    [
        (LIMIT - WORD, 1, None),
        (LIMIT - WORD + 1, 1, LIMIT),
        (LIMIT, 1, LIMIT),
        (LIMIT + 7, 2, LIMIT + 7),
        (LIMIT - 3 * WORD, 4, LIMIT),
        (LIMIT - 40 * WORD, 40, None),
        (LIMIT - 40 * WORD, 41, LIMIT),
    ],
)
def test_faults_at_the_first_byte_outside(first: int, words: int, outside: int | None) -> None:
    machine = load_machine("tiny8")
    dut = Bursts(machine, machine.formats_of(machine.engines["load"]))
    of = machine.formats_of(machine.engines["load"])[0]
    assert machine.memories[of.destination.memory].word_bytes == WORD
    dram, innermost = dram_operand(of).name, of.loops[-1].name
    plain = random_instruction(machine, of, random.Random(3)).replace({f.name: f.default for f in of.fields[1:]})
    values = {f"{dram}.base": first, f"{dram}.{innermost}": WORD, f"trip.{innermost}": words, f"{dram}.region": 2}

    async def bench(ctx: Any) -> None:
        configure(ctx, dut, LIMIT)
        start(ctx, dut, machine, plain.replace(values))
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.step, 1)
        while ctx.get(dut.is_active) and not ctx.get(dut.fault):
            await ctx.tick()
        assert ctx.get(dut.fault) == (outside is not None)
        if outside is not None:
            assert ctx.get(dut.fault_address) == BASES[REGIONS[2]] + outside

    simulate(dut, bench)


def test_faults_before_the_region_and_in_none() -> None:
    machine = load_machine("tiny8")
    dut = Bursts(machine, machine.formats_of(machine.engines["load"]))
    of = machine.formats_of(machine.engines["load"])[0]
    dram, innermost = dram_operand(of).name, of.loops[-1].name
    plain = random_instruction(machine, of, random.Random(1)).replace({f.name: f.default for f in of.fields[1:]})

    async def bench(ctx: Any) -> None:
        configure(ctx, dut, 5000)
        backwards = {f"{dram}.base": 20, f"{dram}.{innermost}": -30, f"trip.{innermost}": 2}
        start(ctx, dut, machine, plain.replace(backwards))
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.step, 1)
        assert ctx.get(dut.fault) == 0
        await ctx.tick()
        assert (ctx.get(dut.fault), ctx.get(dut.fault_address)) == (1, BASES[REGIONS[0]] - 10)
        start(ctx, dut, machine, plain.replace({f"{dram}.region": len(REGIONS), f"{dram}.base": 12}))
        await ctx.tick()
        assert (ctx.get(dut.fault), ctx.get(dut.fault_address)) == (1, 12)

    simulate(dut, bench)
