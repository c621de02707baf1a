"""A process as data: a folder with its standard cells, its SRAM macros and where the figures come from.

`process.yaml` names the process, its corner, source and licence, and the cell that counts as one gate;
`cells.csv` has a row for each standard cell, `srams.csv` for each macro. docs/price.md describes the columns.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import yaml

from tilewright.codesign.errors import PriceError

SHIPPED = Path(__file__).parent.parent / "processes"

DEFAULT_PROCESS = "sg13g2"

KEYS = ("name", "corner", "source", "commit", "licence", "gate", "dram_pj_per_byte", "dram_source")


CELL_COLUMNS = ("cell", "area_um2", "inputs", "outputs", "state")

MACRO_COLUMNS = ("macro", "ports", "words", "bits", "area_um2")


@dataclass(frozen=True, slots=True)
class Cell:
    """A standard cell; `state` is the flip-flop in it, in Liberty's words, empty for a gate."""

    name: str
    area_um2: float
    inputs: tuple[str, ...]
    clocks: tuple[str, ...]  # those of the inputs that are clocks
    outputs: Mapping[str, str]  # pin → function
    state: str


@dataclass(frozen=True, slots=True)
class Macro:
    """An SRAM macro. The energies are None where the library does not measure them."""

    name: str
    ports: int  # accesses in one cycle
    words: int
    bits: int
    area_um2: float
    read_pj: float | None
    write_pj: float | None
    clock_to_output_ns: float | None = None


@dataclass(frozen=True, slots=True)
class LogicEnergy:
    """What logic takes, in pJ, as `measure_activity` finds it."""

    clock_pj_per_flip_flop: float  # in every cycle
    array_pj_per_mac: float  # of each processing element, for each vector
    lane_pj_per_iteration_per_um2: float  # of a lane's area


@dataclass(frozen=True)
class Process:
    """A process with all its figures."""

    folder: Path
    name: str
    corner: str
    source: str
    commit: str
    licence: str
    gate: Cell  # its area is one gate equivalent
    dram_pj_per_byte: float  # an assumption, not of the process
    dram_source: str
    cells: tuple[Cell, ...]
    macros: tuple[Macro, ...]
    logic_energy: LogicEnergy | None  # None where it was not measured

    @cached_property
    def flip_flops(self) -> frozenset[str]:
        return frozenset(cell.name for cell in self.cells if cell.state)

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(repr((self.cells, self.macros)).encode()).hexdigest()


def load_process(folder: str | Path | None = None) -> Process:
    """The process in a folder, or the one that is shipped. Raises PriceError for a fault in its files."""
    place = SHIPPED / DEFAULT_PROCESS if folder is None else Path(folder)
    facts = _facts(place / "process.yaml")
    cells = tuple(_cell(row) for row in table_rows(place / "cells.csv", CELL_COLUMNS))
    macros = tuple(_macro(row) for row in table_rows(place / "srams.csv", MACRO_COLUMNS))
    _require_cells(cells, place / "cells.csv")
    gate = next((cell for cell in cells if cell.name == facts["gate"]), None)
    if gate is None:
        raise PriceError(f"{place / 'process.yaml'}: gate is {facts['gate']!r}, which cells.csv does not have")
    texts = {key: str(facts[key]) for key in ("name", "corner", "source", "commit", "licence", "dram_source")}
    dram = _number(facts["dram_pj_per_byte"], f"{place / 'process.yaml'}: dram_pj_per_byte")
    return Process(
        folder=place,
        **texts,
        gate=gate,
        dram_pj_per_byte=dram,
        cells=cells,
        macros=macros,
        logic_energy=_logic_energy(facts, place),
    )


def _logic_energy(facts: Mapping[str, object], place: Path) -> LogicEnergy | None:
    """The figures under `logic_energy`. Raises PriceError for one that is missing or no number."""
    found = facts.get("logic_energy")
    if found is None:
        return None
    where = f"{place / 'process.yaml'}: logic_energy"
    names = [field.name for field in fields(LogicEnergy)]
    missing = [name for name in names if not isinstance(found, dict) or name not in found]
    if missing or not isinstance(found, dict):
        raise PriceError(f"{where}: missing: {', '.join(missing)}")
    return LogicEnergy(*(_number(found[name], f"{where}.{name}") for name in names))


