"""StoreEngine against plain copies of bytes, with memories and a bus that are quick, slow or moody."""

import random
from collections import deque
from typing import Any

import pytest

from tests.engines import store_of
from tests.rings import slow_beyond
from tests.rtl.benches import simulate, stream_put
from tests.rtl.dma import BASES, DRAM_BYTES, REGION_BYTES, moves, queued, set_regions, valid_transfers
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.dma import chip_operand
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES
from tilewright.rtl.store import StoreEngine


class World:
    """Memories with random words and a DRAM that checks the bursts it is sent."""

    def __init__(self, machine: Machine, eagerness: float, seed: random.Random) -> None:
        self.machine, self.eagerness, self.seed = machine, eagerness, seed
        self.words = {
            name: [seed.getrandbits(8 * memory.word_bytes) for _ in range(memory.depth)]
            for name, memory in machine.memories.items()
        }
        self.dram = bytearray(DRAM_BYTES)
        self.responses = 0
        self.refuses = False

    def moody(self) -> bool:
        return self.seed.random() < self.eagerness

    def memories(self, dut: StoreEngine) -> Any:
        async def bench(ctx: Any) -> None:
            data: dict[str, int] = {}
            while True:
                for name in dut.memories:
                    port = getattr(dut, f"read_{name}")
                    ctx.set(port.data, data.pop(name, self.seed.getrandbits(8)))
                    grants = self.moody()
                    ctx.set(port.granted, grants)
                    if grants and ctx.get(port.valid):
                        data[name] = self.words[name][ctx.get(port.address)]
                await ctx.tick()

        return bench

    def bus(self, dut: StoreEngine) -> Any:
        async def bench(ctx: Any) -> None:
            size = dut.bus_bytes
            beats: deque[tuple[int, bool]] = deque()  # address and last of every beat whose burst was accepted
            early: deque[tuple[int, int, int]] = deque()  # beats before their address
            owed = 0
            while True:
                ctx.set(dut.awready, self.moody())
                ctx.set(dut.wready, self.moody())
                responds = owed > 0 and self.moody()
                ctx.set(dut.bvalid, responds)
                ctx.set(dut.bresp, 2 if self.refuses else 0)
                owed -= responds
                self.responses += responds
                if ctx.get(dut.awvalid) and ctx.get(dut.awready):
                    first, count = ctx.get(dut.awaddr), ctx.get(dut.awlen) + 1
                    assert count <= BURST_BEATS
                    start = first // size * size
                    assert first // BURST_BOUNDARY_BYTES == (start + size * count - 1) // BURST_BOUNDARY_BYTES
                    beats += [(start + size * n, n == count - 1) for n in range(count)]
                if ctx.get(dut.wvalid) and ctx.get(dut.wready):
                    early.append((ctx.get(dut.wdata), ctx.get(dut.wstrb), ctx.get(dut.wlast)))
                while early and beats:
                    data, strobes, is_last = early.popleft()
                    address, expected_last = beats.popleft()
                    assert is_last == expected_last
                    owed += is_last
                    for byte in range(size):
                        if strobes >> byte & 1:
                            self.dram[address + byte] = data >> 8 * byte & 0xFF
                await ctx.tick()

        return bench


def feed(dut: StoreEngine, machine: Machine, program: list[Any]) -> Any:
    async def bench(ctx: Any) -> None:
        set_regions(ctx, dut.regions)
        await stream_put(ctx, dut.instruction, queued(machine, program))

    return bench


@pytest.mark.parametrize("name", ["tiny8", "base16"])
@pytest.mark.parametrize("eagerness", slow_beyond(1, [0.5, 1, 0.2]))
def test_writes_every_byte_and_no_other(name: str, eagerness: float) -> None:
    machine, seed = load_machine(name), random.Random(f"{name} {eagerness}")
    dut, world = StoreEngine(machine, store_of(machine)), World(machine, eagerness, seed)
    program = valid_transfers(machine, "store", seed, 8)
    expected, written = bytearray(DRAM_BYTES), 0
    for instruction in program:
        memory = machine.memories[chip_operand(instruction.format).memory]
        for address, word in moves(machine, instruction):
            data = world.words[memory.name][word].to_bytes(memory.word_bytes, "little")
            expected[address : address + memory.word_bytes] = data
            written += memory.word_bytes
    counted = 0

    async def watch(ctx: Any) -> None:
        nonlocal counted
        retired = 0
        while retired < len(program):
            *_, retires, byte_count = await ctx.tick().sample(dut.retire, dut.bytes_written)
            retired, counted = retired + retires, counted + byte_count
        assert ctx.get(dut.is_idle) == 1

    simulate(dut, watch, background=[feed(dut, machine, program), world.memories(dut), world.bus(dut)])
    assert world.dram == expected
    assert counted == written


