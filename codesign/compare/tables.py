"""A comparison as tables of text, and as lines of CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codesign.compare.comparison import ComparedPoint, Comparison, best_of
from tilewright.codesign.points.energy_basis import energy_basis
from tilewright.codesign.points.evaluate import Failure, NetworkFigures
from tilewright.codesign.points.padding import padding_note
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.price.report import Table

MARK = " *"
UNKNOWN = "–"
ABOUT = "~"
"""Before a figure with an estimate in it."""

Format = Callable[[Any], str]


def _significant(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _whole(value: int) -> str:
    return f"{value:,}"


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A row of the table: the figure's key, what the table calls it, and how it is printed."""

    key: str
    title: str
    format: Format = _significant


NETWORK_ROWS = (
    FigureRow("cycles", "cycles", _whole),
    FigureRow("ms", "ms"),
    FigureRow("utilisation", "utilisation", lambda value: f"{100 * value:.1f} %"),
    FigureRow("dram_bytes", "DRAM bytes", _whole),
    FigureRow("on_chip_mj", "mJ on chip"),
    FigureRow("dram_mj", "mJ in DRAM"),
    FigureRow("energy_delay", "mJ × ms"),
)
ON_CHIP_KEYS = frozenset({"on_chip_mj", "energy_delay"})
PRICED_KEYS = frozenset({"ms", "on_chip_mj", "dram_mj", "energy_delay", "inferences_per_second"})

BATCH_ROWS = (
    FigureRow("images", "images of a run", _whole),
    FigureRow("cycles_per_image", "cycles for each", lambda value: f"{value:,.0f}"),
    FigureRow("inferences_per_second", "images a second", lambda value: f"{value:,.0f}"),
)
"""Throughput beside latency, of networks in batches."""

HOST_ROW = FigureRow("host_nodes", "host nodes", _whole)

MACHINE_ROWS = (
    FigureRow("area_mm2", "mm²"),
    FigureRow("logic_mm2", "mm² of logic"),
    FigureRow("memories_mm2", "mm² of memories"),
    FigureRow("clock_mhz", "MHz", _whole),
)


def comparison_tables(found: Comparison, columns: int = 3) -> list[Table]:
    """For each `columns` machines a table: what each network takes there, and what the machines take.

    The best of a row is marked in the table that it is in: it is the best of all machines.
    """
    names = list(found.machines)
    return [_table(found, names[first : first + columns]) for first in range(0, len(names), columns)]


def notes(found: Comparison) -> list[str]:
    """What the tables rest on, and why networks have no figures."""
    return [
        *(f"{of.network} on {of.machine} fails in the stage {of.outcome.stage}: {of.outcome.reason}"
          for of in found.points if isinstance(of.outcome, Failure)),
        *_array_notes(found),
        *_host_note(found),
        *_price_notes(found),
    ]  # fmt: skip


