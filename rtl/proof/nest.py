"""The loop-nest walker: every address is base + Σ index·stride, and the indices count as nested loops do."""

from __future__ import annotations

import z3

from tilewright.isa.machine.encoding import OPCODE, Loop
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.templates.vector import PARTS, ROWS
from tilewright.rtl.nest import FormatWalk, NestWalker
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import NetlistRun, SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number, one_if, signed
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.vector import vector_walks

SUMS = "all inputs, inductive"
EXACT = "all inputs, inductive, steps from accesses inside"


def vector_addresses(machine: Machine, engine: Engine) -> Subject:
    walker = NestWalker(machine, vector_walks(machine, engine))
    return Subject(netlist(walker), walker_claims(walker, engine.name, ""))


def walker_claims(walker: NestWalker, whose: str, prefix: str) -> list[Claim]:
    """What is claimed of a walker at a place of a netlist; `prefix` ends with a dot, or is empty."""

    def nest(run: NetlistRun) -> _Nest:
        return _Nest(walker, SubmoduleNets(run, prefix))

    return [
        Claim(f"{whose}: addresses start at base", "all inputs", lambda run: nest(run).start_goals()),
        Claim(f"{whose}: addresses are base + Σ index·stride", SUMS, lambda run: nest(run).step_goals()),
        Claim(f"{whose}: addresses are exact and checked", EXACT, lambda run: nest(run).exact_goals()),
    ]


