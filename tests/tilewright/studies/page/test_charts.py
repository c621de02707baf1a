"""The charts of a study's page show what every measured point has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tilewright.codesign.explore.study import Study
from tilewright.studies.page.charts import known_figures


def study(*points: dict[str, float]) -> Study:
    """What the charts read of a study of these measured points."""
    measured = [SimpleNamespace(figures=figures) for figures in points]
    return cast(Study, SimpleNamespace(objectives=("ms", "cycles"), measured=measured))


def test_a_figure_that_a_point_lacks_is_on_no_axis() -> None:
    assert known_figures(study({"cycles": 1, "ms": 2.0}, {"cycles": 3})) == ["cycles"]


def test_objectives_come_first() -> None:
    assert known_figures(study({"cycles": 1, "ms": 2.0}))[:2] == ["ms", "cycles"]
