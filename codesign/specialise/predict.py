"""What chosen instructions should save before anything is compiled for them, beside what they do save.

A layer's array has less to do where products leave it, a vector engine where it streams fewer words; transfers are
taken to stay as they are. How much of that is saved depends on how far layers overlap, which the schedule decides: at
most if engines work on different layers all the time, at least if each layer waits for the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.advise.effects import ran
from tilewright.codesign.advise.trials import LayerCycles, Trial
from tilewright.codesign.points.evaluate import NetworkFigures
from tilewright.codesign.specialise.candidates import Candidate
from tilewright.codesign.specialise.observe import Use
from tilewright.simulator.run_profile import Resource


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles of a network: as it is, predicted if layers overlap wholly and if they do not at all, and simulated."""

    network: str
    before: int
    overlapped: int
    apart: int
    simulated: int

    @property
    def error(self) -> float:
        """Of the prediction that takes layers apart, how much too many cycles it has: 0.05 is 5 % too many."""
        return self.apart / self.simulated - 1

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "error": self.error}


def predictions(candidates: Sequence[Candidate], base: Trial, trial: Trial) -> tuple[Predicted, ...]:
    """For each network that runs."""
    after = {of.network: of.cycles for of in ran(trial)}
    return tuple(
        _predicted(candidates, of, base.layers[of.network], after[of.network])
        for of in ran(base)
        if of.network in after
    )


def _predicted(
    candidates: Sequence[Candidate], of: NetworkFigures, layers: Mapping[str, LayerCycles], simulated: int
) -> Predicted:
    uses: dict[str, list[Use]] = {}
    for candidate in candidates:
        for use in candidate.uses:
            if use.network == of.network:
                uses.setdefault(use.layer, []).append(use)
    left = {name: _left(uses.get(name, ()), layer) for name, layer in layers.items()}
    longest_before = sum(max(layer.bound_cycles.values()) for layer in layers.values())
    longest = sum(max(bounds.values()) for bounds in left.values())
    busiest = max(sum(bounds[resource] for bounds in left.values()) for resource in (*Resource,) if resource != "none")
    return Predicted(
        of.network,
        of.cycles,
        min(of.cycles, max(busiest, of.cycles - longest_before + busiest)),
        max(busiest, of.cycles - longest_before + longest),
        simulated,
    )


def _left(uses: Sequence[Use], layer: LayerCycles) -> Mapping[str, int]:
    """What each resource takes for a layer with the best candidate in it."""
    return min([layer.bound_cycles, *(_with_use(use, layer) for use in uses)], key=lambda bounds: max(bounds.values()))


def _with_use(use: Use, layer: LayerCycles) -> Mapping[str, int]:
    left = dict(layer.bound_cycles)
    if use.of_channels:
        left |= {Resource.COMPUTE: 0, Resource.WEIGHTS: 0, Resource.VECTOR: use.words}
    else:
        left[Resource.VECTOR] -= use.words_saved
    return left
