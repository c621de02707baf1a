"""The charts of a study's page, of one source: what is chosen in one is chosen in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import BasicTickFormatter, ColumnDataSource, HoverTool, TapTool

from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.study import Entry, Study
from tilewright.html.document import INK, empty_chart
from tilewright.isa.files.yaml_tree import Scalar

BEST, OTHER, CHOSEN = "#c8553d", "#3c7dc4", "#d9a521"
"""Points that are on the front of the chosen figures, others, and the one that is chosen."""


def known_figures(study: Study) -> list[str]:
    """The figures that every measured point has, those of the space's objectives first."""
    names = dict.fromkeys((*study.objectives, *FIGURES))
    return [name for name in names if all(entry.figures.get(name) is not None for entry in study.measured)]


def charts(study: Study) -> tuple[Any, Any]:
    """The scatter and the parallel coordinates of the measured points."""
    entries, names = study.measured, known_figures(study)
    data: dict[str, Any] = {name: [entry.figures[name] for entry in entries] for name in names}
    data["difference"] = [study.difference(entry) for entry in entries]
    data["colour"] = [OTHER] * len(entries)
    axes = _parallel_axes(study, entries, [name for name in study.objectives if name in names])
    data["xs"] = [list(range(len(axes))) for _ in entries]
    data["ys"] = [[column[at] for _, column, _, _ in axes] for at in range(len(entries))]
    source = ColumnDataSource(data, name="points")
    return _scatter(source, names), _parallel(source, axes)


def _scatter(source: ColumnDataSource, names: Sequence[str]) -> Any:
    chart = _chart("front", 420, tools="pan,wheel_zoom,box_zoom,reset,save")
    x, y = names[0], names[1 % len(names)]
    dots = chart.scatter(
        x, y, size=10, color="colour", fill_alpha=0.75, line_color=None, source=source,
        selection_color=CHOSEN, selection_line_color=INK, nonselection_fill_alpha=0.5,
    )  # fmt: skip
    chart.xaxis.axis_label, chart.yaxis.axis_label = x, y
    tips = [("", "@difference"), *((name, f"@{name}{{0,0.[000]}}") for name in names[:6])]
    chart.add_tools(HoverTool(renderers=[dots], tooltips=tips), TapTool(renderers=[dots]))
    return chart


Axis = tuple[str, list[float], str, str]
"""A name, each point's place from 0 to 1, and what stands at both ends."""


def _parallel_axes(study: Study, entries: Sequence[Entry], objectives: Sequence[str]) -> list[Axis]:
    keys = [(name, [entry.values[at] for entry in entries]) for at, name in enumerate(study.axes)]
    figures: list[tuple[str, list[Scalar]]] = [
        (name, [entry.figures[name] for entry in entries]) for name in objectives
    ]
    return [_axis(name, values) for name, values in (*keys, *figures)]


def _axis(name: str, values: Sequence[Scalar]) -> Axis:
    """Numbers by their size; words evenly, in their order."""
    if all(isinstance(value, int | float) for value in values):
        numbers = [float(value or 0) for value in values]
        low, high = min(numbers), max(numbers)
        ends = (_short(low), _short(high))
    else:
        words = sorted({str(value) for value in values})
        numbers = [float(words.index(str(value))) for value in values]
        low, high = 0.0, float(len(words) - 1)
        ends = (words[0], words[-1])
    return name, [(number - low) / (high - low) if high > low else 0.5 for number in numbers], *ends


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _parallel(source: ColumnDataSource, axes: Sequence[Axis]) -> Any:
    chart = _chart("parallel", 300, tools="save", x_range=(-0.3, len(axes) - 0.7), y_range=(-0.12, 1.12))
    lines = chart.multi_line(
        "xs", "ys", color="colour", line_alpha=0.5, line_width=1.5, source=source,
        selection_color=CHOSEN, selection_line_width=4, selection_line_alpha=1, nonselection_line_alpha=0.25,
    )  # fmt: skip
    for at, (_, _, low, high) in enumerate(axes):
        chart.line([at, at], [0, 1], color=INK)
        chart.text([at, at], [-0.1, 1.02], text=[low, high], text_color=INK, text_align="center", text_font_size="11px")
    chart.xaxis.ticker = list(range(len(axes)))
    chart.xaxis.major_label_overrides = {at: name for at, (name, *_) in enumerate(axes)}
    chart.xaxis.major_label_orientation = 0.3
    chart.yaxis.visible = False
    chart.grid.visible = False
    chart.add_tools(HoverTool(renderers=[lines], tooltips=[("", "@difference")]), TapTool(renderers=[lines]))
    return chart


def _chart(name: str, height: int, **options: Any) -> Any:
    made = empty_chart(name, height, **options)
    made.axis.formatter = BasicTickFormatter(use_scientific=False)
    return made
