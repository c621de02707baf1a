"""The loop-nest walker: every address is base + Σ index·stride, and the indices count as nested loops do."""

from __future__ import annotations

import z3

from isa.encoding import OPCODE
from isa.machine import Machine
from rtl.nest import NestWalker, Walk, whole_walk
from rtl.proof.netlist import Run, netlist
from rtl.proof.result import Goal, Proof, prove

METHOD = "all inputs, inductive, modulo the register's width"


def vector_walker(machine: Machine) -> NestWalker:
    """The walker of the vector engine's instructions, a slot for each source and one for the destination."""
    walks = [
        whole_walk(of, {**{f"source{i}": source for i, source in enumerate(of.sources)}, "destination": of.destination})
        for of in machine.formats_of("vec")
    ]
    return NestWalker(machine, walks)


def prove_walker(machine: Machine) -> list[Proof]:
    """Two proofs: what a start loads, and that each step keeps the claim."""
    walker = vector_walker(machine)
    nest = _Nest(walker, Run(netlist(walker)))
    return [
        prove("addresses: start", "all inputs", nest.start_goals),
        prove("addresses: base + Σ index·stride", METHOD, nest.step_goals),
    ]


class _Nest:
    """Index i of a loop is its last index less `remaining`.

    `part` stands for index·stride, by what multiplication is: 0 at index 0, a stride more at each next index.
    """

    def __init__(self, walker: NestWalker, run: Run) -> None:
        self.walker = walker
        self.run = run
        self.levels = range(walker.depth)

    def remaining(self, level: int, cycle: int) -> z3.BitVecRef:
        return self.run.at(f"remaining_{level}", cycle)

    def last_index(self, level: int, cycle: int) -> z3.BitVecRef:
        return self.run.at(f"last_index_{level}", cycle)

    def stride(self, slot: str, level: int, cycle: int) -> z3.BitVecRef:
        width = self.walker.slot_shape(slot).width
        if not self.walker.strides_at(slot, level):
            return z3.BitVecVal(0, width)
        return _extended(self.run.at(f"{slot}_stride_{level}", cycle), width)

    def carried(self, level: int) -> z3.BoolRef:
        """All loops inside are at their last index."""
        return z3.And(*(self.remaining(inner, 0) == 0 for inner in range(level + 1, self.walker.depth)))

    def addresses_are_sums(self, slot: str, base: z3.BitVecRef, parts: list[z3.BitVecRef], cycle: int) -> z3.BoolRef:
        """At each level: the address at the start of the loop's iteration; at the innermost, the current address."""
        claims = []
        total = base
        for level in self.levels:
            total = total + parts[level]
            if level == 0 or self.walker.strides_at(slot, level):
                claims.append(self.run.at(f"{slot}_origin_{level}", cycle) == total)
        return z3.And(*claims, self.run.at(f"address_{slot}", cycle) == total)

    def step_goals(self) -> list[Goal]:
        given = [self.run.holds("step", 0), z3.Not(self.run.holds("start", 0)), z3.Not(self.run.holds("last", 0))]
        goals = [Goal("last", [], self.run.holds("last", 0) == self.carried(-1))]
        for level in self.levels:
            now, after = self.remaining(level, 0), self.remaining(level, 1)
            ends = now == 0
            wanted = z3.If(ends, self.last_index(level, 0), now - 1)
            goals.append(Goal(f"index {level}", given, after == z3.If(self.carried(level), wanted, now)))
            bounds = [z3.ULE(self.remaining(level, cycle), self.last_index(level, cycle)) for cycle in (0, 1)]
            goals.append(Goal(f"bounds of index {level}", [*given, bounds[0]], bounds[1]))
        return goals + [goal for slot in self.walker.slots for goal in self.address_goals(slot, given)]

    def address_goals(self, slot: str, given: list[z3.BoolRef]) -> list[Goal]:
        """One for each loop that may be the one that moves on: all inside it are at their last index, it is not.

        That the claim holds before the step is put in as what it says of the parts: the differences of the origins.
        """
        width = self.walker.slot_shape(slot).width
        zero = z3.BitVecVal(0, width)
        total = self.run.at(f"{slot}_origin_0", 0)
        parts = [z3.BitVec("part_0", width) if self.walker.strides_at(slot, 0) else zero]
        base = total - parts[0]
        for level in self.levels[1:]:
            moves = bool(self.walker.strides_at(slot, level))
            origin = self.run.at(f"{slot}_origin_{level}", 0) if moves else total
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
            then = z3.And(self.addresses_are_sums(slot, base, after, 1), *kept)
            goals.append(Goal(f"address of {slot}, loop {moving}", case, then))
        return goals

    def start_goals(self) -> list[Goal]:
        return [self.start_goal(walk) for walk in self.walker.walks]

    def start_goal(self, walk: Walk) -> Goal:
        """After the start of a format's instruction all indices are 0, and bases, strides and trips are its fields."""
        format_, offset = walk.format, self.walker.depth - len(walk.loops)
        starts = [self.run.holds("start", 0), z3.Not(self.run.holds("collapse", 0))]
        claims = []
        for level in self.levels:
            loop = walk.loops[level - offset] if level >= offset else None
            trips = self.field(walk, f"trip.{loop.name}") if loop is not None else z3.BitVecVal(0, 1)
            last = self.last_index(level, 1)
            claims += [last == z3.ZeroExt(last.size() - trips.size(), trips), self.remaining(level, 1) == last]
        for slot, operand in walk.operands.items():
            width = self.walker.slot_shape(slot).width
            base = self.field(walk, f"{operand.name}.base")
            extended = (
                _extended(base, width)
                if format_.field(f"{operand.name}.base").type.is_signed
                else (z3.ZeroExt(width - base.size(), base))
            )
            claims.append(self.addresses_are_sums(slot, extended, [z3.BitVecVal(0, width)] * self.walker.depth, 1))
            for level in self.levels:
                loop = walk.loops[level - offset] if level >= offset else None
                moves = loop is not None and loop.name in operand.loops
                wanted = z3.BitVecVal(0, width)
                if moves and loop is not None:
                    wanted = _extended(self.field(walk, f"{operand.name}.{loop.name}"), width)
                claims.append(self.stride(slot, level, 1) == wanted)
        opcode = self.field(walk, OPCODE) == format_.opcode
        return Goal(f"start of {format_.mnemonic}", [*starts, opcode], z3.And(*claims))

    def field(self, walk: Walk, name: str) -> z3.BitVecRef:
        of = walk.format.field(name)
        return z3.Extract(of.low_bit + of.type.bits - 1, of.low_bit, self.run.at("bits", 0))


def _extended(bits: z3.BitVecRef, width: int) -> z3.BitVecRef:
    return z3.SignExt(width - bits.size(), bits)
