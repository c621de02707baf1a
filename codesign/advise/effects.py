"""A trial beside the machine as it is: what it saves, what it costs, and whether the two compare."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from tilewright.codesign.advise.changes import Way
from tilewright.codesign.advise.trials import Trial
from tilewright.codesign.points.evaluate import NetworkFigures

WORTH = 0.002
"""The least share of the cycles that counts as a gain."""


@dataclass(frozen=True)
class Effect:
    """A change beside the machine as it is, over all networks. Without prices, areas and energies are None.

    Cycles and energies are those for each image, where runs take several.
    """

    name: str
    way: Way
    cycles_saved: int
    share_saved: float  # of the cycles, as the geometric mean over networks: 0.1 is a tenth fewer
    mm2_added: float | None
    mj_saved: float | None  # on chip and DRAM
    host_nodes_saved: int
    gaining_layers: int
    all_layers: int
    best_layer: str  # that saves most cycles; empty if none does

    @property
    def share_per_mm2(self) -> float | None:
        """None where no area is added, or it is not known."""
        return self.share_saved / self.mm2_added if self.mm2_added is not None and self.mm2_added > 0 else None

    @property
    def order(self) -> tuple[bool, float, str]:
        """First what gains for no area, then by the gain for each mm²."""
        rate = self.share_per_mm2
        return rate is not None, -(self.share_saved if rate is None else rate), self.name

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "share_per_mm2": self.share_per_mm2}


def name_of(trial: Trial) -> str:
    assert trial.change is not None
    return trial.change.name


def ran(trial: Trial) -> list[NetworkFigures]:
    return [outcome for outcome in trial.outcomes if isinstance(outcome, NetworkFigures)]


def runs(trial: Trial) -> bool:
    return not trial.why_not and not trial.failures


def runs_alike(base: Trial, trial: Trial) -> bool:
    """Whether as much runs on the machine as before, in every network: otherwise cycles do not compare."""
    return runs(trial) and _host_nodes(base) == _host_nodes(trial)


def _host_nodes(trial: Trial) -> list[int]:
    return [outcome.host_nodes for outcome in ran(trial)]


def host_nodes_added(base: Trial, trial: Trial) -> int:
    return sum(_host_nodes(trial)) - sum(_host_nodes(base))


def share_saved(base: Trial, trial: Trial) -> float:
    """The share of the cycles that is saved: 1 less the geometric mean of the ratios."""
    ratios = [
        log(new.cycles_per_image / old.cycles_per_image)
        for old, new in zip(ran(base), ran(trial), strict=True)
        if old.cycles
    ]
    return 1 - exp(sum(ratios) / len(ratios)) if ratios else 0.0


def can_go(base: Trial, trial: Trial) -> bool:
    """Whether less hardware takes no network longer. Without prices, a step down that takes as long counts as less."""
    if trial.change is None or trial.change.way in (Way.UP, Way.ON) or not runs_alike(base, trial):
        return False
    if any(new.cycles_per_image > old.cycles_per_image for old, new in zip(ran(base), ran(trial), strict=True)):
        return False
    added = _mm2_added(base, trial)
    if added is None:
        return trial.change.way is not Way.CHOICE and share_saved(base, trial) < WORTH
    return added < 0


def _mm2_added(base: Trial, trial: Trial) -> float | None:
    if base.figures is None or trial.figures is None:
        return None
    return trial.figures.area_mm2 - base.figures.area_mm2


def _mj(trial: Trial) -> float | None:
    total = 0.0
    for outcome in ran(trial):
        if outcome.mj_per_image is None:
            return None
        total += outcome.mj_per_image
    return total


def effect(base: Trial, trial: Trial) -> Effect:
    """A trial that runs beside the machine as it is."""
    assert trial.change is not None
    before, after = _mj(base), _mj(trial)
    images, now = _images(base), _images(trial)
    gained = {
        f"{network}: {name}" if len(base.layers) > 1 else name: old.cycles / images[network]
        - trial.layers[network][name].cycles / now[network]
        for network, layers in base.layers.items()
        for name, old in layers.items()
        if name in trial.layers.get(network, {})
    }
    best = max(gained, key=lambda name: gained[name], default="")
    return Effect(
        name=trial.change.name,
        way=trial.change.way,
        cycles_saved=round(
            sum(old.cycles_per_image - new.cycles_per_image for old, new in zip(ran(base), ran(trial), strict=True))
        ),
        share_saved=share_saved(base, trial),
        mm2_added=_mm2_added(base, trial),
        mj_saved=None if before is None or after is None else before - after,
        host_nodes_saved=-host_nodes_added(base, trial),
        gaining_layers=sum(cycles > 0 for cycles in gained.values()),
        all_layers=sum(map(len, base.layers.values())),
        best_layer=best if best and gained[best] > 0 else "",
    )


def _images(trial: Trial) -> dict[str, int]:
    """How many images a run takes, by network."""
    return {outcome.network: outcome.images for outcome in ran(trial)}


def trial_line(base: Trial, trial: Trial) -> str:
    """What came of a trial, in a line: `array.rows 8 → 16: 34.8 % fewer cycles, 0.429 mm² more`."""
    name = name_of(trial)
    if trial.why_not:
        return f"{name}: no such machine"
    for failed in trial.failures:
        return f"{name}: {failed.network} fails in the stage {failed.stage}"
    if not runs_alike(base, trial):
        added = host_nodes_added(base, trial)
        return f"{name}: {abs(added)} node{'s' * (abs(added) != 1)} {'more' if added > 0 else 'fewer'} on the host"
    saved, area = share_saved(base, trial), _mm2_added(base, trial)
    cycles = (
        "as many cycles"
        if abs(saved) < WORTH
        else f"{100 * abs(saved):.1f} % {'fewer' if saved > 0 else 'more'} cycles"
    )
    mm2 = "" if area is None else f", {abs(area):.3f} mm² {'less' if area < 0 else 'more'}"
    return f"{name}: {cycles}{mm2}"
