"""The charts of a profile's page. Colours and lines are readable on light and on dark paper alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    CustomJSHover,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
)
from numpy.typing import NDArray

from tilewright.host.segments import ProgramRun
from tilewright.html.document import INK, empty_chart
from tilewright.isa.machine.machine import Machine
from tilewright.losses.causes import MEANINGS, parts
from tilewright.losses.colours import COLOURS
from tilewright.profiles.layers import distinct_names
from tilewright.profiles.lives import Life, lives
from tilewright.simulator.losses import Loss
from tilewright.simulator.profile import layers_of
from tilewright.simulator.run_profile import Resource, RunProfile
from tilewright.templates.table import facet_of

LAYER_COLOURS = ("#3c7dc4", "#d9a521", "#3f9b5b", "#c8553d", "#8c6bb1", "#4fa8a3", "#b5739d", "#98a2b3")

TOOLS = "xwheel_zoom,xpan,xbox_zoom,reset,save"

LEFT_BORDER = 75

ROW_HEIGHT = 18
SMALLEST_HEIGHT = 120


def roofline(profile: RunProfile, machine: Machine) -> Any:
    """Each layer by the array's products for a byte of DRAM, and those a cycle; the lines are what is possible."""
    layers = [one for one in profile.layers if one.array_macs and one.cycles and one.dram_bytes.moved]
    peak, bus = machine.products_a_cycle, machine.dram.bus_bytes * machine.dram.ports
    intensity = [one.array_macs / one.dram_bytes.moved for one in layers]
    low, high = min([*intensity, peak / bus]) / 2, max([*intensity, peak / bus]) * 2
    rates = [one.array_macs / one.cycles for one in layers]
    chart = _chart(
        "roofline", 320, x_axis_type="log", y_axis_type="log", x_range=(low, high),
        y_range=(min([*rates, peak]) / 2, peak * 2), tools="pan,wheel_zoom,reset,save",
    )  # fmt: skip
    chart.xaxis.axis_label, chart.yaxis.axis_label = "products for a byte of DRAM", "products a cycle"
    chart.line([low, peak / bus, high], [low * bus, peak, peak], color=INK, line_width=2)
    source = ColumnDataSource(
        {
            "x": intensity,
            "y": rates,
            "name": [one.name for one in layers],
            "size": [6 + 24 * (one.cycles / max(1, profile.cycles)) ** 0.5 for one in layers],
            "color": [COLOURS[Loss.EDGE] if one.bound is Resource.COMPUTE else COLOURS[Loss.LOAD] for one in layers],
            "bound": [one.bound for one in layers],
            "cycles": [one.cycles for one in layers],
        }
    )
    dots = chart.scatter("x", "y", size="size", color="color", fill_alpha=0.6, source=source)
    tips = [("layer", "@name"), ("cycles", "@cycles{0,0}"), ("products a cycle", "@y{0.0}"), ("bound", "@bound")]
    chart.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return chart


def causes(profile: RunProfile) -> Any:
    """A bar a layer, in order from the top: its cycles by cause."""
    layers = profile.layers
    names = distinct_names(layers)
    chart = _chart(
        "causes",
        max(SMALLEST_HEIGHT, 40 + ROW_HEIGHT * len(layers)),
        y_range=names[::-1],
        tools="xpan,xwheel_zoom,reset,save",
    )
    data: dict[str, Any] = {"layer": names, "cycles": [one.cycles for one in layers]}
    shares = [parts(one.cycles, one.loss) for one in layers]
    data |= {part: [share[part] for share in shares] for part in MEANINGS}
    bars = chart.hbar_stack(
        list(MEANINGS), y="layer", height=0.8, color=[COLOURS[part] for part in MEANINGS],
        source=ColumnDataSource(data),
    )  # fmt: skip
    for (part, meaning), bar in zip(MEANINGS.items(), bars, strict=True):
        tips = [("layer", "@layer"), (part, f"@{{{part}}}{{0,0}} of @cycles{{0,0}} cycles"), ("", meaning)]
        chart.add_tools(HoverTool(renderers=[bar], tooltips=tips))
    chart.x_range.start = 0
    return chart


