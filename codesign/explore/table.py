"""A study as lines of values, for spreadsheets and papers."""

from __future__ import annotations

import csv
import io

from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.study import Study


def study_csv(study: Study) -> str:
    """A line a point: its keys, its state, every figure, and each network's cycles; empty where it has none."""
    networks = list(study.networks)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [*study.axes, "state", "on_front", *FIGURES, *(f"{name} cycles" for name in networks), "reason"]
    writer.writerow(heads)
    best = {entry.label for entry in study.front}
    for entry in study.entries:
        figures = [_text(entry.figures.get(name)) for name in FIGURES]
        cycles = [entry.networks[name].cycles if name in entry.networks else "" for name in networks]
        is_best = "yes" if entry.label in best else "no"
        writer.writerow([*entry.values, entry.state, is_best, *figures, *cycles, entry.reason])
    return text.getvalue()


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
