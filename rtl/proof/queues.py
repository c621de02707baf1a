"""Queues keep what they hold, in order; dispatch starts an instruction only when its waits have ended."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import z3
from amaranth.hdl import unsigned

from tilewright.isa.machine.encoding import OPCODE
from tilewright.isa.machine.engine import Direction, Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import FaultCode
from tilewright.rtl.dispatch import Dispatch, instruction_queue, queue_bits
from tilewright.rtl.fifo import BlockFifo, Fifo, ShownFifo, queue
from tilewright.rtl.proof.kept import keeps_fields, restored
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import NetlistRun, netlist
from tilewright.rtl.proof.result import Claim, Goal, Subject

WIDTH = 40
"""Bits in which levels, places and counts are integers."""

INDUCTIVE = "all inputs, inductive"


def dispatch_key(machine: Machine) -> Hashable:
    """Machines with equal keys have the same dispatch: widths, opcodes, places of fields, depths of queues, stages."""
    opcodes = tuple((format.opcode, format.engine.number, format.fields) for format in machine.formats.values())
    depths = tuple((engine.name, engine.queue_depth) for engine in machine.engines.values())
    return machine.dram.bus_bytes, machine.wait_bits, depths, opcodes, machine.pipeline


def inner_queues(machine: Machine) -> set[int]:
    """Depths of the queues inside the DMA engines and fetch."""
    loads, stores = ([engine.dma for engine in machine.dma(direction)] for direction in Direction)
    of_loads = {depth for load in loads for depth in (load.contexts, load.beats)}
    return of_loads | {store.beats for store in stores} | {machine.fetch_beats}


def shown_queues(machine: Machine) -> set[int]:
    """Depths of the queues inside the DMA engines whose oldest entry is in a register."""
    return {engine.dma.bursts for engine in machine.of(Template.DMA)}


def instruction_queues(machine: Machine) -> list[Subject]:
    """One for each engine, with what its queue keeps of its instructions as entries."""
    return [
        queue_of(instruction_queue(machine, engine), f"{engine} instructions") for engine in machine.engines.values()
    ]


def byte_queue(depth: int) -> Subject:
    """A queue of any depth, of bytes: the width of entries is nowhere but in the entries."""
    return queue_of(queue(unsigned(8), depth), "bytes")


def shown_queue(depth: int) -> Subject:
    """The same of one whose oldest entry is in a register."""
    return queue_of(ShownFifo(unsigned(8), depth), "bytes, the oldest in a register")


def queue_of(fifo: Fifo | BlockFifo, entries: str) -> Subject:
    def goals(run: NetlistRun) -> list[Goal]:
        return _Queue(fifo, run).goals()

    kind = " in a block" if isinstance(fifo, BlockFifo) else ""
    claim = f"queue of {fifo.depth} {entries}{kind}: first in, first out"
    return Subject(netlist(fifo), [Claim(claim, INDUCTIVE, goals)])


def dispatch(machine: Machine) -> Subject:
    """What starts, what is counted, what is a fault."""

    def proved(run: NetlistRun) -> _Dispatch:
        return _Dispatch(machine, run)

    retiring = f"{INDUCTIVE}, engines retire what started"
    claims = [
        Claim("dispatch: starts when its waits have ended", "all inputs", lambda run: proved(run).start_goals()),
        Claim("dispatch: completed ≤ started ≤ dispatched", retiring, lambda run: proved(run).counts()),
        Claim("dispatch: pushes or faults", "all inputs", lambda run: proved(run).push_goals()),
    ]
    return Subject(netlist(Dispatch(machine)), claims)


def integer(bits: z3.BitVecRef) -> z3.BitVecRef:
    return z3.ZeroExt(WIDTH - bits.size(), bits)


def number(value: int) -> z3.BitVecRef:
    return z3.BitVecVal(value, WIDTH)


def bit(is_one: z3.BoolRef) -> z3.BitVecRef:
    return z3.If(is_one, number(1), number(0))


class _Queue:
    """The queue is the list of its entries: entry k from the oldest is `entry(k)`, for each k below the level.

    A cycle drops the oldest if it is taken and appends the input if it is put; the proof follows one place, any one.
    """

    def __init__(self, fifo: Fifo | BlockFifo, run: NetlistRun) -> None:
        self.depth = fifo.depth
        self.shown = {BlockFifo: "output__payload", ShownFifo: "oldest"}.get(type(fifo))
        self.run = run
        self.tail = "tail" if "tail" in run.hardware.nets else "write__addr"

    def level(self, cycle: int) -> z3.BitVecRef:
        return integer(self.run.at("level", cycle))

    def pointer(self, name: str, cycle: int) -> z3.BitVecRef:
        """The pointers of a queue of one entry have no bits."""
        return integer(self.run.at(name, cycle)) if name in self.run.hardware.nets else number(0)

    def wrapped(self, place: z3.BitVecRef) -> z3.BitVecRef:
        return z3.If(z3.UGE(place, self.depth), place - self.depth, place)

    def entry(self, place: z3.BitVecRef, cycle: int) -> z3.BitVecRef:
        if self.depth == 1:
            return self.run.at("entry", cycle)
        row = self.wrapped(self.pointer("head", cycle) + place)
        value = self.run.at("entries[0]", cycle)
        for other in range(1, self.depth):
            value = z3.If(row == other, self.run.at(f"entries[{other}]", cycle), value)
        return value

    def invariant(self, cycle: int) -> z3.BoolRef:
        """The level is in 0..depth, the tail is a level behind the head, and the oldest entry is shown.

        Registers show the entry to which their address register points, others hold the entry. What a queue of
        one entry shows is that entry.
        """
        level, head, tail = self.level(cycle), self.pointer("head", cycle), self.pointer(self.tail, cycle)
        if self.depth == 1:
            is_shown = z3.BoolVal(True)
        elif self.shown is not None:
            is_shown = self.run.at(self.shown, cycle) == self.entry(number(0), cycle)
        else:
            is_shown = self.pointer("$/entries$rdreg[0]$q", cycle) == head
        inside = [z3.ULE(level, self.depth), z3.ULT(head, self.depth), z3.ULT(tail, self.depth)]
        return all_of(*inside, tail == self.wrapped(head + level), z3.Implies(level != 0, is_shown))

    def goals(self) -> list[Goal]:
        given, place = [self.invariant(0)], z3.BitVec("place", WIDTH)
        is_put = all_of(self.run.holds("input__valid", 0), self.run.holds("input__ready", 0))
        is_taken = all_of(self.run.holds("output__valid", 0), self.run.holds("output__ready", 0))
        left = self.level(0) - bit(is_taken)
        offered, given_entry = self.run.at("output__payload", 0), self.run.at("input__payload", 0)
        kept = self.entry(place, 1) == self.entry(place + bit(is_taken), 0)
        return [
            Goal("reset", [self.run.starts_from_reset()], all_of(self.invariant(0), self.level(0) == 0)),
            Goal("ready", given, self.run.holds("input__ready", 0) == z3.ULT(self.level(0), self.depth)),
            Goal("valid", given, self.run.holds("output__valid", 0) == (self.level(0) != 0)),
            Goal("level", given, self.level(1) == left + bit(is_put)),
            Goal("invariant", given, self.invariant(1)),
            Goal("oldest", [*given, self.level(0) != 0], offered == self.entry(number(0), 0)),
            Goal("kept", [*given, z3.ULT(place, left)], kept),
            Goal("appended", [*given, is_put], self.entry(left, 1) == given_entry),
        ]


class _Dispatch:
    """Of an engine, `dispatched` less its queue's level have started; its count is a whole number below 2**wait_bits.

    That it is relies on what a program promises, at most `max_instructions_per_engine`.
    """

    def __init__(self, machine: Machine, run: NetlistRun) -> None:
        self.machine = machine
        self.engines = tuple(machine.engines.values())
        self.run = run

    def count(self, engine: Engine, name: str, cycle: int = 0) -> z3.BitVecRef:
        return integer(self.run.at(f"{engine}_{name}", cycle))

    def level(self, engine: Engine, cycle: int = 0) -> z3.BitVecRef:
        return integer(self.run.at(f"{engine}_queue.level", cycle))

    def started(self, engine: Engine, cycle: int = 0) -> z3.BitVecRef:
        return self.count(engine, "dispatched", cycle) - self.level(engine, cycle)

    def field(self, bits: z3.BitVecRef, name: str) -> z3.BitVecRef:
        """Opcode or wait count, which are at the same place in every format."""
        field = next(iter(self.machine.formats.values())).field(name)
        return integer(z3.Extract(field.low_bit + field.type.bits - 1, field.low_bit, bits))

    def is_offered(self, engine: Engine) -> z3.BoolRef:
        return self.run.holds(f"instructions__{engine.number}__valid", 0)

    def starts(self, engine: Engine) -> z3.BoolRef:
        return all_of(self.is_offered(engine), self.run.holds(f"instructions__{engine.number}__ready", 0))

    def put(self, engine: Engine) -> z3.BoolRef:
        queue = f"{engine}_queue.input"
        return all_of(self.run.holds(f"{queue}__valid", 0), self.run.holds(f"{queue}__ready", 0))

    def start_goals(self) -> list[Goal]:
        return [goal for engine in self.engines for goal in self.start_goals_of(engine)]

    def start_goals_of(self, engine: Engine) -> list[Goal]:
        """An instruction is offered exactly when no wait is left, and leaves its queue exactly when it starts."""
        head = self.run.at(f"instructions__{engine.number}__payload.bits", 0)
        ended = [z3.UGE(self.count(other, "completed"), self.field(head, f"wait.{other}")) for other in self.engines]
        present, halt = self.run.holds(f"{engine}_queue.output__valid", 0), self.run.holds("halt", 0)
        is_taken = all_of(present, self.run.holds(f"{engine}_queue.output__ready", 0))
        kept, oldest = queue_bits(self.machine, engine), f"{engine}_queue.output__payload"
        same = [
            head == restored(self.run.at(f"{oldest}.bits", 0), kept),
            self.run.at(f"instructions__{engine.number}__payload.index", 0) == self.run.at(f"{oldest}.index", 0),
        ]
        return [
            Goal(f"waits of {engine}", [self.starts(engine)], all_of(*ended)),
            Goal(f"offer of {engine}", [], self.is_offered(engine) == all_of(present, z3.Not(halt), *ended)),
            Goal(f"take of {engine}", [], is_taken == self.starts(engine)),
            Goal(f"payload of {engine}", [], all_of(*same)),
        ]

    def invariant(self, cycle: int) -> z3.BoolRef:
        claims = []
        for engine in self.engines:
            dispatched, level = self.count(engine, "dispatched", cycle), self.level(engine, cycle)
            claims += [
                z3.ULE(level, engine.queue_depth),
                z3.ULE(level, dispatched),
                z3.ULE(self.count(engine, "completed", cycle), self.started(engine, cycle)),
            ]
        return all_of(*claims)

    def assumptions(self) -> list[z3.BoolRef]:
        """No engine retires more than it started, and no program has more instructions of an engine than it may."""
        most, found = self.machine.max_instructions_per_engine, []
        for engine in self.engines:
            started = self.started(engine) + bit(self.starts(engine))
            is_owed = z3.ULT(self.count(engine, "completed"), started)
            found.append(z3.Implies(self.run.holds(f"retires__{engine.number}", 0), is_owed))
            found.append(z3.Implies(self.put(engine), z3.ULT(self.count(engine, "dispatched"), most)))
        return found

    def counts(self) -> list[Goal]:
        given = [self.invariant(0), *self.assumptions()]
        empty = all_of(*(self.level(engine) == 0 for engine in self.engines))
        goals = [
            Goal("reset", [self.run.starts_from_reset()], self.invariant(0)),
            Goal("invariant", given, self.invariant(1)),
            Goal("done", [self.invariant(0), self.run.holds("is_done", 0)], empty),
        ]
        for engine in self.engines:
            retires, puts, starts = (
                self.run.holds(f"retires__{engine.number}", 0),
                self.put(engine),
                self.starts(engine),
            )
            steps = [
                self.count(engine, "completed", 1) == self.count(engine, "completed") + bit(retires),
                self.count(engine, "dispatched", 1) == self.count(engine, "dispatched") + bit(puts),
                self.started(engine, 1) == self.started(engine) + bit(starts),
            ]
            goals.append(Goal(f"steps of {engine}", given, all_of(*steps)))
        return goals

    def push_goals(self) -> list[Goal]:
        """An instruction is a fault of the first kind that applies, or goes to its engine's queue and no other."""
        bits = self.run.at("assembler.output__payload.bits", 0)
        is_full = all_of(self.run.holds("assembler.output__valid", 0), z3.Not(self.run.holds("halt", 0)))
        is_error = z3.Not(self.run.holds("assembler.is_whole", 0))  # as the assembler says it: rtl/proof/assembler.py
        waits = [self.field(bits, f"wait.{other}") for other in self.engines]
        is_above = [
            z3.UGT(wait, self.count(other, "dispatched")) for other, wait in zip(self.engines, waits, strict=True)
        ]
        is_known = self.is_one_of(bits, [format.opcode for format in self.machine.formats.values()])
        is_fault = all_of(is_full, any_of(is_error, z3.Not(is_known), *is_above))
        code, address = self.wanted_fault(bits, is_error, is_known, list(zip(is_above, waits, strict=True)))
        shown, given = self.run.holds("fault__valid", self.machine.pipeline.halt), [is_fault]
        goals = [
            Goal("fault", [], shown == is_fault),
            Goal("code", given, integer(self.run.at("fault__payload.code", 0)) == code),
            Goal("address", given, self.wide_address() == address),
        ]
        for engine in self.engines:
            opcodes = [format.opcode for format in self.machine.formats_of(engine)]
            pushed = all_of(is_full, z3.Not(is_fault), self.is_one_of(bits, opcodes))
            queue = f"{engine}_queue.input__"
            goals.append(Goal(f"push to {engine}", [], self.run.holds(f"{queue}valid", 0) == pushed))
            entry = restored(self.run.at(f"{queue}payload.bits", 0), queue_bits(self.machine, engine))
            kept = keeps_fields(self.machine.formats_of(engine), bits, entry)
            goals.append(Goal(f"fields to {engine}", [pushed], kept))
        taken = self.run.holds("assembler.output__ready", 0)
        goals.append(Goal("taken", [is_full], taken == any_of(*(self.put(engine) for engine in self.engines))))
        return goals

    def wanted_fault(
        self,
        bits: z3.BitVecRef,
        is_error: z3.BoolRef,
        is_known: z3.BoolRef,
        waits: Sequence[tuple[z3.BoolRef, z3.BitVecRef]],
    ) -> tuple[z3.BitVecRef, z3.BitVecRef]:
        """Code and address of an instruction's fault: the bus before the opcode, then the waits by engine."""
        address = number(0)
        for is_above, wait in reversed(waits):
            address = z3.If(is_above, wait, address)
        code = z3.If(is_known, number(FaultCode.WAIT), number(FaultCode.OPCODE))
        address = z3.If(is_known, address, self.field(bits, OPCODE))
        return z3.If(is_error, number(FaultCode.BUS), code), z3.If(is_error, number(0), address)

    def wide_address(self) -> z3.BitVecRef:
        address = self.run.at("fault__payload.address", 0)
        return z3.Extract(WIDTH - 1, 0, address)

    def is_one_of(self, bits: z3.BitVecRef, opcodes: Sequence[int]) -> z3.BoolRef:
        return any_of(*(self.field(bits, OPCODE) == opcode for opcode in opcodes))
