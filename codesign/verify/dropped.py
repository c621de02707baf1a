"""Points that a study dropped: whether one takes no fewer cycles, when it is compiled, than it was dropped for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tilewright.codesign.explore.space import Space
from tilewright.codesign.explore.study import DROPPED, Entry, Study
from tilewright.codesign.points.evaluate import Failure, measure
from tilewright.codesign.points.network import Network
from tilewright.codesign.verify.verdict import Verdict, fails, holds
from tilewright.isa.machine.machine import Machine

TRIED = 3
"""So many of the dropped points are tried where no point is named."""


def some_dropped(study: Study) -> list[Entry]:
    """A few of the dropped points, the same each time, in no order that their keys have."""
    dropped = [entry for entry in study.entries if entry.state == DROPPED]
    return sorted(dropped, key=lambda entry: hashlib.sha256(entry.label.encode()).digest())[:TRIED]


def verify_dropped(space: Space, study: Study, entry: Entry, machine: Machine, networks: Sequence[Network]) -> Verdict:
    """Compile all networks; fails when they take fewer cycles than no program was said to go below."""
    line = study.line("dropped", entry.label, study.space_facts["version"])
    assert line is not None, "a dropped point has a line that says why"
    least, cycles = float(line["least_cycles"]), 0.0
    for network, weighted in zip(networks, space.networks, strict=True):
        found = measure(network, machine, space.effort)
        if isinstance(found, Failure):
            return holds(f"{network.name} fails in the stage {found.stage}: it would not be on the front")
        if found.host_nodes:
            return holds(f"{network.name} leaves nodes to the host: it would not be on the front")
        cycles += weighted.weight * sum(each.cycles for each in found.profiles)
    text = f"{cycles:,.0f} cycles, dropped for {least:,.0f} at best"
    return holds(text) if cycles >= least else fails(text)
