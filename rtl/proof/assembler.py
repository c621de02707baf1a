"""The assembler: every instruction leaves whole, in order, wherever it begins in a beat, and no unit is lost."""

from __future__ import annotations

from functools import partial

import z3

from tilewright.isa.machine.encoding import OPCODE_BITS
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import assembly_bytes, program_unit_bytes
from tilewright.rtl.assembler import Assembler
from tilewright.rtl.proof.engine import INDUCTIVE, claims_of_whole
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number
from tilewright.rtl.proof.result import Goal, Subject

METHOD = f"{INDUCTIVE}, no unknown opcode is taken"


def assembler(machine: Machine) -> Subject:
    claim = "assembler: instructions are whole and in order"
    return Subject(netlist(Assembler(machine)), claims_of_whole({claim: partial(_goals, machine)}, METHOD))


def _goals(machine: Machine, nets: SubmoduleNets) -> list[Goal]:
    """The units that are held are those of the window from the lowest on, oldest first.

    Assumed: dispatch takes no instruction with an unknown opcode, and a beat has no more units than it is wide.
    """
    bus_bytes = machine.dram.bus_bytes
    unit_bytes = program_unit_bytes(bus_bytes)
    beat, capacity = bus_bytes // unit_bytes, assembly_bytes(machine.longest_instruction_bytes, bus_bytes) // unit_bytes
    units = {opcode: of.bytes // unit_bytes for opcode, of in machine.formats_by_opcode.items()}

    def opcode(cycle: int) -> z3.BitVecRef:
        return z3.Extract(OPCODE_BITS - 1, 0, nets.at("window", cycle))

    def is_known(cycle: int) -> z3.BoolRef:
        return any_of(*(opcode(cycle) == one for one in units))

    def length(cycle: int) -> z3.BitVecRef:
        """That of the oldest instruction; an unknown one has a word."""
        found = number(max(1, 4 // unit_bytes))
        for one, own in units.items():
            found = z3.If(opcode(cycle) == one, number(own), found)
        return found

    unit = partial(_unit, size=8 * unit_bytes)

    def fits(cycle: int) -> z3.BoolRef:
        """There is room for what is held. Behind an instruction is less than a beat, unless it may hold a whole one."""
        held = nets.natural("held", cycle)
        behind = z3.Implies(all_of(held != 0, is_known(cycle)), z3.ULT(held, length(cycle) + beat))
        return all_of(z3.ULE(held, capacity), behind if beat <= min(units.values()) else z3.BoolVal(True))

    held, has_error = nets.natural("held"), nets.holds("has_error")
    is_whole, ready = z3.UGE(held, length(0)), nets.holds("output__ready")
    is_taken = all_of(is_whole, ready)
    gone = z3.If(is_taken, length(0), number(0))
    left, comes, is_refused = held - gone, nets.moves("beats"), nets.holds("beats__payload.error")
    joined = z3.If(all_of(comes, z3.Not(is_refused)), nets.natural("beats__payload.units"), number(0))
    given = [fits(0), z3.Implies(ready, is_known(0)), z3.ULE(nets.natural("beats__payload.units"), beat)]
    place, window, after = z3.BitVec("place", held.size()), nets.at("window"), nets.at("window", 1)
    wants = all_of(z3.Not(has_error), any_of(z3.Not(is_whole), all_of(is_taken, z3.ULE(left + beat, capacity))))
    shown = nets.at("output__payload.bits")
    return [
        Goal("reset", [nets.run.starts_from_reset()], all_of(held == 0, z3.Not(has_error))),
        Goal("offer", given, nets.holds("output__valid") == any_of(is_whole, has_error)),
        Goal("error", given, nets.holds("output__payload.error") == z3.Not(is_whole)),
        Goal("bits", given, shown == z3.Extract(shown.size() - 1, 0, window)),
        Goal("wants", given, nets.holds("beats__ready") == wants),
        Goal("room", given, fits(1)),
        Goal("count", given, nets.natural("held", 1) == left + joined),
        Goal("kept", [*given, z3.ULT(place, left)], unit(after, place) == unit(window, place + gone)),
        Goal(
            "joined",
            [*given, z3.ULT(place, joined)],
            unit(after, left + place) == unit(nets.at("beats__payload.data"), place),
        ),
        Goal("refused", given, nets.holds("has_error", 1) == any_of(has_error, all_of(comes, is_refused))),
    ]


def _unit(bits: z3.BitVecRef, index: z3.BitVecRef, size: int) -> z3.BitVecRef:
    """That of an index, of units of `size` bits, the lowest first."""
    found = z3.Extract(size - 1, 0, bits)
    for i in range(1, bits.size() // size):
        found = z3.If(index == i, z3.Extract(size * (i + 1) - 1, size * i, bits), found)
    return found
