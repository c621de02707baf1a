"""The loop-nest walker: the addresses of an instruction's operands, one iteration a step, by addition alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import OPCODE, InstructionFormat, Loop, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.vector import PARTS, ROWS, vector_walk
from tilewright.rtl.bounds import is_outside
from tilewright.rtl.gating import clocked_when
from tilewright.rtl.layout import instruction_view
from tilewright.rtl.outline import outlined


@dataclass(frozen=True, slots=True)
class FormatWalk:
    """What a walker does for one format.

    `loops`, outermost first, are walked (a prefix of the format's loops, or all). `operands` says which operand is in
    which of the walker's slots; slots that a format does not use are left out. `groups` names sets of loops
    for which the walker tells the first and last iteration, for example the reduce loops. Loops without fields, over
    the rows of a weight tile and the parts of a word, have their trip counts in `counts`. What moves over rows goes
    word by word; nothing moves over parts.
    """

    format: InstructionFormat
    loops: tuple[Loop, ...]
    operands: Mapping[str, Operand]
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def whole_walk(format: InstructionFormat, operands: Mapping[str, Operand]) -> FormatWalk:
    """A walk over all loops of a format, with the groups of its `vector_walk`; `operands` are of that, too."""
    walked = vector_walk(format)
    return FormatWalk(format, walked.loops, operands, walked.groups, walked.counts)


class NestWalker(wiring.Component):
    """Walks the nests of an engine's formats: in every cycle the addresses and flags of the current iteration.

    In a cycle with `start`, the instruction in `bits` is taken (also in the cycle of a `step`, which it overrides); its
    first iteration is current from the next cycle on. `step` moves to the next iteration. With `collapse` set beside
    `start`, the innermost walked loop counts as having one iteration.

    Per slot, `address[slot]` is the first word (for DRAM, the byte offset) of the current iteration's access,
    `following[slot]` that of the next iteration, if there is one. `is_bad[slot]` says that the current access is
    outside its memory or across two banks (never so for DRAM, or in a slot that the format leaves empty); `fault` and
    `fault_address` are those of the first bad slot in the order of `slots`. Per group, `is_first[group]` and
    `is_last[group]` say that all its loops are at their first or last index. `last` is the nest's last iteration;
    `walk` is the position of the current instruction's format in `walks`; `row` and `part`, where a walk has these, how
    many of them come behind the current one. All are registers or functions of registers.

    Addresses stay exact as long as the engine stops at the first bad one. Formats with fewer loops are
    aligned at the innermost.
    """

    def __init__(self, machine: Machine, walks: Sequence[FormatWalk]) -> None:
        self.machine = machine
        self.walks = tuple(walks)
        self.slots = tuple(dict.fromkeys(slot for walk in walks for slot in walk.operands))
        self.groups = tuple(dict.fromkeys(group for walk in walks for group in walk.groups))
        self.depth = max([1, *(len(walk.loops) for walk in walks)])
        self.rows, self.parts = (max([1, *(walk.counts.get(of, 1) for walk in walks)]) for of in (ROWS, PARTS))
        super().__init__(
            {
                "bits": In(unsigned(8 * machine.longest_instruction_bytes)),
                "start": In(1),
                "collapse": In(1),
                "step": In(1),
                "walk": Out(range(max(2, len(self.walks)))),
                "last": Out(1),
                **({"row": Out(range(self.rows))} if self.rows > 1 else {}),
                **({"part": Out(range(self.parts))} if self.parts > 1 else {}),
                "fault": Out(1),
                "fault_address": Out(signed(max([2, *(self.slot_shape(slot).width for slot in self.slots)]))),
                **{f"address_{slot}": Out(self.slot_shape(slot)) for slot in self.slots},
                **{f"following_{slot}": Out(self.slot_shape(slot)) for slot in self.slots},
                **{f"is_bad_{slot}": Out(1) for slot in self.slots},
                **{f"is_first_{group}": Out(1) for group in self.groups},
                **{f"is_last_{group}": Out(1) for group in self.groups},
            }
        )
        self.address = {slot: getattr(self, f"address_{slot}") for slot in self.slots}
        self.following = {slot: getattr(self, f"following_{slot}") for slot in self.slots}
        self.is_bad = {slot: getattr(self, f"is_bad_{slot}") for slot in self.slots}
        self.is_first = {group: getattr(self, f"is_first_{group}") for group in self.groups}
        self.is_last = {group: getattr(self, f"is_last_{group}") for group in self.groups}

    def slot_shape(self, slot: str) -> Shape:
        """Signed; holds any base, and any stride away from any valid address, of the operands in a slot."""
        widths = []
        for walk in self.walks:
            if slot not in walk.operands:
                continue
            operand = walk.operands[slot]
            strides = [_stride_bits(walk, operand, loop) - 1 for loop in walk.loops if loop.name in operand.loops]
            reach = max([_address_bits(self.machine, operand.memory), *strides])
            widths += [reach + 2, walk.format.field(f"{operand.name}.base").type.bits + 1]
        return signed(max(widths))

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        loops = self.build_loops(m)
        for slot in self.slots:
            self.build_address(m, slot, loops)
            self.build_check(m, slot)
        self.build_flags(m, loops)
        self.build_fault(m)
        return clocked_when(self.machine, m, self.start | self.step)

    def build_loops(self, m: Module) -> list[_LoopState]:
        """Counters of the loops, outermost first, and the registers that a start fills."""
        loops = [_LoopState(self.loop_bits(level), level) for level in range(self.depth)]
        is_carried: Value = Const(1)
        for loop in reversed(loops):
            m.d.comb += loop.is_carried.eq(is_carried)
            is_carried = is_carried & loop.is_last
            with m.If(self.step & loop.is_carried):
                m.d.sync += [
                    loop.remaining.eq(Mux(loop.is_last, loop.last_index, loop.remaining - 1)),
                    loop.is_first.eq(loop.is_last),
                    loop.is_last.eq(loop.is_last_next),
                ]
        with m.If(self.start):
            for loop in loops:
                m.d.sync += loop.is_first.eq(1)
            for position, walk in self.opcode_cases(m):
                m.d.sync += self.walk.eq(position)
                for level, loop in enumerate(loops):
                    last_index = self.stored_last_index(walk, level)
                    m.d.sync += [
                        loop.last_index.eq(last_index),
                        loop.remaining.eq(last_index),
                        loop.is_last.eq(last_index == 0),
                    ]
        return loops

    def opcode_cases(self, m: Module) -> Iterator[tuple[int, FormatWalk]]:
        """Yield each walk inside the case of its opcode in `bits`."""
        if len(self.walks) == 1:
            yield 0, self.walks[0]
            return
        with m.Switch(instruction_view(self.walks[0].format, self.bits)[OPCODE]):
            for position, walk in enumerate(self.walks):
                with m.Case(walk.format.opcode):
                    yield position, walk

    def loop_at(self, walk: FormatWalk, level: int) -> Loop | None:
        """The loop of a walk at a level of the walker, or None outside a shorter nest."""
        position = level - (self.depth - len(walk.loops))
        return walk.loops[position] if position >= 0 else None

    def level_of(self, walk: FormatWalk, name: str) -> int:
        """The level of the walker at which a walk has a loop."""
        return self.depth - len(walk.loops) + [loop.name for loop in walk.loops].index(name)

    def loop_bits(self, level: int) -> int:
        loops = [self.loop_at(walk, level) for walk in self.walks]
        return max(loop.bits if loop is not None else 1 for loop in loops)

    def stored_last_index(self, walk: FormatWalk, level: int) -> Value:
        loop = self.loop_at(walk, level)
        if loop is None:
            return Const(0)
        if loop.name in walk.counts:
            stored = Const(walk.counts[loop.name] - 1)
        else:
            stored = instruction_view(walk.format, self.bits)[f"trip.{loop.name}"]
        return Mux(self.collapse, 0, stored) if level == self.depth - 1 else stored

    def build_address(self, m: Module, slot: str, loops: list[_LoopState]) -> None:
        """Registers `origin[level]`: the address at the start of the current iteration of the loop at that level.

        The innermost is the current address. When loop `l` moves on, it and all inside it restart at
        origin[l] + stride[l]. A loop over which no operand of the slot strides has the origin of the loop around it.
        """
        shape = self.slot_shape(slot)
        moving = [self.strides_at(slot, level) for level in range(self.depth)]
        origins: list[Signal] = []
        strides: list[Value] = []
        for level in range(self.depth):
            if moving[level] or level == 0:
                origins.append(Signal(shape, name=f"{slot}_origin_{level}", reset_less=True))
            else:
                origins.append(origins[-1])
            if moving[level]:
                strides.append(Signal(signed(moving[level]), name=f"{slot}_stride_{level}", reset_less=True))
            else:
                strides.append(Const(0, signed(1)))
        origin, stride = Signal(shape, name=f"{slot}_from"), Signal(shape, name=f"{slot}_by")
        for level in reversed(range(self.depth)):
            guard = m.If if level == self.depth - 1 else m.Elif
            with guard(~loops[level].is_last if level else Const(1)):  # any address behind the last iteration
                m.d.comb += [origin.eq(origins[level]), stride.eq(strides[level])]
        following = self.following[slot]
        m.d.comb += [following.eq(origin + stride), self.address[slot].eq(origins[-1])]
        for level in range(self.depth):
            if moving[level]:
                with m.If(self.step & loops[level].is_carried):
                    m.d.sync += origins[level].eq(following)
        with m.If(self.start):
            for _, walk in self.opcode_cases(m):
                if slot in walk.operands:
                    self.load_operand(m, walk, walk.operands[slot], moving, origins, strides)

    def load_operand(
        self,
        m: Module,
        walk: FormatWalk,
        operand: Operand,
        moving: list[int],
        origins: list[Signal],
        strides: list[Value],
    ) -> None:
        view = instruction_view(walk.format, self.bits)
        for level in range(self.depth):
            if moving[level] or level == 0:
                m.d.sync += origins[level].eq(view[f"{operand.name}.base"])
            if moving[level]:
                loop = self.loop_at(walk, level)
                moves = loop is not None and loop.name in operand.loops
                if moves and loop is not None and loop.name == ROWS:
                    m.d.sync += strides[level].eq(1)
                    continue
                m.d.sync += strides[level].eq(view[f"{operand.name}.{loop.name}"] if moves and loop is not None else 0)

    def strides_at(self, slot: str, level: int) -> int:
        """Bits of the widest stride that an operand in a slot has at a level; 0 if none moves there."""
        widths = [0]
        for walk in self.walks:
            loop, operand = self.loop_at(walk, level), walk.operands.get(slot)
            if loop is not None and operand is not None and loop.name in operand.loops:
                widths.append(_stride_bits(walk, operand, loop))
        return max(widths)

    def build_check(self, m: Module, slot: str) -> None:
        def is_bad(walk: FormatWalk) -> Value:
            operand = walk.operands.get(slot)
            if operand is None or operand.memory == DRAM:
                return Const(0)
            return is_outside(self.address[slot], self.machine.memories[operand.memory], operand.block)

        self.select(m, self.is_bad[slot], is_bad)

    def build_flags(self, m: Module, loops: list[_LoopState]) -> None:
        m.d.comb += self.last.eq(Cat(loop.is_last for loop in loops).all())
        if self.rows > 1:
            m.d.comb += self.row.eq(loops[-1].remaining)
        if self.parts > 1:
            self.select(m, self.part, lambda walk: loops[self.level_of(walk, PARTS)].remaining)
        for group in self.groups:
            self.select(m, self.is_first[group], partial(self.all_in_group, loops, group, "is_first"))
            self.select(m, self.is_last[group], partial(self.all_in_group, loops, group, "is_last"))

    def all_in_group(self, loops: list[_LoopState], group: str, flag: str, walk: FormatWalk) -> Value:
        """Whether a flag is set in every loop of a walk's group; 1 if the group is empty."""
        value: Value = Const(1)
        for level, state in enumerate(loops):
            loop = self.loop_at(walk, level)
            if loop is not None and loop.name in walk.groups.get(group, frozenset()):
                value = value & getattr(state, flag)
        return value

    def build_fault(self, m: Module) -> None:
        for slot in reversed(self.slots):
            with m.If(self.is_bad[slot]):
                m.d.comb += [self.fault.eq(1), self.fault_address.eq(self.address[slot])]

    def select(self, m: Module, target: Value, value_of: Callable[[FormatWalk], Value]) -> None:
        """Drive a signal with the value for the current instruction's format."""
        select_of_walk(m, self.walks, self.walk, target, value_of)


def select_of_walk(
    m: Module, walks: Sequence[FormatWalk], walk: Value, target: Value, value_of: Callable[[FormatWalk], Value]
) -> None:
    """Drive a signal with the value for the one of several walks whose position is given."""
    if len(walks) == 1:
        m.d.comb += target.eq(value_of(walks[0]))
        return
    with m.Switch(walk):
        for position, each in enumerate(walks):
            with m.Case(position):
                m.d.comb += target.eq(value_of(each))


class _LoopState:
    """Registers of one level, and `is_carried`: every loop inside is at its last index.

    `is_last` says that none is `remaining`. It is a register because so much waits for it.
    """

    def __init__(self, bits: int, level: int) -> None:
        self.last_index = Signal(bits, name=f"last_index_{level}", reset_less=True)
        self.remaining = Signal(bits, name=f"remaining_{level}", reset_less=True)
        self.is_first = Signal(name=f"is_first_{level}", reset_less=True)
        self.is_last = Signal(name=f"is_last_{level}", reset_less=True)
        self.is_carried = Signal(name=f"is_carried_{level}")

    @property
    def is_last_next(self) -> Value:
        """Whether the next index is the last: after the last comes the first, which is the last one of a single one."""
        return Mux(self.is_last, self.is_first, self.remaining == 1)


def _stride_bits(walk: FormatWalk, operand: Operand, loop: Loop) -> int:
    if loop.name == ROWS:
        return 1 + 1  # of 1, and a sign
    return walk.format.field(f"{operand.name}.{loop.name}").type.bits


def _address_bits(machine: Machine, memory: str) -> int:
    return machine.dram.offset_bits if memory == DRAM else machine.memories[memory].address_bits
