"""LoadEngine against plain copies of bytes, with a bus and memories that are quick, slow or moody."""

import random
from collections import deque
from typing import Any

import pytest

from tests.engines import load_of
from tests.rings import slow_beyond
from tests.rtl.benches import simulate, stream_put
from tests.rtl.dma import BASES, DRAM_BYTES, REGION_BYTES, moves, queued, set_regions, valid_transfers
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.dma import chip_operand
from tilewright.rtl.load import LoadEngine


def a_bus(dut: LoadEngine, dram: bytes, eagerness: float, seed: random.Random, refuses: bool = False) -> Any:
    """Accepts bursts and sends beats, each with a probability; with `refuses`, every beat is an error.

    A beat stays on the bus until the engine takes it.
    """

    async def bench(ctx: Any) -> None:
        pending: deque[int] = deque()
        size, sends = dut.bus_bytes, False
        while True:
            ctx.set(dut.request.ready, seed.random() < eagerness)
            sends = bool(pending) and (sends or seed.random() < eagerness)
            ctx.set(dut.beat.valid, sends)
            if sends:
                address = pending[0]
                ctx.set(dut.beat.payload.data, int.from_bytes(dram[address : address + size], "little"))
                ctx.set(dut.beat.payload.error, refuses)
            if ctx.get(dut.request.valid) and ctx.get(dut.request.ready):
                first = ctx.get(dut.request.payload.address) // size * size
                pending += [first + size * n for n in range(ctx.get(dut.request.payload.last_beat) + 1)]
            *_, is_taken = await ctx.tick().sample(dut.beat.ready)
            if sends and is_taken:
                pending.popleft()
                sends = False

    return bench


def memories_of(dut: LoadEngine, eagerness: float, seed: random.Random, log: list[tuple[str, int, int]]) -> Any:
    """Grants writes with a probability and notes (memory, word, data) of each."""

    async def bench(ctx: Any) -> None:
        while True:
            for name in dut.memories:
                port = getattr(dut, f"write_{name}")
                grants = seed.random() < eagerness
                ctx.set(port.granted, grants)
                if grants and ctx.get(port.valid):
                    log.append((name, ctx.get(port.address), ctx.get(port.data)))
            await ctx.tick()

    return bench


def expected_writes(machine: Machine, program: list[Any], dram: bytes) -> list[tuple[str, int, int]]:
    writes = []
    for instruction in program:
        memory = machine.memories[chip_operand(instruction.format).memory]
        for address, word in moves(machine, instruction):
            data = dram[address : address + memory.word_bytes]
            writes.append((memory.name, word, int.from_bytes(data, "little")))
    return writes


@pytest.mark.parametrize("name", ["tiny8", "base16"])
@pytest.mark.parametrize("eagerness", slow_beyond(1, [0.5, 1, 0.2]))
def test_writes_every_word_once_and_in_order(name: str, eagerness: float) -> None:
    machine, seed = load_machine(name), random.Random(f"{name} {eagerness}")
    dut, dram, log = LoadEngine(machine, load_of(machine)), seed.randbytes(DRAM_BYTES), []
    program = valid_transfers(machine, "load", seed, 8)

    async def bench(ctx: Any) -> None:
        set_regions(ctx, dut.regions)
        await stream_put(ctx, dut.instruction, queued(machine, program))

    async def watch(ctx: Any) -> None:
        words = [len(moves(machine, instruction)) for instruction in program]
        for nth in range(len(program)):
            await ctx.tick().until(dut.retire)
            assert len(log) == sum(words[: nth + 1])

    simulate(dut, watch, background=[bench, a_bus(dut, dram, eagerness, seed), memories_of(dut, eagerness, seed, log)])
    assert log == expected_writes(machine, program, dram)


def test_starts_no_more_than_its_contexts() -> None:
    machine, seed = load_machine("tiny8"), random.Random(1)
    dut, taken = LoadEngine(machine, load_of(machine)), []
    transfer = valid_transfers(machine, "load", seed, 1)[0]
    one_word = transfer.replace({f"trip.{loop.name}": 1 for loop in transfer.format.loops})
    contexts = machine.engines["load"].dma.contexts
    program = [one_word] * (contexts + 2)

    async def feed(ctx: Any) -> None:
        set_regions(ctx, dut.regions)
        for payload in queued(machine, program):
            await stream_put(ctx, dut.instruction, [payload])
            taken.append(payload)

    async def bench(ctx: Any) -> None:
        await ctx.tick().repeat(600)
        assert len(taken) == contexts

    simulate(dut, bench, background=[feed, a_bus(dut, bytes(DRAM_BYTES), 1, seed)])


def run_to_fault(dut: LoadEngine, machine: Machine, program: list[Any], refuses: bool = False) -> Any:
    seed, log, found = random.Random(2), [], []

    async def feed(ctx: Any) -> None:
        set_regions(ctx, dut.regions)
        await stream_put(ctx, dut.instruction, queued(machine, program))

    async def bench(ctx: Any) -> None:
        (payload,) = await ctx.tick().sample(dut.fault.payload).until(dut.fault.valid)
        found.append((FaultCode(payload.code), payload.instruction, payload.address))

    bus = a_bus(dut, bytes(DRAM_BYTES), 1, seed, refuses)
    simulate(dut, bench, background=[feed, bus, memories_of(dut, 1, seed, log)])
    return found[0], log


def test_stops_at_a_word_outside_its_memory() -> None:
    machine = load_machine("tiny8")
    good = valid_transfers(machine, "load", random.Random(6), 1)[0]
    of = machine.formats_of(machine.engines["load"])[0]
    chip, innermost = chip_operand(of), of.loops[-1].name
    depth = machine.memories[chip.memory].depth
    plain = valid_transfers(machine, "load", random.Random(6), 1)[0].replace({})
    values = {f"{chip.name}.base": depth - 2, f"{chip.name}.{innermost}": 1, f"trip.{innermost}": 5}
    bad = type(plain)(of, tuple(f.default if f.name != "opcode" else of.opcode for f in of.fields)).replace(values)
    fault, log = run_to_fault(LoadEngine(machine, load_of(machine)), machine, [good, bad])
    assert fault == (FaultCode.ADDRESS, 1, depth)
    assert [word for name, word, _ in log[len(moves(machine, good)) :]] in ([depth - 2], [depth - 2, depth - 1])


def test_stops_at_a_burst_outside_its_region() -> None:
    machine = load_machine("tiny8")
    good = valid_transfers(machine, "load", random.Random(6), 1)[0]
    bad = good.replace({"d.base": REGION_BYTES - 1, "d.region": 1})
    fault, _ = run_to_fault(LoadEngine(machine, load_of(machine)), machine, [good, bad])
    assert fault == (FaultCode.REGION, 1, BASES["weights"] + REGION_BYTES)


def test_stops_at_an_error_of_the_bus() -> None:
    machine = load_machine("tiny8")
    program = valid_transfers(machine, "load", random.Random(6), 1)
    fault, log = run_to_fault(LoadEngine(machine, load_of(machine)), machine, program, refuses=True)
    assert (fault, log) == ((FaultCode.BUS, 0, 0), [])
