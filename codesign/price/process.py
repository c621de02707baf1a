"""A process as data: a folder with its standard cells, its SRAM macros and where the figures come from.

`process.yaml` names the process, its corner, source and licence, and the cell that counts as one gate;
`cells.csv` has a row for each standard cell, `srams.csv` for each macro. docs/price.md describes the columns.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.clock_gates import ClockGate
from tilewright.codesign.price.functions import fault_of_function
from tilewright.codesign.templates.facet import LogicEnergy
from tilewright.isa.errors import IsaError, short
from tilewright.isa.files.yaml_tree import parse_yaml
from tilewright.isa.folders.whole_file import read_regular
from tilewright.isa.outside import OutsideError, from_plain

SHIPPED = Path(__file__).parent.parent / "processes"

DEFAULT_PROCESS = "sg13g2"

KEYS = ("name", "corner", "source", "commit", "licence", "gate", "dram_pj_per_byte", "dram_source")

MOST_BYTES = 1 << 24
"""The largest file of a process."""

LEAST, MOST = 1e-9, 1e12
"""No area, energy or delay of a process is beyond these, in any of the units here."""

WORD = re.compile(r"\w[\w.$-]{0,99}", re.ASCII)
"""The name of a cell, a pin or a macro."""

FLIP_FLOP = re.compile(r"ff\((\w+),(\w+)\) (\S.*)", re.ASCII)
"""As in `ff(IQ,IQN) clocked_on=CLK next_state=D clear=!RESET_B`."""

Word = str | int | float
Amount = Annotated[float, Meta(ge=0, le=MOST)]


class _Energy(Struct, frozen=True):
    """A `LogicEnergy`."""

    clock_pj_per_flip_flop: Amount
    array_pj_per_mac: Amount
    lane_pj_per_iteration_per_um2: Amount


class _ClockGate(Struct, frozen=True):
    """A `ClockGate`."""

    cell: Word
    area_um2: Amount
    closed_pj: Amount
    open_pj: Amount


class _Facts(Struct, frozen=True):
    """What process.yaml says."""

    name: Word
    corner: Word
    source: Word
    commit: Word
    licence: Word
    gate: Word
    dram_pj_per_byte: Amount
    dram_source: Word
    clock_gate: _ClockGate | None = None
    logic_energy: _Energy | None = None
    corners: dict[str, str] = {}  # noqa: RUF012 (msgspec copies it)


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
    clock_gate: ClockGate | None  # None where the table has none
    logic_energy: LogicEnergy | None  # None where it was not measured
    corners: Mapping[str, str]  # beside the one of these figures: its name → what it is

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
    _require_once((cell.name for cell in cells), place / "cells.csv")
    _require_once((macro.name for macro in macros), place / "srams.csv")
    _require_cells(cells, place / "cells.csv")
    gate = next((cell for cell in cells if cell.name == str(facts.gate)), None)
    if gate is None:
        raise PriceError(f"{place / 'process.yaml'}: gate is {short(facts.gate)}, which cells.csv does not have")
    return Process(
        folder=place,
        name=str(facts.name),
        corner=str(facts.corner),
        source=str(facts.source),
        commit=str(facts.commit),
        licence=str(facts.licence),
        gate=gate,
        dram_pj_per_byte=facts.dram_pj_per_byte,
        dram_source=str(facts.dram_source),
        cells=cells,
        macros=macros,
        clock_gate=None if (stops := facts.clock_gate) is None else _clock_gate(stops),
        logic_energy=None if (of := facts.logic_energy) is None else _logic_energy(of),
        corners={_corner(name, place): what for name, what in facts.corners.items()},
    )


def _clock_gate(of: _ClockGate) -> ClockGate:
    return ClockGate(str(of.cell), of.area_um2, of.closed_pj, of.open_pj)


def _corner(name: str, place: Path) -> str:
    if WORD.fullmatch(name) is None:
        raise PriceError(f"{place / 'process.yaml'}: corners has {short(name)}; expected letters, digits and _")
    return name


def _logic_energy(of: _Energy) -> LogicEnergy:
    return LogicEnergy(of.clock_pj_per_flip_flop, of.array_pj_per_mac, of.lane_pj_per_iteration_per_um2)


def _require_once(names: Iterator[str], path: Path) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise PriceError(f"{path}: {name} is there {count} times; expected once")


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


def _facts(path: Path) -> _Facts:
    try:
        facts = parse_yaml(_text(path), str(path)).plain()
        missing = [key for key in KEYS if not isinstance(facts, dict) or key not in facts]
        if missing:
            raise PriceError(f"{path}: missing: {', '.join(missing)}")
        return from_plain(facts, _Facts)
    except IsaError as error:
        raise PriceError(str(error)) from error
    except OutsideError as error:
        raise PriceError(f"{path}: {error}") from error


def table_rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The rows of a table, each with its place under `place`."""
    reader = csv.DictReader(_text(path).splitlines())
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise PriceError(f"{path}: no column {', '.join(missing)}; expected {', '.join(columns)}")
        for row in reader:
            yield {**{key: value or "" for key, value in row.items() if key}, "place": f"{path}:{reader.line_num}"}
    except csv.Error as error:
        raise PriceError(f"{path}:{reader.line_num}: is no row of a table: {error}") from error