class _Nest:
    """Index i of a loop is its last index less `remaining`.

    `part` stands for index·stride, by what multiplication is: 0 at index 0, a stride more at each next index.
    """

    def __init__(self, walker: NestWalker, nets: SubmoduleNets) -> None:
        self.walker = walker
        self.nets = nets
        self.levels = range(walker.depth)

    def remaining(self, level: int, cycle: int) -> z3.BitVecRef:
        return self.nets.at(f"remaining_{level}", cycle)

    def last_index(self, level: int, cycle: int) -> z3.BitVecRef:
        return self.nets.at(f"last_index_{level}", cycle)

    def stride(self, slot: str, level: int, cycle: int) -> z3.BitVecRef:
        width = self.walker.slot_shape(slot).width
        if not self.walker.strides_at(slot, level):
            return z3.BitVecVal(0, width)
        return _extended(self.nets.at(f"{slot}_stride_{level}", cycle), width)

    def carried(self, level: int) -> z3.BoolRef:
        """All loops inside are at their last index."""
        return all_of(*(self.remaining(inner, 0) == 0 for inner in range(level + 1, self.walker.depth)))

    def loop(self, walk: FormatWalk, level: int) -> Loop | None:
        """Shorter nests are aligned at the innermost loop."""
        outside = self.walker.depth - len(walk.loops)
        return walk.loops[level - outside] if level >= outside else None

    def origins(self, slot: str) -> list[int]:
        """The levels that have an origin of their own."""
        return [level for level in self.levels if level == 0 or self.walker.strides_at(slot, level)]

    def addresses_are_sums(self, slot: str, base: z3.BitVecRef, parts: list[z3.BitVecRef], cycle: int) -> z3.BoolRef:
        """At each level: the address at the start of the loop's iteration; at the innermost, the current address."""
        claims = []
        total = base
        for level in self.levels:
            total = total + parts[level]
            if level in self.origins(slot):
                claims.append(self.nets.at(f"{slot}_origin_{level}", cycle) == total)
        return all_of(*claims, self.nets.at(f"address_{slot}", cycle) == total)

    # -- a step ------------------------------------------------------------------------------------------------------

    def is_stepping(self) -> list[z3.BoolRef]:
        moves = [self.nets.holds("step"), z3.Not(self.nets.holds("start")), z3.Not(self.nets.holds("last"))]
        return [*moves, self.bounds(0)]

    def bounds(self, cycle: int) -> z3.BoolRef:
        """Every loop has at most its last index left, and knows its first and its last."""
        claims = []
        for level in self.levels:
            remaining, last = self.remaining(level, cycle), self.last_index(level, cycle)
            claims.append(z3.ULE(remaining, last))
            if self.nets.has(f"is_first_{level}"):
                claims.append(self.nets.holds(f"is_first_{level}", cycle) == (remaining == last))
            if self.nets.has(f"is_last_{level}"):
                claims.append(self.nets.holds(f"is_last_{level}", cycle) == (remaining == 0))
        return all_of(*claims)

    def step_goals(self) -> list[Goal]:
        given = self.is_stepping()
        goals = [Goal("last", [self.bounds(0)], self.nets.holds("last") == self.carried(-1))]
        for level in self.levels:
            now = self.remaining(level, 0)
            wanted = z3.If(now == 0, self.last_index(level, 0), now - 1)
            after = self.remaining(level, 1) == z3.If(self.carried(level), wanted, now)
            goals.append(Goal(f"index of loop {level}", given, after))
        goals.append(Goal("bounds", given, self.bounds(1)))
        goals.append(Goal("waiting", [z3.Not(self.nets.holds("step")), z3.Not(self.nets.holds("start"))], self.stays()))
        goals += [goal for slot in self.walker.slots for goal in self.address_goals(slot, given)]
        return goals + [goal for position, walk in enumerate(self.walker.walks) for goal in self.flags(position, walk)]

    def stays(self) -> z3.BoolRef:
        names = [f"remaining_{level}" for level in self.levels] + [f"last_index_{level}" for level in self.levels]
        names += [
            name for level in self.levels for end in ("first", "last") if self.nets.has(name := f"is_{end}_{level}")
        ]
        for slot in self.walker.slots:
            names += [f"{slot}_origin_{level}" for level in self.origins(slot)] + [f"address_{slot}"]
            names += [f"{slot}_stride_{level}" for level in self.levels if self.walker.strides_at(slot, level)]
        return all_of(*(self.nets.at(name, 1) == self.nets.at(name, 0) for name in names))

    def address_goals(self, slot: str, given: list[z3.BoolRef]) -> list[Goal]:
        """One for each loop that may be the one that moves on: all inside it are at their last index, it is not.

        That the claim holds before the step is put in as what it says of the parts: the differences of the origins.
        """
        width = self.walker.slot_shape(slot).width
        zero = z3.BitVecVal(0, width)
        total = self.nets.at(f"{slot}_origin_0")
        parts = [z3.BitVec("part_0", width) if self.walker.strides_at(slot, 0) else zero]
        base = total - parts[0]
        for level in self.levels[1:]:
            origin = self.nets.at(f"{slot}_origin_{level}") if level in self.origins(slot) else total
            parts.append(origin - total)
            total = origin
        goals = []
        for moving in self.levels:
            after = [
                part if level < moving else part + self.stride(slot, level, 0) if level == moving else zero
                for level, part in enumerate(parts)
            ]
            case = [*given, self.carried(moving), self.remaining(moving, 0) != 0]
            kept = [self.stride(slot, level, 1) == self.stride(slot, level, 0) for level in self.levels]
            then = all_of(self.addresses_are_sums(slot, base, after, 1), *kept)
            goals.append(Goal(f"address of {slot}, loop {moving}", case, then))
        return goals

    def flags(self, position: int, walk: FormatWalk) -> list[Goal]:
        """A group is at its first or last iteration when all its loops are."""
        goals = []
        for group, names in walk.groups.items():
            loops = [level for level in self.levels if (loop := self.loop(walk, level)) and loop.name in names]
            ends = {
                "first": all_of(*(self.remaining(level, 0) == self.last_index(level, 0) for level in loops)),
                "last": all_of(*(self.remaining(level, 0) == 0 for level in loops)),
            }
            given = [self.bounds(0), self.is_walk(position)]
            for end, wanted in ends.items():
                if self.nets.has(f"is_{end}_{group}"):
                    claim = self.nets.holds(f"is_{end}_{group}") == wanted
                    goals.append(Goal(f"{end} of {group} of {walk.format.mnemonic}", given, claim))
        if PARTS in walk.counts and self.nets.has("part"):
            part, left = self.nets.at("part"), self.remaining(self.walker.level_of(walk, PARTS), 0)
            claim = part == z3.Extract(part.size() - 1, 0, left)  # as it starts with no more than fits
            goals.append(Goal(f"part of {walk.format.mnemonic}", [self.is_walk(position)], claim))
        return goals

    def is_walk(self, position: int, cycle: int = 0) -> z3.BoolRef:
        """The current instruction has this format; where that changes nothing, the walker need not know it."""
        return self.nets.at("walk", cycle) == position if self.knows_walk else z3.BoolVal(True)

    @property
    def knows_walk(self) -> bool:
        return len(self.walker.walks) > 1 and self.nets.has("walk")

    # -- a start -----------------------------------------------------------------------------------------------------

    def start_goals(self) -> list[Goal]:
        return [self.start_goal(position, walk) for position, walk in enumerate(self.walker.walks)]

    def start_goal(self, position: int, walk: FormatWalk) -> Goal:
        """After the start of a format's instruction all indices are 0, and bases, strides and trips are its fields.

        Of a collapsed start, the innermost loop has one iteration.
        """
        format_, collapse = walk.format, self.nets.holds("collapse")
        claims = [self.bounds(1), self.is_walk(position, 1)]
        for level in self.levels:
            loop = self.loop(walk, level)
            last = self.last_index(level, 1)
            trips = z3.BitVecVal(0, 1)
            if loop is not None:
                trips = self.trips(walk, loop, last.size())
            wanted = z3.ZeroExt(last.size() - trips.size(), trips)
            if level == self.levels[-1]:
                wanted = z3.If(collapse, z3.BitVecVal(0, last.size()), wanted)
            claims += [last == wanted, self.remaining(level, 1) == last]
        for slot, operand in walk.operands.items():
            width = self.walker.slot_shape(slot).width
            base = self.field(walk, f"{operand.name}.base")
            is_signed = format_.field(f"{operand.name}.base").type.is_signed
            extended = _extended(base, width) if is_signed else z3.ZeroExt(width - base.size(), base)
            claims.append(self.addresses_are_sums(slot, extended, [z3.BitVecVal(0, width)] * self.walker.depth, 1))
            for level in self.levels:
                loop = self.loop(walk, level)
                step = z3.BitVecVal(0, width)
                if loop is not None and loop.name == ROWS and ROWS in operand.loops:
                    step = z3.BitVecVal(1, width)
                elif loop is not None and loop.name in operand.loops:
                    step = _extended(self.field(walk, f"{operand.name}.{loop.name}"), width)
                claims.append(self.stride(slot, level, 1) == step)
        opcode = self.field(walk, OPCODE) == format_.opcode
        return Goal(f"start of {format_.mnemonic}", [self.nets.holds("start"), opcode], all_of(*claims))

    def trips(self, walk: FormatWalk, loop: Loop, bits: int) -> z3.BitVecRef:
        """The field that says how often a loop runs, less one; of a loop without one, that number in so many bits."""
        if loop.name in walk.counts:
            return z3.BitVecVal(walk.counts[loop.name] - 1, bits)
        return self.field(walk, f"trip.{loop.name}")

    def field(self, walk: FormatWalk, name: str) -> z3.BitVecRef:
        field = walk.format.field(name)
        return z3.Extract(field.low_bit + field.type.bits - 1, field.low_bit, self.nets.at("bits"))

    # -- integers ----------------------------------------------------------------------------------------------------

    def exact_goals(self) -> list[Goal]:
        """The registers' width is enough, so sums modulo it are sums of integers; and bad accesses are told exactly.

        An engine steps from an access that is inside only. So each origin is inside, or it is the current address.
        """
        goals = []
        for slot in self.walker.slots:
            given = [*self.is_stepping(), self.origins_inside(slot, 0), self.is_inside(slot, f"address_{slot}", 0)]
            for level in self.levels:
                case = [*given, self.carried(level), self.remaining(level, 0) != 0]
                origin = f"{slot}_origin_{[own for own in self.origins(slot) if own <= level][-1]}"
                moved = self.nets.signed(origin) + signed(self.stride(slot, level, 0))
                exact = self.nets.signed(f"address_{slot}", 1) == moved
                goals.append(Goal(f"exact {slot}, loop {level}", case, exact))
            goals.append(Goal(f"origins of {slot}", given, self.origins_inside(slot, 1)))
        if not self.nets.has("fault"):  # the engine checks by itself
            return goals
        return goals + [self.check_goal(position, walk) for position, walk in enumerate(self.walker.walks)]

    def is_inside(self, slot: str, register: str, cycle: int) -> z3.BoolRef:
        """An address is one of the largest memory in a slot; in DRAM, no region is larger than offsets can tell."""
        bits = max(self.address_bits(walk.operands[slot].memory) for walk in self.walker.walks if slot in walk.operands)
        value = self.nets.signed(register, cycle)
        return all_of(value >= 0, value < number(1 << bits))

    def address_bits(self, memory: str) -> int:
        machine = self.walker.machine
        return machine.dram.offset_bits if memory == DRAM else machine.memories[memory].address_bits

    def origins_inside(self, slot: str, cycle: int) -> z3.BoolRef:
        names = [f"{slot}_origin_{level}" for level in self.origins(slot)]
        current = self.nets.at(f"address_{slot}", cycle)
        return all_of(
            *(any_of(self.is_inside(slot, name, cycle), self.nets.at(name, cycle) == current) for name in names)
        )

    def check_goal(self, position: int, walk: FormatWalk) -> Goal:
        """A slot is bad exactly if its block is not inside one bank; the fault is the first bad slot's."""
        claims, fault, address = [], z3.BoolVal(False), number(0)
        for slot in reversed(self.walker.slots):
            operand = walk.operands.get(slot)
            if operand is None or operand.memory == DRAM:
                is_bad = z3.BoolVal(False)
            else:
                memory = self.walker.machine.memories[operand.memory]
                is_bad = z3.Not(in_one_bank(self.nets.signed(f"address_{slot}"), memory, operand.block))
            if self.nets.has(f"is_bad_{slot}"):
                claims.append(self.nets.holds(f"is_bad_{slot}") == is_bad)
            fault, address = any_of(fault, is_bad), z3.If(is_bad, self.nets.signed(f"address_{slot}"), address)
        claims.append(self.nets.holds("fault") == fault)
        if self.nets.has("fault_address"):  # an iteration that waits in registers has it worked out there
            claims.append(z3.Implies(fault, self.nets.signed("fault_address") == address))
        return Goal(f"check of {walk.format.mnemonic}", [self.is_walk(position)], all_of(*claims))


def in_one_bank(address: z3.BitVecRef, memory: Memory, block: int) -> z3.BoolRef:
    """Some bank holds all words of a block."""
    size = memory.stretch_words
    banks = range(memory.stretches)
    return any_of(*(all_of(address >= bank * size, address + block <= (bank + 1) * size) for bank in banks))


def bank_of(address: z3.BitVecRef, memory: Memory) -> z3.BitVecRef:
    """The number of the bank that holds a word of the memory."""
    if memory.is_interleaved:
        return address & (memory.banks - 1)
    bank = number(0)
    for first in range(memory.bank_depth, memory.depth, memory.bank_depth):
        bank = bank + one_if(z3.UGE(address, first))
    return bank


def _extended(bits: z3.BitVecRef, width: int) -> z3.BitVecRef:
    return z3.SignExt(width - bits.size(), bits)
