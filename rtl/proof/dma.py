"""What the proofs of load and store share: words that are moved in parts of a beat's size."""

from __future__ import annotations

import z3

from tilewright.isa.templates.dma import moved_word_bytes
from tilewright.isa.timing import word_parts
from tilewright.rtl.load import LoadEngine
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import SubmoduleNets
from tilewright.rtl.proof.numbers import number
from tilewright.rtl.proof.result import Goal
from tilewright.rtl.store import StoreEngine


def address_side_goals(nets: SubmoduleNets) -> list[Goal]:
    """What the bursts' own proofs assume: an instruction is taken when they are done with the one before."""
    bursts = nets.part("bursts")
    active, ends = bursts.holds("is_active"), bursts.holds("is_last")
    starts, step = nets.holds("start"), nets.holds("step")
    same = bursts.at("instruction") == z3.Concat(
        nets.at("instruction__payload.index"), nets.at("instruction__payload.bits")
    )
    return [
        Goal("bursts step when active", [step], active),
        Goal("bursts start when free", [starts], any_of(z3.Not(active), all_of(step, ends))),
        Goal("bursts of the instruction", [], all_of(starts == nets.moves("instruction"), z3.Implies(starts, same))),
    ]


class DmaEngine:
    """A DMA engine in which one part, `walking`, walks the words of instructions while its net `is_active` is set."""

    def __init__(self, engine: LoadEngine | StoreEngine, walking: str, is_active: str) -> None:
        self.machine = engine.machine
        self.formats = engine.formats
        self._walking, self._is_active = walking, is_active

    def is_format(self, nets: SubmoduleNets, name: str, position: int, cycle: int = 0) -> z3.BoolRef:
        return nets.at(name, cycle) == position if len(self.formats) > 1 else z3.BoolVal(True)

    def parts(self, position: int) -> int:
        """Of a word of a format."""
        return word_parts(moved_word_bytes(self.formats[position], self.machine), self.machine.dram.bus_bytes)

    def place(self, nets: SubmoduleNets, cycle: int = 0, name: str = "place") -> z3.BitVecRef:
        """The part of its word that comes next, or another part's number; words of one part need no number for it."""
        one = all(self.parts(position) == 1 for position in range(len(self.formats)))
        return number(0) if one else nets.natural(f"{self._walking}.{name}", cycle)

    def is_inside(self, nets: SubmoduleNets, cycle: int = 0) -> z3.BoolRef:
        """The part that comes next is a word's first, or one that the word has."""
        place, insides = self.place(nets, cycle), [self.place(nets, cycle) == 0]
        for position in range(len(self.formats)):
            is_format = self.is_format(nets, f"{self._walking}.walker.walk", position, cycle)
            is_active = nets.holds(f"{self._walking}.{self._is_active}", cycle)
            insides.append(all_of(is_active, is_format, z3.ULT(place, self.parts(position))))
        return any_of(*insides)
