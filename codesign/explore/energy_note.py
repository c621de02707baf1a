"""What a study's energies rest on: which memories' are estimated, and which points have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.study import Study
from tilewright.codesign.points.energy_basis import energy_basis

ENERGIES = frozenset(name for name in FIGURES if name.startswith("energy"))


def energy_notes(study: Study, objectives: Sequence[str]) -> Iterator[str]:
    """Nothing where no energy is compared, or all of it is measured."""
    if ENERGIES.isdisjoint(objectives):
        return
    measured = study.measured
    basis = energy_basis([each for entry in measured for each in entry.networks.values()])
    if basis:
        yield f"Energy on chip: of memories, clock, array and lanes{basis}."
    without = sum(entry.figures.get("energy_mj") is None for entry in measured)
    if without:
        yield f"{without} of {len(measured)} points have no energy, and are not compared."
