"""Iterations from registers: those of the walker come one after the other, none lost, none twice, checks included."""

from __future__ import annotations

from collections.abc import Callable

import z3

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.rtl.nest import FormatWalk, NestWalker
from tilewright.rtl.nest_ahead import ChipWalker, NestAhead
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.nest import in_one_bank, walker_claims
from tilewright.rtl.proof.netlist import NetlistRun, SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.vector import vector_walks

PLACES = ("current", "second")
"""Where an iteration is: that which is shown, and that behind it."""


def vector_iterations(machine: Machine, engine: Engine) -> Subject:
    """The iterations of a vector engine that has them from registers."""
    walker = NestAhead(machine, vector_walks(machine, engine))
    return Subject(netlist(walker), chip_walker_claims(walker, engine.name, ""))


def chip_walker_claims(walker: ChipWalker, whose: str, prefix: str) -> list[Claim]:
    """What is claimed of what walks on chip at a place of a netlist; `prefix` ends with a dot, or is empty."""
    if isinstance(walker, NestWalker):
        return walker_claims(walker, whose, prefix)

    def goals(run: NetlistRun) -> list[Goal]:
        return _Ahead(walker, SubmoduleNets(run, prefix)).goals()

    ahead = Claim(f"{whose}: iterations pass in order", "all inputs, inductive", goals)
    return [*walker_claims(walker.walker, whose, f"{prefix}behind.walker."), ahead]


def checks(walker: ChipWalker, nets: SubmoduleNets) -> list[z3.BoolRef]:
    """What is proved of the iterations that wait, for those who ask for what is shown: its checks are of its words."""
    return [_Ahead(walker, nets).are_checked(0)] if isinstance(walker, NestAhead) else []


def places_in_order(walker: ChipWalker, nets: SubmoduleNets, cycle: int) -> list[z3.BoolRef]:
    """What is proved of the places of iterations: a second one is behind a first one."""
    return [_Ahead(walker, nets).is_filled_in_order(cycle)] if isinstance(walker, NestAhead) else []


def walks(walker: ChipWalker, nets: SubmoduleNets, cycle: int) -> list[z3.BitVecRef]:
    """The numbers of all formats that a walker has at once, as natural numbers."""
    places = ("walk", "second.walk", "found.walk") if isinstance(walker, NestAhead) else ("walk",)
    return [nets.natural(name, cycle) for name in places]


def in_order(walker: ChipWalker, nets: SubmoduleNets, is_active: Callable[[int], z3.BoolRef]) -> list[Goal]:
    """Of an engine that takes an instruction with the last step of the one before, or later: it never asks too soon."""
    if isinstance(walker, NestWalker):
        return []
    ahead = _Ahead(walker, nets)
    is_reset, starts = nets.run.starts_from_reset(), nets.holds("start")
    given = [ahead.is_filled_in_order(0), ahead.is_of_one(is_active, 0)]
    return [
        Goal("nothing ahead after reset", [is_reset], ahead.is_of_one(is_active, 0)),
        Goal("nothing ahead of an instruction's last", given, ahead.is_of_one(is_active, 1)),
        Goal("only what is there", given, z3.Implies(nets.holds("step"), nets.holds("valid"))),
        Goal("only when ready", given, z3.Implies(starts, nets.holds("ready"))),
    ]


