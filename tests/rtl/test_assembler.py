"""The assembler: instructions leave whole and in order, wherever in a beat they begin, as soon as they may."""

import random
from itertools import accumulate
from typing import Any

import pytest

from tests.isa.random_instructions import random_instruction
from tests.rtl.benches import simulate, stream_get, stream_put
from tests.rtl.test_dispatch import as_beats
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import Instruction, encode
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.assembler import Assembler

BUSES = (1, 2, 4, 8, 16, 32, 64, 128)


def machine_of(bus_bytes: int) -> Machine:
    return load_machine("base16", [f"dram.bus_bytes={bus_bytes}"])


def some_instructions(machine: Machine, seed: int, count: int = 60) -> list[Instruction]:
    rng = random.Random(seed)
    return [random_instruction(rng, machine) for _ in range(count)]


@pytest.mark.parametrize("bus_bytes", BUSES)
@pytest.mark.parametrize("pause", [0, 0.6])
def test_gives_every_instruction_whole_and_in_order(bus_bytes: int, pause: float) -> None:
    machine = machine_of(bus_bytes)
    dut, program = Assembler(machine), some_instructions(machine, bus_bytes)

    async def feed(ctx: Any) -> None:
        await stream_put(ctx, dut.beats, as_beats(machine, [encode(one) for one in program]), pause)

    async def bench(ctx: Any) -> None:
        payloads = await stream_get(ctx, dut.output, len(program), pause, seed=7)
        for payload, one in zip(payloads, program, strict=True):
            assert payload.error == 0
            assert payload.bits & (1 << one.format.bits) - 1 == int.from_bytes(encode(one), "little")
        await ctx.tick().repeat(3)
        assert ctx.get(dut.output.valid) == 0  # nothing is made of what is behind the program's end

    simulate(dut, bench, background=[feed])


def cycles_of(machine: Machine, program: list[Instruction]) -> list[int]:
    """When each instruction is there, with a beat in each cycle from 0 on and no wait at the other end."""
    dut, came = Assembler(machine), []
    beats = as_beats(machine, [encode(one) for one in program])

    async def feed(ctx: Any) -> None:
        await stream_put(ctx, dut.beats, beats)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.output.ready, 1)
        for cycle in range(2 * (len(beats) + len(program))):
            *_, valid = await ctx.tick().sample(dut.output.valid)
            came.extend([cycle] * valid)

    simulate(dut, bench, background=[feed])
    return came


@pytest.mark.parametrize("bus_bytes", [1, 2, 4, 8, 16])
def test_an_instruction_is_there_a_cycle_after_its_last_word(bus_bytes: int) -> None:
    machine = machine_of(bus_bytes)
    program = some_instructions(machine, 3)
    ends = accumulate(one.format.bytes for one in program)
    assert cycles_of(machine, program) == [-(-end // bus_bytes) for end in ends]


@pytest.mark.parametrize("bus_bytes", [64, 128])
def test_a_wide_beat_gives_an_instruction_in_each_cycle(bus_bytes: int) -> None:
    machine = machine_of(bus_bytes)
    program = some_instructions(machine, 3)
    assert cycles_of(machine, program) == list(range(1, len(program) + 1))