def _require_cells(cells: Sequence[Cell], path: Path) -> None:
    """The least that Yosys and its `abc` map any logic with; without it they end and do not say why."""
    gates = [(cell.inputs, function.strip("()")) for cell in cells for function in cell.outputs.values()]
    functions = {function.replace(inputs[0], "A") for inputs, function in gates if len(inputs) == 1}
    has = {
        "a flip-flop": any(cell.state for cell in cells),
        "a buffer": "A" in functions,
        "an inverter": not functions.isdisjoint({"!A", "!(A", "A'"}),
        "a gate of two inputs": any(len(inputs) == 2 for inputs, _ in gates),
    }
    for name, is_there in has.items():
        if not is_there:
            raise PriceError(f"{path}: no cell is {name}; a machine cannot be built without one")


def _facts(path: Path) -> Mapping[str, object]:
    try:
        facts = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise PriceError(f"{path}: not YAML: {error}") from error
    missing = [key for key in KEYS if not isinstance(facts, dict) or key not in facts]
    if missing:
        raise PriceError(f"{path}: missing: {', '.join(missing)}")
    return facts


def table_rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows of a table, each with its place under `place`."""
    reader = csv.DictReader(_text(path).splitlines())
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise PriceError(f"{path}: no column {', '.join(missing)}; expected {', '.join(columns)}")
    for row in reader:
        yield {**{key: value or "" for key, value in row.items() if key}, "place": f"{path}:{reader.line_num}"}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PriceError(f"{path}: {error.strerror}; a process has process.yaml, cells.csv and srams.csv") from error


def _cell(row: Mapping[str, str]) -> Cell:
    pins = [pin.strip() for pin in row["inputs"].split(";") if pin.strip()]
    functions = (pin.partition("=") for pin in row["outputs"].split(";") if pin.strip())
    return Cell(
        name=_word(row, "cell"),
        area_um2=_positive(row, "area_um2"),
        inputs=tuple(pin.split()[0] for pin in pins),
        clocks=tuple(pin.split()[0] for pin in pins if pin.endswith(" clock")),
        outputs={name.strip(): function.strip() for name, _, function in functions},
        state=row["state"].strip(),
    )


def _macro(row: Mapping[str, str]) -> Macro:
    counts = {name: _positive(row, name) for name in ("ports", "words", "bits")}
    for name, count in counts.items():
        if count != int(count):
            raise PriceError(f"{row['place']}: {name} is {row[name]!r}; expected a whole number")
    ports, words, bits = (int(count) for count in counts.values())
    # Two-port energies are often copies of the one-port ones: a table may leave them out, one-port figures it may not.
    energies = {
        name: None if ports > 1 and not row.get(name) else _positive(row, name) for name in ("read_pj", "write_pj")
    }
    delay = _positive(row, "clock_to_output_ns") if row.get("clock_to_output_ns") else None
    return Macro(
        _word(row, "macro"), ports, words, bits, _positive(row, "area_um2"), **energies, clock_to_output_ns=delay
    )


def _word(row: Mapping[str, str], column: str) -> str:
    if not row[column].strip():
        raise PriceError(f"{row['place']}: {column} is empty")
    return row[column].strip()


def _positive(row: Mapping[str, str], column: str) -> float:
    if not row.get(column, "").strip():
        raise PriceError(f"{row['place']}: {column} is empty; every row needs its figure")
    number = _number(row[column], f"{row['place']}: {column}")
    if number <= 0:
        raise PriceError(f"{row['place']}: {column} is {row[column]}; expected more than 0")
    return number


def _number(value: object, place: str) -> float:
    try:
        return float(str(value))
    except ValueError as error:
        raise PriceError(f"{place} is {value!r}; expected a number") from error
