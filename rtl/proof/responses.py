"""The store engine's responses: an instruction retires with the answer to its last burst, and with no other."""

from __future__ import annotations

from dataclasses import dataclass

import z3

from tilewright.rtl.proof.engine import owed_goals
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import SubmoduleNets
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.result import Goal
from tilewright.rtl.responses import PENDING_BITS


def retire_goals(contexts: int, nets: SubmoduleNets) -> list[Goal]:
    """Contexts in use are a ring from the oldest to the newest; a burst without an answer belongs to one of them.

    Assumed: the bus answers bursts that were sent and nothing else, and no subordinate holds 2**PENDING_BITS - 1
    bursts. The address side steps while it is active only.
    """
    ring, slots = _Ring(nets, nets.part("responses"), contexts), range(contexts)
    active, answers = nets.holds("bursts.is_active"), nets.holds("bvalid")
    starts, steps = nets.moves("instruction"), nets.holds("step")
    ends = all_of(steps, nets.holds("bursts.is_last"))
    active_next = any_of(starts, all_of(active, z3.Not(ends)))  # as rtl/proof/bursts.py proves
    most = (1 << PENDING_BITS) - 1
    assumed = [
        z3.Not(nets.holds("halt")),
        z3.Implies(answers, any_of(*(ring.pending(slot, 0) != 0 for slot in slots))),
        *(z3.ULT(ring.pending(slot, 0), most) for slot in slots),
    ]
    given = [ring.invariant(0, active), *assumed]
    retires = nets.holds("retire")
    last = [z3.Implies(ring.oldest(0) == slot, ring.pending(slot, 0) == 1) for slot in slots]
    return [
        Goal("reset", [nets.run.starts_from_reset()], ring.invariant(0, z3.BoolVal(False))),
        Goal("contexts", given, ring.invariant(1, active_next)),
        Goal("an answer is the oldest's", given, all_of(*(ring.answered(slot, steps, answers) for slot in slots))),
        Goal("with the last answer", [*given, retires], all_of(answers, *last)),
        *owed_goals(nets, lambda cycle: [ring.started(cycle)], given),
    ]


@dataclass(frozen=True, slots=True)
class _Ring:
    """The contexts, and how many bursts of each have no answer yet."""

    nets: SubmoduleNets
    responses: SubmoduleNets
    contexts: int

    def newest(self, cycle: int) -> z3.BitVecRef:
        return self.responses.natural("newest", cycle)

    def oldest(self, cycle: int) -> z3.BitVecRef:
        return self.responses.natural("oldest", cycle)

    def started(self, cycle: int) -> z3.BitVecRef:
        return self.nets.natural("started", cycle)

    def pending(self, slot: int, cycle: int) -> z3.BitVecRef:
        return self.responses.natural(f"pending_{slot}", cycle)

    def is_used(self, slot: int, cycle: int) -> z3.BoolRef:
        behind = number(slot) - self.oldest(cycle)
        distance = z3.If(z3.ULE(self.oldest(cycle), slot), behind, behind + self.contexts)
        return z3.ULT(distance, self.started(cycle))

    def invariant(self, cycle: int, active: z3.BoolRef) -> z3.BoolRef:
        """What holds in every cycle; `active`: the newest instruction's bursts are not all addressed."""
        started = self.started(cycle)
        end = self.oldest(cycle) + started + self.contexts - 1
        wrapped = z3.URem(end, number(self.contexts))
        claims = [z3.ULE(started, self.contexts), self.newest(cycle) == wrapped]
        claims += [z3.ULT(self.oldest(cycle), self.contexts)]
        for slot in range(self.contexts):
            used, pending = self.is_used(slot, cycle), self.pending(slot, cycle)
            done = self.responses.holds(f"is_addressed_{slot}", cycle)
            is_newest = self.newest(cycle) == slot
            claims += [
                z3.Implies(z3.Not(used), pending == 0),
                z3.Implies(used, done == z3.Not(all_of(is_newest, active))),
                z3.Implies(all_of(used, done), pending != 0),
            ]
        return all_of(*claims, z3.Implies(active, started != 0))

    def answered(self, slot: int, steps: z3.BoolRef, answers: z3.BoolRef) -> z3.BoolRef:
        """A burst that is addressed counts for the newest, an answer for the oldest, which has asked for it."""
        joins, leaves = all_of(steps, self.newest(0) == slot), all_of(answers, self.oldest(0) == slot)
        counted = self.pending(slot, 1) + one_if(leaves) == self.pending(slot, 0) + one_if(joins)
        return all_of(counted, z3.Implies(leaves, self.pending(slot, 0) != 0))
