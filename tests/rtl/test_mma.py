"""The matrix engine against a model that reads docs/microarchitecture.md line by line, cycle by cycle."""

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from amaranth.sim import Simulator

from tests.engines import array_of
from tests.random_machines import random_machine
from tests.rtl.engines import Cycle, Words
from tests.rtl.nests import all_iterations, is_access_bad, iterations, random_instruction
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction, Operand, encode, make_instruction
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights, tile_loops
from tilewright.isa.timing import MMA_WEIGHT_LEAD, mma_read, mma_update, mma_write
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.mma import MmaEngine


class MmaModel:
    """docs/microarchitecture.md, section mma. `is_granted` says whether an ask for `a` in this cycle is granted."""

    def __init__(self, machine: Machine, program: Sequence[Instruction]) -> None:
        self.machine = machine
        of = program[0].format
        self.a, self.w, self.c = systolic_activations(of), systolic_weights(of), of.destination
        self.memories = {name: Words(machine, name) for name in machine.memories}
        self.queue = deque(enumerate(program))
        self.number, self.is_transposing = 0, False
        self.current: Instruction | None = None
        self.rows: deque[tuple[int, int]] = deque()  # tile, row: still to be read
        self.vectors: deque[tuple[int, int, bool, dict[str, int]]] = deque()  # tile, place in it, adds, addresses
        self.tile_addresses: list[int] = []
        self.tile_lengths: list[int] = []
        self.row_read: dict[tuple[int, int], int] = {}  # tile, row → cycle
        self.vector_issued: dict[tuple[int, int], int] = {}  # tile, place → cycle
        self.weights: dict[int, list[list[int]]] = {}
        self.reads: dict[int, int] = {}  # cycle → address of accumulators
        self.writes: dict[int, tuple[int, list[int], bool, bool]] = {}  # cycle → address, sums, adds, is_last
        self.tile_of_write: dict[int, tuple[list[list[int]], bool]] = {}  # cycle → weight rows, are they a transpose's
        self.old: dict[int, list[int]] = {}  # cycle of the write → accumulators read for it

    @property
    def is_done(self) -> bool:
        return not self.queue and self.current is None and not self.writes

    def step(self, time: int, is_granted: bool) -> Cycle:
        cycle = Cycle()
        self.move_sums(time, cycle)
        is_active = self.current is not None
        issues_last = False
        if self.current is not None:
            cycle.activity = Activity.STALL_WEIGHTS
            fault = self.read_row(time, cycle)
            issues_last = self.issue_vector(time, cycle, is_granted)
            cycle.fault = cycle.fault or fault
        if self.current is not None and not self.rows and not self.vectors:
            self.current = None
        if self.queue and (not is_active or (issues_last and not self.rows)):
            cycle.starts = True
            self.begin(*self.queue.popleft())
        return cycle

    def begin(self, number: int, instruction: Instruction) -> None:
        self.number, self.current, self.is_transposing = number, instruction, is_transposing(instruction.format)
        of, trips = instruction.format, instruction.trips
        outer = [loop.name for loop in of.loops[: tile_loops(of)]]
        inner = [loop.name for loop in of.loops[tile_loops(of) :]]
        self.tile_addresses = [at[self.w.name] for _, at in iterations(instruction, outer, trips)]
        every = all_iterations(instruction)
        length = len(every) // len(self.tile_addresses)
        self.tile_lengths = [length] * len(self.tile_addresses)
        assert length == len(list(iterations(instruction, inner, trips)))
        self.rows = deque((tile, r) for tile in range(len(self.tile_addresses)) for r in range(self.machine.array.rows))
        self.vectors = deque(
            (
                count // length,
                count % length,
                bool(of.has_accumulate and instruction["accumulate"]) or any(index[name] for name in of.reduce_loops),
                addresses,
            )
            for count, (index, addresses) in enumerate(every)
        )
        self.row_read, self.vector_issued, self.weights = {}, {}, {}

    def read_row(self, time: int, cycle: Cycle) -> tuple[int, int] | None:
        """Read the next weight row if its time has come; return a fault."""
        if not self.rows:
            return None
        tile, r = self.rows[0]
        if r == 0 and tile > 0 and not self.vector_issued.get((tile - 1, 0), time) < time:
            return None
        address = self.tile_addresses[tile] + r
        if not 0 <= address < self.machine.memories[self.w.memory].depth:
            return self.number, address
        self.rows.popleft()
        self.row_read[tile, r] = time
        cycle.asks["w"] = (address,)
        values = self.memories[self.w.memory]
        row = [values.values(values[address], c)[""] for c in range(self.machine.array.cols)]
        self.weights.setdefault(tile, []).append(row)
        return None

    def issue_vector(self, time: int, cycle: Cycle, is_granted: bool) -> bool:
        """Ask for the next vector if its time has come; return whether it is issued and the instruction's last."""
        if not self.vectors:
            return False
        tile, place, adds, addresses = self.vectors[0]
        if place == 0:
            if not self.row_read.get((tile, 0), time) + MMA_WEIGHT_LEAD <= time:
                return False
            length = self.tile_lengths[tile]
            pause = max(0, mma_update(self.machine.array) - length)
            if tile > 0 and time < self.vector_issued[tile - 1, length - 1] + 1 + pause:
                return False
        bad = [o for o in (self.a, self.c) if is_access_bad(self.machine, o, addresses[o.name])]
        if bad:
            cycle.fault = self.number, addresses[bad[0].name]
            return False
        cycle.asks["a"] = (addresses[self.a.name],)
        cycle.activity = Activity.STALL_PORT
        if not is_granted:
            return False
        cycle.activity = Activity.BUSY
        self.vectors.popleft()
        self.vector_issued[tile, place] = time
        vector = self.block(self.a, addresses[self.a.name], self.machine.array.rows)
        if adds:
            self.reads[time + mma_read(self.machine.array)] = addresses[self.c.name]
        self.writes[time + mma_write(self.machine.array)] = (addresses[self.c.name], vector, adds, not self.vectors)
        rows = self.weights.setdefault(tile, [])  # complete when the sums are written
        self.tile_of_write[time + mma_write(self.machine.array)] = rows, self.is_transposing
        return not self.vectors

    def block(self, operand: Operand, address: int, elements: int) -> list[int]:
        words = self.memories[operand.memory]
        width = words.memory.width
        return [words.values(words[address + e // width], e % width)[""] for e in range(elements)]

    def move_sums(self, time: int, cycle: Cycle) -> None:
        """Read and write accumulators as issued vectors decided."""
        if time in self.reads:
            address = self.reads.pop(time)
            cycle.asks["c_read"] = (address,)
            self.old[time + mma_write(self.machine.array) - mma_read(self.machine.array)] = self.block(
                self.c, address, self.machine.array.cols
            )
        if time in self.writes:
            address, vector, adds, cycle.retires = self.writes.pop(time)
            tile, is_transposed = self.tile_of_write.pop(time)
            type_ = self.c.element.type
            assert type_ is not None and len(tile) == self.machine.array.rows
            columns = tile if is_transposed else list(zip(*tile, strict=True))
            old = self.old.pop(time) if adds else [0] * self.machine.array.cols
            bits, memory = 0, self.machine.memories[self.c.memory]
            for c in range(self.machine.array.cols):
                total = old[c] + sum(vector[r] * columns[c][r] for r in range(self.machine.array.rows))
                wrapped = (total + (1 << type_.bits - 1)) % (1 << type_.bits) - (1 << type_.bits - 1)
                bits |= wrapped % (1 << self.c.element.bits) << c * self.c.element.bits
            cycle.asks["c_write"] = address, bits
            for word in range(self.c.block):
                width = 8 * memory.word_bytes
                self.memories[self.c.memory][address + word] = bits >> word * width & ((1 << width) - 1)


def run(machine: Machine, program: Sequence[Instruction], probability: float, seed: random.Random) -> list[Cycle]:
    """Run a program on the hardware beside the model, and compare every cycle up to the end or the first fault."""
    engine, model = MmaEngine(machine, array_of(machine)), MmaModel(machine, program)
    ports = {name: getattr(engine, name) for name in ("c_read", "w", "a", "c_write")}
    operands = {"c_read": model.c, "w": model.w, "a": model.a}
    trace: list[Cycle] = []

    async def bench(ctx: Any) -> None:
        waiting = deque(enumerate(program))
        for name in ("c_read", "w", "c_write"):
            ctx.set(ports[name].granted, 1)
        while not model.is_done and not (trace and trace[-1].fault):
            ctx.set(engine.instruction.valid, bool(waiting))
            if waiting:
                number, instruction = waiting[0]
                bits = int.from_bytes(encode(instruction), "little")
                ctx.set(engine.instruction.payload, {"bits": bits, "index": number})
            grant = seed.random() < probability
            ctx.set(ports["a"].granted, 0)
            ctx.set(ports["a"].granted, grant and ctx.get(ports["a"].valid))
            seen = Cycle()
            data: dict[str, int] = {}
            for name, port in ports.items():
                if ctx.get(port.valid):
                    address = ctx.get(port.address)
                    seen.asks[name] = (address, ctx.get(port.data)) if name == "c_write" else (address,)
                    if name in operands:
                        memory = model.memories[operands[name].memory]
                        count = len(port.data) // (8 * memory.memory.word_bytes)
                        width = 8 * memory.memory.word_bytes
                        data[name] = sum(memory[address + i] << i * width for i in range(count))
            seen.starts = bool(ctx.get(engine.instruction.valid) and ctx.get(engine.instruction.ready))
            seen.retires = bool(ctx.get(engine.retire))
            seen.activity = ctx.get(engine.activity)
            if ctx.get(engine.fault.valid):
                assert ctx.get(engine.fault.payload.code) == FaultCode.ADDRESS
                seen.fault = ctx.get(engine.fault.payload.instruction), ctx.get(engine.fault.payload.address)
            expected = model.step(len(trace), grant)
            assert seen == expected, f"cycle {len(trace)}"
            trace.append(seen)
            if seen.starts:
                waiting.popleft()
            await ctx.tick()
            for name in operands:
                ctx.set(ports[name].data, data.get(name, seed.getrandbits(len(ports[name].data))))

    simulator = Simulator(engine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


def is_valid(machine: Machine, instruction: Instruction) -> bool:
    """Every access is inside its memory, and no accumulator is written twice by one tile."""
    of = instruction.format
    weights = machine.memories[systolic_weights(of).memory]
    every = all_iterations(instruction)
    if len(every) > 150:
        return False
    tiles: dict[int, int] = {}
    for index, at in every:
        for operand in of.operands:
            if operand == systolic_weights(of):
                if not 0 <= at[operand.name] <= weights.depth - machine.array.rows:
                    return False
            elif is_access_bad(machine, operand, at[operand.name]):
                return False
        key = tuple(index[loop.name] for loop in of.loops[: tile_loops(of)]), at[of.destination.name]
        tiles[key] = tiles.get(key, 0) + 1  # type: ignore[index,call-overload]
    return max(tiles.values()) == 1


def valid_instruction(machine: Machine, seed: random.Random) -> Instruction:
    while True:
        instruction = random_instruction(machine, seed.choice(machine.formats_of(Template.SYSTOLIC)), seed)
        if is_valid(machine, instruction):
            return instruction


SHAPES = [
    ["lanes=2", "array.rows=2", "array.cols=2"],
    ["lanes=4", "array.rows=8", "array.cols=4"],
    ["lanes=2", "array.rows=4", "array.cols=6", "memories.wgt.kib=6"],
]


@pytest.mark.parametrize("probability", [1.0, 0.6])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: " ".join(shape))
def test_follows_the_contract_in_every_cycle(shape: list[str], probability: float) -> None:
    machine, seed = load_machine("tiny8", shape), random.Random(21)
    run(machine, [valid_instruction(machine, seed) for _ in range(20)], probability, seed)


@pytest.mark.parametrize("number", [0, 9, 10, 24, 30])
def test_follows_the_contract_on_random_machines(number: int) -> None:
    machine, seed = random_machine(number), random.Random(number)
    run(machine, [valid_instruction(machine, seed) for _ in range(6)], 0.8, seed)


def test_serves_other_types_and_several_formats() -> None:
    machine = load_machine_text(
        """
extends: tiny8
array: {rows: 3, cols: 6}
lanes: 3
memories:
  act: {element: uint8, kib: 3}
  wgt: {element: int5, kib: 3}
  acc: {element: int20, kib: 12}
instructions:
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  dense:
    engine: mma
    loops: {k: 5, x: 6}
    reduce: [k]
    from: {a: "rows // lanes * act", w: "rows * wgt[k]"}
    to: {c: "cols // lanes * acc[x]"}
    do: c = wrap(sum(dot(a, w)), int20)
  requantize: {imm: {zero: uint8, low: uint8, high: uint8}}
  rescale: {imm: {zero: uint8, low: uint8, high: uint8}}
  mul: {imm: {zero: uint8, low: uint8, high: uint8}}
  lookup: null
  sum: null
  add_bias: null
  add_sums: null
  add: {imm: {zero: uint8, low: uint8, high: uint8}}
  fill: {imm: {value: uint8}}
""",
        "mixed",
    )
    seed = random.Random(22)
    run(machine, [valid_instruction(machine, seed) for _ in range(20)], 0.8, seed)


def tiles(machine: Machine, tile_count: int, vectors: int) -> Instruction:
    values = {"trip.k": tile_count, "trip.x": vectors, "a.x": 1, "c.x": 1, "w.k": machine.array.rows, "accumulate": 1}
    return make_instruction(machine.format("mma"), values)


def test_streams_long_tiles_without_bubbles_and_loses_two_cycles_between_instructions() -> None:
    machine = load_machine("tiny8", ["lanes=4", "array.rows=4", "array.cols=4"])
    long = tiles(machine, 3, machine.array.rows)
    trace = run(machine, [long, long], 1.0, random.Random(23))
    issued = [time for time, cycle in enumerate(trace) if cycle.activity == Activity.BUSY]
    first, count = 1 + MMA_WEIGHT_LEAD, 3 * machine.array.rows
    again = first + count + 2
    assert issued == [*range(first, first + count), *range(again, again + count)]


@pytest.mark.parametrize("kind", ["weights", "activations", "sums", "banks"])
def test_stops_at_an_access_outside_its_memory(kind: str) -> None:
    machine = load_machine("tiny8", ["lanes=2", "array.rows=4", "array.cols=4"])
    act, wgt, acc = (machine.memories[name] for name in ("act", "wgt", "acc"))
    cases = {
        "weights": ({"w.base": wgt.depth - machine.array.rows - 1, "w.k": machine.array.rows}, wgt.depth),
        "activations": ({"a.base": 3, "a.x": -2}, -1),
        "sums": ({"c.base": acc.depth - 5, "c.x": 2}, acc.depth - 1),  # a block of two words: the second is outside
        "banks": ({"a.base": act.bank_depth - 3, "a.x": 1}, act.bank_depth - 1),
    }
    values, address = cases[kind]
    good = make_instruction(machine.format("mma"), {})
    bad = make_instruction(machine.format("mma"), {"trip.k": 3, "trip.x": 4, **values})
    trace = run(machine, [good, bad], 1.0, random.Random(24))
    assert trace[-1].fault == (1, address)
