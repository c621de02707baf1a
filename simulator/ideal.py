"""Machines that could be: with a part that takes no time. No work on that part can ever bring more.

That holds because nothing in such a run can make a program slower by being faster itself. Where engines take turns, on
the ports of memories and, with fetch, on the bus, it could: what comes earlier may come at a bad time for another. In
these runs the engines and fetch never get in each other's way. What remains are the cycles that each needs by itself
and what it waits for, all of which can only be earlier when something before it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.isa.machine.machine import Machine

WITHOUT_LIMIT = 1 << 40
"""Bytes of a bus that are more than any region has."""


@dataclass(frozen=True, slots=True)
class Ideal:
    """Parts that take no time: the bus carries any burst in a cycle, DRAM answers at once, instructions take a cycle.

    Without any, only what engines and fetch cost each other is gone.
    """

    bus: bool = False
    latency: bool = False
    engines: frozenset[str] = frozenset()

    def figures(self, machine: Machine) -> dict[str, int]:
        """Parameters of the cycle model, in place of those of the machine as it is."""
        found = {"is_apart": 1, "ideal_engines": sum(1 << machine.engines[name].number for name in self.engines)}
        if self.bus:
            found |= {"bus_bytes": WITHOUT_LIMIT, "dma_window": 2 * WITHOUT_LIMIT, "assembly_bytes": 2 * WITHOUT_LIMIT}
        if self.latency:
            found |= {"latency": 0}
        return found
