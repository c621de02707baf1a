"""The vector engine against a model that reads docs/microarchitecture.md line by line, cycle by cycle."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from tests.engines import vector_of
from tests.lanes import across_lanes
from tests.random_machines import random_machine
from tests.rtl.engines import Cycle, Words
from tests.rtl.nests import all_iterations, is_access_bad, random_instruction
from tests.rtl.statements import Evaluator, types_of_memories
from tests.tables import TABLES
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.language.expressions import walk
from tilewright.isa.machine.encoding import Instruction, Operand, encode, make_instruction
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.timing import vec_result_limit, vec_write
from tilewright.rtl.interfaces import Activity
from tilewright.rtl.vector import VectorEngine

NARROW = ["lanes=2", "array.rows=4", "array.cols=4"]


class VectorModel:
    """docs/microarchitecture.md, section vec. `granted(port)` says whether an ask of this cycle is granted."""

    def __init__(self, machine: Machine, program: Sequence[Instruction]) -> None:
        self.machine = machine
        self.memories = {name: Words(machine, name) for name in machine.memories}
        self.queue = deque(enumerate(program))
        self.number = 0
        self.current: Instruction | None = None
        self.pending: deque[tuple[dict[str, int], dict[str, int]]] = deque()
        self.kept: dict[int, int] = {}  # source → word
        self.group: list[tuple[list[int], dict[str, int]]] = []  # by iteration: words of the streams, addresses
        self.results: deque[tuple[int, str, int, int, bool]] = deque()  # from cycle, memory, address, word, is last
        self.shared = {
            of.destination.memory for of in machine.formats_of(Template.SYSTOLIC)
        }  # their ports may be taken
        self.outstanding = 0  # results that go there
        self.newest_ready = 0  # the cycle from which the newest iteration's result may be written

    @property
    def is_done(self) -> bool:
        return not self.queue and self.current is None and not self.results

    def step(self, time: int, granted: Callable[[str], bool]) -> Cycle:
        cycle = Cycle()
        outstanding = self.outstanding
        written: tuple[str, int, int] | None = None
        if self.results and self.results[0][0] <= time:
            _, memory, address, word, is_last = self.results[0]
            cycle.asks[f"write_{memory}"] = address, word
            if granted(f"write_{memory}"):
                written = memory, address, word
                cycle.retires = is_last
                self.results.popleft()
                self.outstanding -= memory in self.shared
        issues_last = False
        if self.current is not None:
            cycle.activity = Activity.STALL_PORT
            in_order = time + vec_write(self.current.format) > self.newest_ready
            if outstanding < vec_result_limit(self.machine, self.current.format) and in_order:
                issues_last = self.ask(time, cycle, granted)
        if written is not None:
            self.memories[written[0]][written[1]] = written[2]
        if issues_last:
            self.current = None
        if self.current is None and self.queue:
            cycle.starts = True
            self.number, self.current = self.queue.popleft()
            self.pending = deque(all_iterations(self.current))
        return cycle

    def ask(self, time: int, cycle: Cycle, granted: Callable[[str], bool]) -> bool:
        """Ask for the current iteration's sources; return whether the instruction's last iteration issues."""
        assert self.current is not None
        of = self.current.format
        index, addresses = self.pending[0]
        bad = [o.name for o in of.operands if is_access_bad(self.machine, o, addresses[o.name])]
        if bad:
            cycle.fault = self.number, addresses[bad[0]]
            return False
        for slot, source in enumerate(of.streams):
            if slot not in self.kept:
                port, address = f"source{slot}_{source.memory}", addresses[source.name]
                cycle.asks[port] = (address,)
                if granted(port):
                    self.kept[slot] = self.memories[source.memory][address]
        if len(self.kept) < len(of.streams):
            return False
        cycle.activity = Activity.BUSY
        self.newest_ready = time + vec_write(of)
        self.pending.popleft()
        if all(index[name] == 0 for name in of.reduce_loops):
            self.group = []
        self.group.append(([self.kept[slot] for slot in range(len(of.streams))], addresses))
        self.kept = {}
        if all(index[name] == self.current.trips[name] - 1 for name in of.reduce_loops):
            target = of.destination
            self.outstanding += target.memory in self.shared
            result = (target.memory, addresses[target.name], self.result(), not self.pending)
            self.results.append((time + vec_write(of), *result))
        return not self.pending

    def result(self) -> int:
        assert self.current is not None
        of = self.current.format
        element = of.destination.element
        lanes = []
        for lane in range(self.machine.lanes):
            names = []
            for words, addresses in self.group:
                values: dict[str, Any] = {name: self.current[name] for name in of.immediates}
                for table in of.tables:
                    values[table.name] = partial(self.look_up, table, addresses[table.name], lane)
                for source, bits in zip(of.streams, words, strict=True):
                    for part, value in self.memories[source.memory].values(bits, lane).items():
                        values[f"{source.name}.{part}" if part else source.name] = value
                names.append(values)
            lanes.append(names)
        rounding, types = self.machine.rounding.value, types_of_memories(self.machine)
        results = [Evaluator(names, rounding, lanes, types).store(of.statement.text) for names in lanes]
        return sum(value % (1 << element.bits) << lane * element.bits for lane, value in enumerate(results))

    def look_up(self, table: Operand, first: int, lane: int, value: int) -> int:
        assert self.current is not None
        least = next(n.args[0].range.low for n in walk(self.current.format.statement.expr) if n.name == table.name)
        memory = self.memories[table.memory]
        return memory.values(memory[first + value - least], lane)[""]


def run(machine: Machine, program: Sequence[Instruction], probability: float, seed: random.Random) -> list[Cycle]:
    """Run a program on the hardware beside the model, and compare every cycle up to the end or the first fault."""
    engine, model = VectorEngine(machine, vector_of(machine)), VectorModel(machine, program)
    names = [name for name in engine.signature.members if name.startswith(("source", "write"))]
    ports = {name: getattr(engine, name) for name in names}
    lookups = {name: getattr(engine, f"lookup_{name}") for name in machine.table_memories}
    always_granted = {f"write_{name}" for name in machine.memories if name not in model.shared}
    trace: list[Cycle] = []

    async def bench(ctx: Any) -> None:
        waiting = deque(enumerate(program))
        while not model.is_done and not (trace and trace[-1].fault):
            ctx.set(engine.instruction.valid, bool(waiting))
            if waiting:
                number, instruction = waiting[0]
                bits = int.from_bytes(encode(instruction), "little")
                ctx.set(engine.instruction.payload, {"bits": bits, "index": number})
            grants = {name: name in always_granted or seed.random() < probability for name in names}
            seen = Cycle()
            data: dict[str, int] = {}
            for port in ports.values():
                ctx.set(port.granted, 0)
            for name, port in ports.items():
                if not ctx.get(port.valid):
                    continue
                ctx.set(port.granted, grants[name])
                address = ctx.get(port.address)
                seen.asks[name] = (address, ctx.get(port.data)) if name.startswith("write") else (address,)
                if grants[name] and name.startswith("source"):
                    data[name] = model.memories[name.partition("_")[2]][address]
            seen.starts = bool(ctx.get(engine.instruction.valid) and ctx.get(engine.instruction.ready))
            seen.retires = bool(ctx.get(engine.retire))
            seen.activity = ctx.get(engine.activity)
            if ctx.get(engine.fault.valid):
                assert ctx.get(engine.fault.payload.code) == FaultCode.ADDRESS
                seen.fault = ctx.get(engine.fault.payload.instruction), ctx.get(engine.fault.payload.address)
            expected = model.step(len(trace), grants.__getitem__)
            assert seen == expected, f"cycle {len(trace)}"
            trace.append(seen)
            if seen.starts:
                waiting.popleft()
            found = {name: looked_up(model.memories[name], ctx.get(port.address)) for name, port in lookups.items()}
            await ctx.tick()
            for name, port in ports.items():
                if name.startswith("source"):
                    ctx.set(port.data, data.get(name, seed.getrandbits(len(port.data))))
            for name, word in found.items():
                ctx.set(lookups[name].data, word)

    simulator = Simulator(engine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


def looked_up(words: Words, address: int) -> int:
    """The elements that the lanes of a memory of tables have at the addresses of `lookup_<memory>`."""
    of = words.memory
    found = 0
    for lane in range(of.width):
        word = words[address >> lane * of.address_bits & ((1 << of.address_bits) - 1)]
        found |= (word >> lane * of.element.bits & ((1 << of.element.bits) - 1)) << lane * of.element.bits
    return found


def valid_instruction(machine: Machine, mnemonic: str, seed: random.Random) -> Instruction:
    of = machine.format(mnemonic)
    while True:
        instruction = random_instruction(machine, of, seed)
        accesses = [(o, at[o.name]) for _, at in all_iterations(instruction) for o in of.operands]
        if len(accesses) < 200 and not any(is_access_bad(machine, o, address) for o, address in accesses):
            return instruction


@pytest.mark.parametrize("probability", [1.0, 0.8, 0.3])
def test_follows_the_contract_in_every_cycle(probability: float) -> None:
    machine, seed = load_machine("tiny8", NARROW), random.Random(11)
    mnemonics = [of.mnemonic for of in machine.formats_of(Template.VECTOR)]
    run(machine, [valid_instruction(machine, seed.choice(mnemonics), seed) for _ in range(25)], probability, seed)


@pytest.mark.parametrize("results", [1, 3, 9])
def test_follows_the_contract_with_any_number_of_results(results: int) -> None:
    machine, seed = load_machine("tiny8", [*NARROW, f"engines.vec.results={results}"]), random.Random(results)
    mnemonics = ["sum", "add_sums", "add", "add_bias", "copy"] * 2
    run(machine, [valid_instruction(machine, mnemonic, seed) for mnemonic in mnemonics], 0.6, seed)


@pytest.mark.parametrize("number", [0, 9, 24, 30])
def test_follows_the_contract_on_random_machines(number: int) -> None:
    machine, seed = random_machine(number), random.Random(number)
    mnemonics = [of.mnemonic for of in machine.formats_of(Template.VECTOR)]
    run(machine, [valid_instruction(machine, seed.choice(mnemonics), seed) for _ in range(8)], 0.8, seed)


def test_serves_memories_of_different_words() -> None:
    machine = load_machine_text(
        """
