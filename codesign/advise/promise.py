"""Which changes are tried first: those of what bounds most cycles, and before the others those that add something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.trials import Trial

HELPS: Mapping[str, tuple[str, ...]] = {
    "array": ("compute",),
    "lanes": ("vector",),
    "dram": ("dram",),
    "memories": ("dram",),
    "fetch_beats": ("dram",),
    "engines": ("vector", "dram"),
}
"""By the first part of a key: what bounds the layers that a step of it may help."""


def most_promising_first(changes: Sequence[Change], base: Trial) -> list[int]:
    """The places of changes in the order in which they are best tried; of equals in the order that they have."""
    bounds: dict[str, int] = {}
    for layers in base.layers.values():
        for layer in layers.values():
            bounds[layer.bound] = bounds.get(layer.bound, 0) + layer.cycles

    def promise(place: int) -> tuple[bool, int]:
        change = changes[place]
        adds = change.way in (Way.UP, Way.ON, Way.CHOICE)
        helped = {bound for name in change.over for bound in HELPS.get(name, ())}
        return not adds, -sum(bounds.get(bound, 0) for bound in helped)

    return sorted(range(len(changes)), key=promise)