def time_line(runs: Sequence[ProgramRun], first_cycles: Sequence[int], end: int) -> Any:
    """A row an engine: every instruction from its start to its end. Zooms and pans along time."""
    rows: dict[str, list[Any]] = {
        key: [] for key in ("left", "right", "top", "bottom", "color", "name", "layer", "number")
    }
    engines = list(runs[0].program.machine.engines)[::-1]
    for run, start in zip(runs, first_cycles, strict=True):
        layers = layers_of(run.program)
        serves = run.program.provenance or (0,) * len(run.program.instructions)
        for index, instruction in enumerate(run.program.instructions):
            place = engines.index(instruction.engine.name)
            rows["left"].append(start + int(run.counters.started[index]))
            rows["right"].append(start + int(run.counters.retired[index]))
            rows["bottom"].append(place + 0.1 + 0.4 * (index % 2))
            rows["top"].append(place + 0.5 + 0.4 * (index % 2))
            rows["color"].append(facet_of(instruction.engine.template).colour(instruction.engine))
            rows["name"].append(instruction.mnemonic)
            rows["layer"].append(layers[serves[index]].name)
            rows["number"].append(index)
    chart = _time_chart("time", 40 + 45 * len(engines), Range1d(start=0, end=end))
    chart.y_range = Range1d(start=0, end=len(engines))
    chart.yaxis.ticker = [place + 0.5 for place in range(len(engines))]
    chart.yaxis.major_label_overrides = {place + 0.5: engine for place, engine in enumerate(engines)}
    tips = [
        ("instruction", "@number @name{custom}"),
        ("layer", "@layer{custom}"),
        ("cycles", "@left{0,0} to @right{0,0}"),
    ]
    _boxes(chart, rows, 1.0, tips)
    return chart


def memory_maps(runs: Sequence[ProgramRun], first_cycles: Sequence[int], time: Any) -> list[Any]:
    """A chart for each memory in use, along the time line: which words hold what is still to be read, and whose."""
    found: dict[str, list[tuple[Life, int, str]]] = {}
    for run, start in zip(runs, first_cycles, strict=True):
        layers = layers_of(run.program)
        for name, own in lives(run).items():
            found.setdefault(name, []).extend((life, start, layers[life.layer].name) for life in own)
    machine = runs[0].program.machine
    used = {name: entries for name, entries in found.items() if entries}
    return [_memory_map(name, machine.memories[name].depth, entries, time) for name, entries in used.items()]


def _memory_map(name: str, words: int, entries: Sequence[tuple[Life, int, str]], time: Any) -> Any:
    layers = {layer: number for number, layer in enumerate(dict.fromkeys(layer for _, _, layer in entries))}
    rows: dict[str, list[Any]] = {
        "left": [start + life.born for life, start, _ in entries],
        "right": [start + life.dead for life, start, _ in entries],
        "bottom": [life.first for life, _, _ in entries],
        "top": [life.end for life, _, _ in entries],
        "color": [LAYER_COLOURS[layers[layer] % len(LAYER_COLOURS)] for _, _, layer in entries],
        "layer": [layer for _, _, layer in entries],
    }
    chart = _time_chart(f"memory {name}", 150, time.x_range)
    chart.y_range = Range1d(start=0, end=words)
    chart.yaxis.axis_label = f"{name}, words"
    tips = [
        ("written by", "@layer{custom}"),
        ("words", "@bottom{0,0} to @top{0,0}"),
        ("cycles", "@left{0,0} to @right{0,0}"),
    ]
    _boxes(chart, rows, 0.7, tips)
    return chart


def _boxes(chart: Any, rows: Mapping[str, Sequence[Any]], alpha: float, tips: Sequence[tuple[str, str]]) -> None:
    """Rectangles with `left`, `right`, `top`, `bottom`, `color` and more, which `tips` name as Bokeh does: @left, and
    @layer{custom} where they are words.

    A page holds numbers as arrays, in far less room than as text, and reads them in far less time. Words are numbers,
    too: the places of a list in which each stands once.
    """
    words = {key: list(dict.fromkeys(of)) for key, of in rows.items() if of and isinstance(of[0], str)}
    numbers = {key: {word: at for at, word in enumerate(of)} for key, of in words.items()}
    columns: dict[str, Any] = {
        key: np.array([numbers[key][each] for each in of], np.uint16) if key in words else _array(of)
        for key, of in rows.items()
    }
    colours = LinearColorMapper(palette=words["color"], low=-0.5, high=len(words["color"]) - 0.5)
    boxes = chart.quad(
        "left", "right", "top", "bottom", fill_color={"field": "color", "transform": colours}, fill_alpha=alpha,
        line_color=None, source=ColumnDataSource(columns),
    )  # fmt: skip
    said: dict[str, Any] = {
        f"@{key}": CustomJSHover(code="return words[value]", args={"words": of})
        for key, of in words.items()
        if any(f"@{key}{{custom}}" in text for _, text in tips)
    }
    chart.add_tools(HoverTool(renderers=[boxes], tooltips=list(tips), formatters=said))


def _array(values: Sequence[float]) -> NDArray[Any]:
    return np.array(values, np.float32 if any(isinstance(each, float) for each in values[:1]) else np.int32)


def _time_chart(name: str, height: int, cycles: Range1d) -> Any:
    chart = _chart(name, height, x_range=cycles, tools=TOOLS, active_scroll="xwheel_zoom", active_drag="xpan")
    chart.xaxis.axis_label = "cycle"
    chart.min_border_left = LEFT_BORDER  # so that the cycles of all charts stand below each other
    return chart


def _chart(name: str, height: int, **options: Any) -> Any:
    made = empty_chart(name, height, **options)
    if options.get("x_axis_type") != "log":
        made.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return made