def test_retires_with_the_last_response() -> None:
    machine, seed = load_machine("tiny8"), random.Random(3)
    dut, world = StoreEngine(machine, store_of(machine)), World(machine, 0.6, seed)
    program = valid_transfers(machine, "store", seed, 1)

    async def watch(ctx: Any) -> None:
        await ctx.tick().until(dut.retire)
        retired_after = world.responses
        await ctx.tick().repeat(100)
        assert world.responses == retired_after > 0

    simulate(dut, watch, background=[feed(dut, machine, program), world.memories(dut), world.bus(dut)])


def fault_of(program: list[Any], machine: Machine, refuses: bool = False) -> tuple[FaultCode, int, int]:
    dut, world, found = StoreEngine(machine, store_of(machine)), World(machine, 1, random.Random(3)), []
    world.refuses = refuses

    async def watch(ctx: Any) -> None:
        (payload,) = await ctx.tick().sample(dut.fault.payload).until(dut.fault.valid)
        found.append((FaultCode(payload.code), payload.instruction, payload.address))
        ctx.set(dut.halt, 1)  # as the machine does from the next cycle on; open bursts are completed all the same
        await ctx.tick().until(dut.is_idle)

    simulate(dut, watch, background=[feed(dut, machine, program), world.memories(dut), world.bus(dut)])
    return found[0]


def test_stops_at_a_word_outside_its_memory_and_completes_its_bursts() -> None:
    machine = load_machine("tiny8")
    good = valid_transfers(machine, "store", random.Random(6), 1)[0]
    chip = chip_operand(good.format)
    depth = machine.memories[chip.memory].depth
    bad = good.replace({f"{chip.name}.base": depth - 1} | {f"{chip.name}.{loop.name}": 1 for loop in good.format.loops})
    assert any(trip > 1 for trip in bad.trips.values())
    assert fault_of([good, bad], machine) == (FaultCode.ADDRESS, 1, depth)


def test_stops_at_a_burst_outside_its_region() -> None:
    machine = load_machine("tiny8")
    good = valid_transfers(machine, "store", random.Random(6), 1)[0]
    bad = good.replace({"d.base": REGION_BYTES - 1, "d.region": 4})
    assert fault_of([good, bad], machine) == (FaultCode.REGION, 1, BASES["outputs"] + REGION_BYTES)


def test_completes_bursts_whose_words_never_came() -> None:
    machine = load_machine("tiny8")
    good = valid_transfers(machine, "store", random.Random(6), 1)[0]
    word = machine.memories[chip_operand(good.format).memory].word_bytes
    values = {f.name: f.default for f in good.format.fields[1:]}
    inner = good.format.loops[-1].name
    size = BURST_BEATS * machine.dram.bus_bytes
    values |= {"d.region": 4, "d.base": REGION_BYTES - size, f"d.{inner}": word, f"trip.{inner}": size // word + 1}
    leaves = good.replace(values)  # its first burst is inside, its second is not
    dut, world = StoreEngine(machine, store_of(machine)), World(machine, 1, random.Random(3))

    async def watch(ctx: Any) -> None:  # the memories grant nothing
        await ctx.tick().until(dut.fault.valid)
        ctx.set(dut.halt, 1)
        await ctx.tick().until(dut.is_idle)
        await ctx.tick().repeat(10)
        assert world.responses == 1
        assert not any(world.dram)

    simulate(dut, watch, background=[feed(dut, machine, [leaves]), world.bus(dut)])


def test_stops_at_an_error_of_the_bus() -> None:
    machine = load_machine("tiny8")
    program = valid_transfers(machine, "store", random.Random(6), 1)
    assert fault_of(program, machine, refuses=True) == (FaultCode.BUS, 0, 0)
