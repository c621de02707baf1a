"""The table of the engines: what each did in every cycle of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.terminal.tables import print_table

if TYPE_CHECKING:
    from tilewright.simulator.run_profile import RunProfile


def print_engines(profile: RunProfile) -> None:
    """A column for each engine, a row for each use of its cycles; every column adds up to the run."""
    engines = profile.engines
    if not engines:
        print(f"{profile.isa}'s hardware does not count what its engines do: `counters: all` in its file does.")
        return
    uses = {
        name: {
            "busy": of.busy,
            **_prefixed("wait", of.wait),
            **_prefixed("stall", of.stall),
            "idle": of.idle,
        }
        for name, of in engines.items()
    }
    labels = dict.fromkeys(label for counts in uses.values() for label in counts)
    rows = [(label, *(of.get(label, 0) for of in uses.values())) for label in labels]
    total = ("total", *(sum(of.values()) for of in uses.values()))
    print_table("Engines, in cycles", ("cycles", *engines), [*rows, total])


def _prefixed(kind: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{kind} {cause}": count for cause, count in counts.items()}
