"""From the beats of a program to its instructions, which are of several lengths and begin anywhere in a beat."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.encoding import OPCODE_BITS, WORD_BYTES
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import assembly_bytes, program_unit_bytes
from tilewright.rtl.beats import is_below, rotated


class ProgramBeat(data.StructLayout):
    """A beat of a program: how many of its units are the program's, and whether the bus reports an error.

    A unit is a word, or a beat that is shorter. All units are the program's but in its last beat.
    """

    def __init__(self, machine: Machine) -> None:
        bus_bytes = machine.dram.bus_bytes
        units = unsigned((bus_bytes // program_unit_bytes(bus_bytes)).bit_length())
        super().__init__({"data": unsigned(8 * bus_bytes), "units": units, "error": unsigned(1)})


class AssembledInstruction(data.StructLayout):
    """An instruction's bits, anything behind its last word, and whether the bus reported an error for a beat of it."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({"bits": unsigned(8 * machine.longest_instruction_bytes), "error": unsigned(1)})


class Assembler(wiring.Component):
    """Holds the oldest instruction, and of its last beat what is behind it.

    It takes a beat while the oldest instruction is not whole or is being taken, if all of the beat fits behind what is
    left. The words of an instruction that is taken make room for those behind them. An unknown opcode has one word.
    A beat with an error adds nothing and is the last one: the instruction that it leaves without an end has the error.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        bus_bytes = machine.dram.bus_bytes
        unit_bytes = program_unit_bytes(bus_bytes)
        self.unit_bits = 8 * unit_bytes
        self.beat_units = bus_bytes // unit_bytes
        self.capacity = assembly_bytes(machine.longest_instruction_bytes, bus_bytes) // unit_bytes
        self.opcodes: dict[int, list[int]] = {}  # by length in units
        for format in machine.formats.values():
            self.opcodes.setdefault(format.bytes // unit_bytes, []).append(format.opcode)
        shortest = min(self.opcodes)
        can_fit_behind = self.beat_units > shortest  # a whole instruction, of the beat that ends the one before it
        self.most_left = self.capacity - shortest if can_fit_behind else self.beat_units - 1
        super().__init__(
            {
                "beats": In(stream.Signature(ProgramBeat(machine))),
                "output": Out(stream.Signature(AssembledInstruction(machine))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window = Signal(self.capacity * self.unit_bits, reset_less=True)  # the oldest unit lowest
        counts = range(self.capacity + 1)
        held, length, behind = (Signal(counts, name=name) for name in ("held", "length", "behind"))
        is_whole, is_taken, joins, has_error = (
            Signal(name=name) for name in ("is_whole", "is_taken", "joins", "has_error")
        )
        self.build_length(m, window, length)
        beat = self.beats.payload
        m.d.comb += [
            is_whole.eq(held >= length),
            behind.eq(held - length),
            self.output.valid.eq(is_whole | has_error),
            self.output.payload.bits.eq(window),
            self.output.payload.error.eq(~is_whole),
            is_taken.eq(is_whole & self.output.ready),
            self.beats.ready.eq(~has_error & (~is_whole | (is_taken & (behind <= self.capacity - self.beat_units)))),
            joins.eq(self.beats.valid & self.beats.ready),
        ]
        m.d.sync += [
            held.eq(Mux(is_taken, behind, held) + Mux(joins & ~beat.error, beat.units, 0)),
            has_error.eq(has_error | (joins & beat.error)),
            window.eq(Cat(self.next_units(m, window, held, behind, is_taken))),
        ]
        return m

    def build_length(self, m: Module, window: Value, length: Signal) -> None:
        """The units of the oldest instruction, by its opcode."""
        with m.Switch(window[:OPCODE_BITS]):
            for units, opcodes in self.opcodes.items():
                with m.Case(*opcodes):
                    m.d.comb += length.eq(units)
            with m.Default():
                m.d.comb += length.eq(8 * WORD_BYTES // self.unit_bits)

    def next_units(self, m: Module, window: Signal, held: Signal, behind: Signal, is_taken: Signal) -> list[Value]:
        """The units of the next cycle: those that are left, from the lowest place on, then those of a beat.

        What is behind the last unit that is held may be anything, so nobody asks whether a beat comes.
        """
        bits, place = self.unit_bits, (self.beat_units - 1).bit_length()
        turned = rotated(m, self.beats.payload.data, Mux(is_taken, behind, held)[:place], bits, "turned")
        moved = self.build_moved(m, window)
        units = []
        for n in range(self.capacity):
            stays, joins = window.word_select(n, bits), turned.word_select(n % self.beat_units, bits)
            if n < self.most_left:
                moves = Mux(is_below(n, behind), moved.word_select(n, bits), joins)
                units.append(Mux(is_taken, moves, Mux(is_below(n, held), stays, joins)))
            else:
                units.append(Mux(~is_taken & is_below(n, held), stays, joins))
        return units

    def build_moved(self, m: Module, window: Signal) -> Signal:
        """The units behind the oldest instruction, by its opcode."""
        moved = Signal(self.most_left * self.unit_bits)
        with m.Switch(window[:OPCODE_BITS]):
            for units, opcodes in self.opcodes.items():
                with m.Case(*opcodes):
                    m.d.comb += moved.eq(window[units * self.unit_bits :])
        return moved