class _Ahead:
    def __init__(self, ahead: NestAhead, nets: SubmoduleNets) -> None:
        self.ahead = ahead
        self.nets = nets

    def goals(self) -> list[Goal]:
        """Assumed, and proved of each engine: it steps when an iteration is there, and starts when the walker is ready.

        An iteration that the walker gives becomes the current one, or the second behind one that stays.
        """
        nets, walker = self.nets, self.nets.part("behind.walker")
        valid, second, step, gives = (nets.holds(name) for name in ("valid", "has_second", "step", "gives"))
        given = [self.is_filled_in_order(0), z3.Implies(step, valid)]
        waiting = self.is_walking(0)
        leaves, ends = any_of(step, z3.Not(valid)), all_of(gives, walker.holds("last"))
        held = [one_if(valid) + one_if(second), one_if(nets.holds("valid", 1)) + one_if(nets.holds("has_second", 1))]
        takes = all_of(walker.holds("start") == nets.holds("start"), walker.at("bits") == nets.at("bits"))
        return [
            Goal("reset", [nets.run.starts_from_reset()], all_of(self.is_filled_in_order(0), z3.Not(valid))),
            Goal("order of places", given, self.is_filled_in_order(1)),
            Goal("none lost, none twice", given, held[1] + one_if(step) == held[0] + one_if(gives)),
            Goal("take", [], takes),
            Goal("walker goes on", [], walker.holds("step") == gives),
            Goal("as registered", [], gives == all_of(waiting, z3.Not(second))),
            Goal("ready", [], nets.holds("ready") == any_of(z3.Not(waiting), ends)),
            Goal("walks", [], self.is_walking(1) == any_of(nets.holds("start"), all_of(waiting, z3.Not(ends)))),
            Goal("stays", [*given, z3.Not(leaves)], self.same("current", 1, "current", 0)),
            Goal("from the second place", [*given, leaves, second], self.same("current", 1, "second", 0)),
            Goal("at once", [*given, leaves, z3.Not(second)], self.same("current", 1, "found", 0)),
            Goal("waits", [*given, z3.Not(leaves), second], self.same("second", 1, "second", 0)),
            Goal("into the second place", [*given, z3.Not(leaves), gives], self.same("second", 1, "found", 0)),
            Goal("checked", [*given, self.are_checked(0)], self.are_checked(1)),
        ]

    def is_walking(self, cycle: int) -> z3.BoolRef:
        return self.nets.holds("is_walking", cycle)

    def is_filled_in_order(self, cycle: int) -> z3.BoolRef:
        return z3.Implies(self.nets.holds("has_second", cycle), self.nets.holds("valid", cycle))

    def is_of_one(self, is_active: Callable[[int], z3.BoolRef], cycle: int) -> z3.BoolRef:
        """What waits is of the active instruction, up to its last iteration and no further."""
        valid, second = (self.nets.holds(name, cycle) for name in ("valid", "has_second"))
        walking = self.is_walking(cycle)
        is_last = {place: self.nets.holds(self.net(place, "last"), cycle) for place in PLACES}
        return all_of(
            is_active(cycle) == any_of(valid, second, walking),
            z3.Implies(valid, is_last["current"] == z3.Not(any_of(second, walking))),
            z3.Implies(second, is_last["second"] == z3.Not(walking)),
        )

    def net(self, place: str, name: str) -> str:
        """What is called so in a place: that which is shown, the second, or what the walker gives."""
        return name if place == "current" else f"{place}.{name}"

    def same(self, to: str, later: int, of: str, cycle: int) -> z3.BoolRef:
        """All that a place has, and is looked at, is what another had."""
        pairs = [(self.net(to, name), self.net(of, name)) for name in self.ahead.kept]
        known = [pair for pair in pairs if all(map(self.nets.has, pair))]
        return all_of(*(self.nets.at(new, later) == self.nets.at(old, cycle) for new, old in known))

    def are_checked(self, cycle: int) -> z3.BoolRef:
        there = {"current": self.nets.holds("valid", cycle), "second": self.nets.holds("has_second", cycle)}
        return all_of(*(z3.Implies(there[place], self.is_checked(place, cycle)) for place in PLACES))

    def is_checked(self, place: str, cycle: int) -> z3.BoolRef:
        """A slot is bad exactly if its block is not inside one bank, and the fault says whether any is."""
        claims = []
        for position, walk in enumerate(self.ahead.walks):
            bad = {slot: self.is_bad(walk, slot, place, cycle) for slot in self.ahead.slots}
            says = [self.nets.holds(self.net(place, "fault"), cycle) == any_of(*bad.values())]
            for slot, is_bad in bad.items():
                if self.nets.has(name := self.net(place, f"is_bad_{slot}")):
                    says.append(self.nets.holds(name, cycle) == is_bad)
            is_walk = z3.BoolVal(True)
            if len(self.ahead.walks) > 1:
                is_walk = self.nets.natural(self.net(place, "walk"), cycle) == number(position)
            claims.append(z3.Implies(is_walk, all_of(*says)))
        return all_of(*claims)

    def is_bad(self, walk: FormatWalk, slot: str, place: str, cycle: int) -> z3.BoolRef:
        operand = walk.operands.get(slot)
        if operand is None or operand.memory == DRAM:
            return z3.BoolVal(False)
        address = self.nets.signed(self.net(place, f"address_{slot}"), cycle)
        return z3.Not(in_one_bank(address, self.ahead.machine.memories[operand.memory], operand.block))
