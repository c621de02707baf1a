"""With clock gating: the payload of what is on its way is written in every cycle, so that it is passed on."""

from __future__ import annotations

from collections.abc import Sequence

import z3

from tilewright.isa.machine.machine import Machine
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.netlist import SubmoduleNets
from tilewright.rtl.proof.result import Goal


def in_flight(machine: Machine, nets: SubmoduleNets, chain: Sequence[str], cycle: int) -> z3.BoolRef:
    """Payload is written for at least as many cycles as anything in the chain is from its end.

    `is_<place>` says that something is at a place of the chain. Without clock gating nothing is claimed.
    """
    if not machine.has_gated_clocks:
        return z3.BoolVal(True)
    left = nets.natural("cycles_in_flight", cycle)
    to_end = zip(chain, range(len(chain), 0, -1), strict=True)
    return all_of(*(z3.Implies(nets.holds(f"is_{at}", cycle), z3.UGE(left, cycles)) for at, cycles in to_end))


def in_flight_goals(machine: Machine, nets: SubmoduleNets, chain: Sequence[str]) -> list[Goal]:
    """That it is so after reset, and stays so."""
    if not machine.has_gated_clocks:
        return []
    reset = Goal("nothing in flight after reset", [nets.run.starts_from_reset()], in_flight(machine, nets, chain, 0))
    return [reset, Goal("in flight", [in_flight(machine, nets, chain, 0)], in_flight(machine, nets, chain, 1))]
