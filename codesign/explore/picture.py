"""The front of a study in two figures as a picture for a paper. The same study gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.study import Entry, Study

BEST, OTHER = "#c8553d", "#3c7dc4"
"""As on the page: points that none beats in both figures, and others."""

STYLE: Mapping[str, Any] = {
    "svg.hashsalt": "tilewright",  # identifiers in the file follow from what is drawn
    "svg.fonttype": "path",  # so that it looks the same where the font is not
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

INCHES = (4.5, 3.2)
"""A column of a paper, with some room."""

DOTS_PER_INCH = 300

FORMATS: Mapping[str, Mapping[str, str | None]] = {
    "svg": {"Date": None, "Creator": "Tilewright"},
    "png": {"Software": "Tilewright"},
}
"""What a file says of itself: nothing that changes from day to day."""

WIDE = 15.0
"""Where the largest value of a figure is so many times the least, its axis is logarithmic."""

TICKS = 6
"""More of them would not stand beside each other."""


def front_picture(study: Study, objectives: Sequence[str], kind: str) -> bytes:
    """An SVG or PNG file of the first two figures. Raises StudyError for one figure, and where no point has both."""
    if len(set(objectives[:2])) < 2:
        raise StudyError("a picture has two figures: name two with --objective")
    across, up = objectives[:2]
    best = study.front_in((across, up))
    if not best:
        raise StudyError(f"{study.folder}: no measured point has both {across} and {up}: there is nothing to draw")
    others = [e for e in study.comparable("host_nodes" in (across, up)) if e not in best and _has(e, across, up)]
    style: dict[Any, Any] = {**matplotlib.rcParamsDefault, **STYLE}  # and nothing of the user's own
    with matplotlib.rc_context(style):
        figure = Figure(INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(color="#d5dae2", linewidth=0.6)
        axes.set_axisbelow(True)
        _draw_border(axes, best, across, up)
        _draw(axes, best, across, up, color=BEST, label="beaten by none", s=26, linewidths=0, zorder=3)
        _draw(axes, others, across, up, color=OTHER, label="others", s=16, alpha=0.7, linewidths=0)
        for axis, name, set_scale in ((axes.xaxis, across, axes.set_xscale), (axes.yaxis, up, axes.set_yscale)):
            _scale(axis, name, [_value(entry, name) for entry in (*best, *others)], set_scale)
        if others:
            axes.legend(edgecolor="none", framealpha=0.9)
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=dict(FORMATS[kind]))
    return file.getvalue()


def _has(entry: Entry, *names: str) -> bool:
    return all(entry.figures.get(name) is not None for name in names)


def _value(entry: Entry, name: str) -> float:
    value = entry.figures[name]
    assert value is not None
    return value


def _draw(axes: Any, entries: Sequence[Entry], across: str, up: str, **look: Any) -> None:
    axes.scatter([_value(entry, across) for entry in entries], [_value(entry, up) for entry in entries], **look)


def _draw_border(axes: Any, best: Sequence[Entry], across: str, up: str) -> None:
    """The line between what the best points beat and what they do not: steps from each to the next."""
    points = sorted((_value(entry, across), _value(entry, up)) for entry in best)
    steps = "pre" if FIGURES[across].is_more_better else "post"
    axes.step(*zip(*points, strict=True), where=steps, color=BEST, linewidth=1, alpha=0.6)


def _scale(axis: Any, name: str, values: Sequence[float], set_scale: Callable[[str], None]) -> None:
    unit = FIGURES[name].unit
    words = name.removesuffix("_mm2").removesuffix("_mhz").removesuffix("_mj").replace("_", " ")
    axis.set_label_text(f"{words} [{unit}]" if unit and words != unit else words)
    axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
    if min(values) > 0 and max(values) / min(values) > WIDE:
        set_scale("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"))