def _text(path: Path) -> str:
    try:
        return read_regular(path, MOST_BYTES).decode()
    except OSError as error:
        raise PriceError(f"{path}: {error.strerror}; a process has process.yaml, cells.csv and srams.csv") from error
    except UnicodeDecodeError as error:
        raise PriceError(f"{path}: is no text in UTF-8: {error.reason} at byte {error.start}") from error


def _cell(row: Mapping[str, str]) -> Cell:
    pins = [pin.strip() for pin in row["inputs"].split(";") if pin.strip()]
    functions = (pin.partition("=") for pin in row["outputs"].split(";") if pin.strip())
    cell = Cell(
        name=word(row, "cell"),
        area_um2=_positive(row, "area_um2"),
        inputs=tuple(pin.split()[0] for pin in pins),
        clocks=tuple(pin.split()[0] for pin in pins if pin.endswith(" clock")),
        outputs={name.strip(): function.strip() for name, _, function in functions},
        state=row["state"].strip(),
    )
    for name in (*cell.inputs, *cell.outputs):
        if WORD.fullmatch(name) is None:
            raise PriceError(f"{row['place']}: {short(name)} is no name of a pin")
    states = _states(cell, row["place"])
    for name, function in cell.outputs.items():
        _require_function(f"{row['place']}: {name}", function, (*cell.inputs, *states))
    return cell


def _states(cell: Cell, place: str) -> tuple[str, ...]:
    """The two names of what a flip-flop holds, all that is said of it being right; none of a gate."""
    if not cell.state:
        return ()
    found = FLIP_FLOP.fullmatch(cell.state)
    if found is None:
        expected = "'ff(IQ,IQN) clocked_on=… next_state=…'"
        raise PriceError(f"{place}: state is {short(cell.state)}; expected {expected}")
    for fact in found[3].split():
        key, _, function = fact.partition("=")
        if not WORD.fullmatch(key):
            raise PriceError(f"{place}: state has {short(fact)}; expected such as clocked_on=CLK")
        _require_function(f"{place}: {key}", function, (*cell.inputs, found[1], found[2]))
    return found[1], found[2]


def _require_function(place: str, function: str, pins: Sequence[str]) -> None:
    if fault := fault_of_function(function, pins):
        raise PriceError(f"{place} is {short(function)}, which is no function of its cell's pins: {fault}")


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
        word(row, "macro"), ports, words, bits, _positive(row, "area_um2"), **energies, clock_to_output_ns=delay
    )


def word(row: Mapping[str, str], column: str) -> str:
    """A name in a row. Raises PriceError for none."""
    found = row[column].strip()
    if not found:
        raise PriceError(f"{row['place']}: {column} is empty")
    if WORD.fullmatch(found) is None:
        raise PriceError(f"{row['place']}: {column} is {short(found)}; expected letters, digits and _")
    return found


def _positive(row: Mapping[str, str], column: str) -> float:
    if not row.get(column, "").strip():
        raise PriceError(f"{row['place']}: {column} is empty; every row needs its figure")
    number = number_of(row[column], f"{row['place']}: {column}")
    if number <= 0:
        raise PriceError(f"{row['place']}: {column} is {row[column]}; expected more than 0")
    if not LEAST <= number <= MOST:
        raise PriceError(f"{row['place']}: {column} is {row[column]}; expected {LEAST:g} to {MOST:g}")
    return number


def number_of(text: str, place: str) -> float:
    """The number in a text. Raises PriceError for one that is none, or not finite."""
    try:
        number = float(text)
    except ValueError as error:
        raise PriceError(f"{place} is {short(text)}; expected a number") from error
    if not math.isfinite(number):
        raise PriceError(f"{place} is {short(text)}; expected a finite number")
    return number