extends: tiny8
array: {rows: 3, cols: 6}
lanes: 3
memories:
  act: {element: uint8, kib: 3}
  acc: {element: int20, kib: 12}
  par: {element: {bias: int20, scale: uint12, shift: uint6}}
engines: {vec: {reads: [act, acc, par], writes: [act, acc]}}
instructions:
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  requantize: {imm: {zero: uint8, low: uint8, high: uint8}}
  rescale: {imm: {zero: uint8, low: uint8, high: uint8}}
  mul: {imm: {zero: uint8, low: uint8, high: uint8}}
  lookup: null
  sum: null
  add_bias: null
  add_sums: null
  add: {imm: {zero: uint8, low: uint8, high: uint8}}
  fill: {imm: {value: uint8}}
  widen:
    engine: vec
    loops: {i: 4, j: 3}
    from: {p: par, a: act}
    to: {y: acc}
    do: y = sat(p.bias - a, int20)
  total:
    engine: vec
    loops: {i: 4, r: 3}
    reduce: [r]
    from: {a: acc}
    to: {y: "acc[i]"}
    do: y = sat(sum(a), int20)
""",
        "mixed",
    )
    seed = random.Random(12)
    mnemonics = ["widen", "total", "requantize", "max_pool", "fill"]
    run(machine, [valid_instruction(machine, seed.choice(mnemonics), seed) for _ in range(25)], 0.7, seed)


@pytest.mark.parametrize("number", range(3))
def test_looks_up_in_tables(number: int) -> None:
    machine, seed = load_machine_text(TABLES, "tables"), random.Random(number)
    tables = machine.table_memories  # a program that writes them needs waits, which this bench does not keep
    mnemonics = [
        f.mnemonic for f in machine.formats_of(Template.VECTOR) if f.tables and f.destination.memory not in tables
    ] * 2
    seed.shuffle(mnemonics)
    run(machine, [valid_instruction(machine, mnemonic, seed) for mnemonic in mnemonics], 0.8, seed)


@pytest.mark.parametrize("lanes", [3, 4])
def test_reduces_across_lanes(lanes: int) -> None:
    machine, seed = load_machine_text(across_lanes(lanes), "lanes"), random.Random(lanes)
    mnemonics = [of.mnemonic for of in machine.formats_of(Template.VECTOR)] * 2
    seed.shuffle(mnemonics)
    run(machine, [valid_instruction(machine, mnemonic, seed) for mnemonic in mnemonics], 0.8, seed)


def test_writes_a_word_a_cycle_when_never_refused() -> None:
    machine = load_machine("tiny8", NARROW)
    values = {"trip.k": 40, "a.k": 1, "y.base": 100, "y.k": 1}
    trace = run(machine, [make_instruction(machine.format("copy"), values)] * 2, 1.0, random.Random(13))
    writes = [time for time, cycle in enumerate(trace) if "write_act" in cycle.asks]
    first = 1 + 2  # started in cycle 0, issued in 1, two cycles to the operands; `y = a` has no operator
    assert writes == list(range(first, first + 80))
    assert [time for time, cycle in enumerate(trace) if cycle.retires] == [first + 39, first + 79]


@pytest.mark.parametrize("kind", ["below zero", "beyond the depth", "destination"])
def test_stops_at_an_access_outside_its_memory(kind: str) -> None:
    machine = load_machine("tiny8", NARROW)
    depth = machine.memories["act"].depth
    outside = {
        "below zero": ({"b.base": 2, "b.k": -1}, -1),
        "beyond the depth": ({"b.base": depth - 3, "b.k": 1}, depth),
        "destination": ({"y.base": depth - 3, "y.k": 1}, depth),
    }
    values, address = outside[kind]
    good = make_instruction(machine.format("fill"), {})
    bad = make_instruction(machine.format("add"), {"trip.k": 5, **values})
    trace = run(machine, [good, bad], 1.0, random.Random(14))
    assert trace[-1].fault == (1, address)
    assert not [port for port in trace[-1].asks if port.startswith("source")]


def test_exists_in_a_machine_without_vector_instructions() -> None:
    machine = load_machine("tiny8", NARROW)
    others = {name: of for name, of in machine.formats.items() if of.engine.name != "vec"}
    assert "retire" in rtlil.convert(VectorEngine(replace(machine, formats=others), vector_of(machine)))
