"""A study says which of its energies are estimated, and which points have none and so are not compared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from tilewright.codesign.explore.energy_note import energy_notes
from tilewright.codesign.explore.study import DONE, Entry, Study
from tilewright.codesign.points.evaluate import NetworkFigures


def entry(label: str, mj: float | None, **more: object) -> Entry:
    facts = ("n", "h", label, "k", 1, 100, 10, 0.5, 100, mj, 0.75, 0, 9, 90, 0.1)
    figures = NetworkFigures(*facts, **more)  # type: ignore[arg-type]
    return Entry(label, (), DONE, "", {"energy_mj": mj}, {"n": figures})


def study(*entries: Entry) -> Study:
    return cast(Study, SimpleNamespace(measured=list(entries), folder=Path()))


def test_nothing_is_said_of_energies_that_are_measured_or_not_compared() -> None:
    guessed = entry("a", 1.0, estimated=("par",), estimated_error_mj=0.02)
    assert list(energy_notes(study(entry("a", 1.0)), ["energy_mj"])) == []
    assert list(energy_notes(study(guessed), ["cycles", "area_mm2"])) == []


def test_what_is_estimated_and_what_is_unknown_is_said() -> None:
    guessed = entry("a", 1.0, estimated=("par",), estimated_error_mj=0.02)
    unknown = entry("b", None, unmeasured=("acc",))
    assert list(energy_notes(study(guessed, unknown), ["cycles", "energy_mj"])) == [
        "Energy on chip: of memories, clock, array and lanes; that of par is estimated from other macros, which may be "
        "2.0 % of the sum; not known where acc is accessed, which the process does not measure.",
        "1 of 2 points have no energy, and are not compared.",
    ]
