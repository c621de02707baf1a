"""What holds of every engine: an instruction is taken and walked to its end, and only what started retires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import z3

from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import SubmoduleNets
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.result import Claim, Goal

INDUCTIVE = "all inputs, inductive"


def claims_of_whole(goals: Mapping[str, Callable[[SubmoduleNets], list[Goal]]], method: str = INDUCTIVE) -> list[Claim]:
    """A claim for each function from a unit's nets to goals."""

    def claim(what: str, of_nets: Callable[[SubmoduleNets], list[Goal]]) -> Claim:
        return Claim(what, method, lambda run: of_nets(run.whole()))

    return [claim(what, of_nets) for what, of_nets in goals.items()]


@dataclass(frozen=True, slots=True)
class Walking:
    """A unit that walks instructions: `starts` takes the one in `bits`, `steps` does the walker's current iteration.

    From taking an instruction to its last step the unit has `is_active`.
    """

    starts: z3.BoolRef
    bits: z3.BitVecRef
    steps: z3.BoolRef
    walker: SubmoduleNets
    is_active: Callable[[int], z3.BoolRef]

    def goals(self, given: Sequence[z3.BoolRef]) -> list[Goal]:
        """Every iteration is done once, in order, then the instruction is over: none is left out, none is added."""
        active, starts, steps = self.is_active, self.starts, self.steps
        ends = all_of(steps, self.walker.holds("last"))
        takes = all_of(self.walker.holds("start") == starts, z3.Implies(starts, self.walker.at("bits") == self.bits))
        return [
            Goal("take", given, takes),
            Goal("step", given, self.walker.holds("step") == steps),
            Goal("only when active", given, z3.Implies(steps, active(0))),
            Goal("one at a time", [*given, starts], any_of(z3.Not(active(0)), ends)),
            Goal("active", given, active(1) == any_of(starts, all_of(active(0), z3.Not(ends)))),
        ]


def owed_goals(
    nets: SubmoduleNets, in_hand: Callable[[int], Sequence[z3.BoolRef | z3.BitVecRef]], given: Sequence[z3.BoolRef] = ()
) -> list[Goal]:
    """Instructions started and not retired are those `in_hand`; so no more retire than start, while not halted."""

    def owed(cycle: int) -> z3.BitVecRef:
        total = number(0)
        for part in in_hand(cycle):
            total = total + (one_if(part) if z3.is_bool(part) else part)
        return total

    starts, retires = nets.moves("instruction"), nets.holds("retire")
    given = [*given, z3.Not(nets.holds("halt"))]
    return [
        Goal("nothing owed after reset", [nets.run.starts_from_reset()], owed(0) == 0),
        Goal("owed", given, owed(1) + one_if(retires) == owed(0) + one_if(starts)),
        Goal("retire", [*given, retires], z3.ULT(number(0), owed(0))),
    ]