def comparison_csv(found: Comparison) -> str:
    """A line a network and machine, with the figures of both."""
    rows = []
    for point in found.points:
        of = found.machines[point.machine]
        own = {} if of is None else {**of.as_json(), "area_mm2": of.area_mm2}
        facts = {**point.as_json(), **own}
        rows.append({key: " ".join(value) if isinstance(value, tuple) else value for key, value in facts.items()})
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(key for row in rows for key in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _table(found: Comparison, machines: Sequence[str]) -> Table:
    rows = [row for network in found.networks for row in _network_rows(found, network, machines)]
    rows += _machine_rows(found, machines)
    widths = [max(len(row[2 + position]) for row in rows) for position in range(len(machines))]
    padded = [(*row[:2], *(cell.rjust(width) for cell, width in zip(row[2:], widths, strict=True))) for row in rows]
    title = "Networks on machines; * is the best of its row" if len(found.machines) > 1 else "Networks on a machine"
    return title, ("", "figure", *map(folded, machines)), padded


def folded(name: str) -> str:
    """A machine's name with each of its settings in a line of its own."""
    return name.replace("[", "\n[").replace(",", ",\n ")


def _network_rows(found: Comparison, network: str, machines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    points = {name: found.point(network, name) for name in found.machines}
    is_priced = any(of is not None for of in found.machines.values())
    has_host = any(point.as_json().get(HOST_ROW.key) for point in points.values())
    in_batches = any(of.outcome.images > 1 for of in points.values() if isinstance(of.outcome, NetworkFigures))
    shown = (*NETWORK_ROWS, *(BATCH_ROWS if in_batches else ()))
    rows = [row for row in shown if is_priced or row.key not in PRICED_KEYS]
    for number, row in enumerate([*rows, *([HOST_ROW] if has_host else [])]):
        best = found.best(row.key, network) if row is not HOST_ROW else _fewest_host_nodes(points)
        cells = (_cell(points[name], row, name in best) for name in machines)
        yield (network if not number else "", row.title, *cells)


def _fewest_host_nodes(points: Mapping[str, ComparedPoint]) -> frozenset[str]:
    known = {name: of.as_json()[HOST_ROW.key] for name, of in points.items() if not isinstance(of.outcome, Failure)}
    return best_of(known)


def _cell(point: ComparedPoint, row: FigureRow, is_best: bool) -> str:
    if isinstance(point.outcome, Failure):
        return f"fails{' ' * len(MARK)}"
    value = point.as_json()[row.key]
    about = ABOUT if row.key in ON_CHIP_KEYS and point.outcome.estimated else ""
    return f"{UNKNOWN if value is None else about + row.format(value)}{MARK if is_best else ' ' * len(MARK)}"


def _machine_rows(found: Comparison, machines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    known = {name: of for name, of in found.machines.items() if of is not None}
    if not known:
        return
    for number, row in enumerate(MACHINE_ROWS):
        values = {name: getattr(of, row.key) for name, of in known.items()}
        best = best_of(values, is_higher=row.key == "clock_mhz")
        cells = (
            f"{row.format(round(value) if row.format is _whole else value)}{MARK if name in best else ' ' * len(MARK)}"
            if (value := values.get(name)) is not None
            else UNKNOWN
            for name in machines
        )
        yield ("the machine" if not number else "", row.title, *cells)


def _array_notes(found: Comparison) -> Iterator[str]:
    """Networks that take longer on a larger array than on the first machine."""
    for network in found.networks:
        first, *others = (found.point(network, machine) for machine in found.machines)
        for other in others:
            if _has_larger_array(first, other):
                assert isinstance(first.outcome, NetworkFigures) and isinstance(other.outcome, NetworkFigures)
                note = padding_note(f"on {other.machine}", first.outcome, other.outcome)
                yield from [note] if note else []


def _has_larger_array(one: ComparedPoint, other: ComparedPoint) -> bool:
    """Whether both ran, and the other one's array is larger in a direction, and smaller in none."""
    if one.measured is None or other.measured is None:
        return False
    less, more = one.measured.machine.array, other.measured.machine.array
    sizes = (more.rows - less.rows, more.cols - less.cols)
    return min(sizes) >= 0 and max(sizes) > 0


def _host_note(found: Comparison) -> Iterator[str]:
    with_host = [of for of in found.points if of.as_json().get(HOST_ROW.key)]
    if with_host:
        yield (
            "Host nodes take time that is in no figure: the best of a network is one of the machines that leave "
            "the fewest to the host."
        )


def _price_notes(found: Comparison) -> Iterator[str]:
    known = [of for of in found.machines.values() if of is not None]
    if not known:
        return
    limits = "; ".join(f"of {of.machine} {of.clock_limit}" for of in known if of.clock_limit not in ("", "given"))
    yield f"Area: {known[0].process}, synthesised, not placed; logic {_bases(known)}."
    if limits:
        yield f"The clock is that of the slowest unit: {limits}."
    parts = "of memories, clock, array and lanes; not of queues, control and wires"
    outcomes = [of.outcome for of in found.points if isinstance(of.outcome, NetworkFigures)]
    basis = energy_basis(outcomes, ABOUT)
    yield f"Energy on chip: {parts}{basis}. In DRAM: assumed for each byte. mJ × ms counts both."


def _bases(known: Sequence[MachineFigures]) -> str:
    fitted = [of.machine for of in known if of.fitted_to is not None]
    return "estimated" + (f", of {', '.join(fitted)} fitted to the machine without the settings" if fitted else "")
