"""Delays, loads and energies of a process's cells: the tables arcs.csv and pins.csv."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.process import MOST, Process, number_of, table_rows, word
from tilewright.isa.errors import short

Table = tuple[tuple[float, ...], ...]
"""A row for each slew, a column for each load."""


@dataclass(frozen=True, slots=True)
class Arc:
    """From a pin's edge to another's. `kind`: combinational; clock, from it to an output; setup, before it."""

    cell: str
    source: str
    target: str
    kind: str
    sense: str
    edge: str  # of the target
    slews: tuple[float, ...]
    loads: tuple[float, ...]
    delays: Table
    transitions: Table

    @property
    def source_edges(self) -> tuple[str, ...]:
        match self.sense:
            case "positive_unate":
                return (self.edge,)
            case "negative_unate":
                return ("fall" if self.edge == "rise" else "rise",)
            case _:
                return ("rise", "fall")

    def delay(self, slew: float, load: float) -> float:
        return between(self.slews, self.loads, self.delays, slew, load)

    def transition(self, slew: float, load: float) -> float:
        return between(self.slews, self.loads, self.transitions, slew, load)


@dataclass(frozen=True, slots=True)
class Pin:
    """What a pin loads its net with, and the energy that an edge of it takes inside the cell."""

    capacitance_pf: float
    rise_pj: float
    fall_pj: float


@dataclass(frozen=True)
class Timing:
    """The tables of a process."""

    arcs: tuple[Arc, ...]
    pins: Mapping[tuple[str, str], Pin]

    @cached_property
    def _to(self) -> Mapping[tuple[str, str], list[Arc]]:
        found: dict[tuple[str, str], list[Arc]] = defaultdict(list)
        for arc in self.arcs:
            found[arc.cell, arc.target].append(arc)
        return found

    def arcs_to(self, cell: str, pin: str) -> Sequence[Arc]:
        return self._to.get((cell, pin), ())

    def capacitance(self, cell: str, pin: str) -> float:
        return self.pins[cell, pin].capacitance_pf


def load_timing(process: Process) -> Timing:
    """The tables of a process. Raises PriceError for one that has none, or lacks a pin or a delay."""
    arcs_path, pins_path = process.folder / "arcs.csv", process.folder / "pins.csv"
    for path in (arcs_path, pins_path):
        if not path.exists():
            raise PriceError(
                f"{path}: not there; a clock and the energy of logic need it: "
                "python -m tilewright.codesign.price.liberty_import makes it from a Liberty file"
            )
    columns = ("cell", "from", "to", "kind", "sense", "edge", "slews_ns", "loads_pf", "delay_ns", "transition_ns")
    arcs = tuple(_arc(row) for row in table_rows(arcs_path, columns))
    if not arcs:
        raise PriceError(f"{arcs_path}: has no rows; a clock needs the delays of all cells")
    pins = {
        (row["cell"], row["pin"]): Pin(*(_number(row, key) for key in ("capacitance_pf", "rise_pj", "fall_pj")))
        for row in table_rows(pins_path, ("cell", "pin", "capacitance_pf", "rise_pj", "fall_pj"))
    }
    timing = Timing(arcs, pins)
    for cell in process.cells:
        for pin in (*cell.inputs, *cell.outputs):
            if (cell.name, pin) not in pins:
                raise PriceError(f"{pins_path}: no row for pin {pin} of {cell.name}, which cells.csv has")
        for pin, function in cell.outputs.items():
            if cell.inputs and function not in ("0", "1") and not timing.arcs_to(cell.name, pin):
                raise PriceError(f"{arcs_path}: no delay to pin {pin} of {cell.name}, which cells.csv has")
    return timing


def between(rows: Sequence[float], columns: Sequence[float], table: Table, row: float, column: float) -> float:
    """A table's value between its entries, and beyond them on the line through the last two."""
    i, along = _place(rows, row)
    j, across = _place(columns, column)
    low, high = (line[j] + across * (line[j + 1] - line[j]) for line in table[i : i + 2])
    return low + along * (high - low)


def _place(axis: Sequence[float], value: float) -> tuple[int, float]:
    i = min(max(bisect_right(axis, value) - 1, 0), len(axis) - 2)
    return i, (value - axis[i]) / (axis[i + 1] - axis[i])


def _arc(row: Mapping[str, str]) -> Arc:
    slews, loads = _axis(row, "slews_ns"), _axis(row, "loads_pf")
    tables = [_table(row, key, len(slews), len(loads)) for key in ("delay_ns", "transition_ns")]
    cell, source, target = (word(row, column) for column in ("cell", "from", "to"))
    kind, sense, edge = (_one_of(row, column, words) for column, words in CLOSED.items())
    return Arc(cell, source, target, kind, sense, edge, slews, loads, tables[0], tables[1])


CLOSED = {
    "kind": ("combinational", "clock", "setup"),
    "sense": ("positive_unate", "negative_unate", "non_unate", ""),
    "edge": ("rise", "fall"),
}
"""Columns that hold one of a few words."""


def _one_of(row: Mapping[str, str], column: str, words: Sequence[str]) -> str:
    if row[column] not in words:
        expected = ", ".join(word or "nothing" for word in words)
        raise PriceError(f"{row['place']}: {column} is {short(row[column])}; expected {expected}")
    return row[column]


def _axis(row: Mapping[str, str], key: str) -> tuple[float, ...]:
    numbers = _numbers(row, key)
    if any(not before < after for before, after in zip(numbers, numbers[1:], strict=False)):
        raise PriceError(f"{row['place']}: {key} is {short(row[key])}; expected numbers that grow")
    return numbers


def _table(row: Mapping[str, str], key: str, rows: int, columns: int) -> Table:
    numbers = _numbers(row, key)
    if key == "transition_ns" and row["kind"] == "setup":
        return ()
    if len(numbers) != rows * columns or rows < 2 or columns < 2:
        raise PriceError(
            f"{row['place']}: {key} has {len(numbers)} numbers; expected {rows} × {columns}, at least 2 × 2, "
            "as slews_ns and loads_pf say"
        )
    return tuple(numbers[i * columns : (i + 1) * columns] for i in range(rows))


def _numbers(row: Mapping[str, str], key: str) -> tuple[float, ...]:
    numbers = tuple(number_of(number, f"{row['place']}: {key}") for number in row[key].split())
    if any(abs(number) > MOST for number in numbers):
        raise PriceError(f"{row['place']}: {key} is {short(row[key])}; expected at most {MOST:g}")
    return numbers


def _number(row: Mapping[str, str], key: str) -> float:
    numbers = _numbers(row, key)
    if len(numbers) != 1:
        raise PriceError(f"{row['place']}: {key} is {short(row[key])}; expected a number")
    return numbers[0]
