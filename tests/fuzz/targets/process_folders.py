"""Process folders: values, rows and bytes of their files changed.

What is accepted prices memories with figures that are numbers, and its Liberty file is read as the same cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.fuzz.harness import REPOSITORY, Outcome, Target, WrongAnswer
from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.activity import evaluator
from tilewright.codesign.price.cell_timing import Timing, load_timing
from tilewright.codesign.price.liberty import liberty
from tilewright.codesign.price.liberty_import import parse
from tilewright.codesign.price.macros import storage_price
from tilewright.codesign.price.process import SHIPPED, Process, load_process

FILES = ("process.yaml", "cells.csv", "srams.csv", "pins.csv", "arcs.csv")

SIZES = ((1, 64, 8), (4, 1000, 128), (2, 5, 3))

CELLS = ("sg13g2_inv_1", "sg13g2_buf_1", "sg13g2_nand2_1", "sg13g2_dfrbp_1")
"""Of the shipped process, those that are enough for any logic."""

VALUES = (
    *("", "0", "-1", "nan", "inf", "1e400", "1e-400", "1e18", "two", "1;2", "A", "A;A", "Y=", "Y=A", "Y=!(A", "Y=A'"),
    *(
        "Y=((A))",
        "Y=A+B",
        "Y=" + "(" * 200 + "A" + ")" * 200,
        "Y=Z",
        "=",
        ";",
        "a b",
        "x" * 200,
        '"',
        "ü",
        "\0",
        "0.1 0.2",
    ),
    *("ff(IQ,IQN)", "ff(IQ,IQN) clocked_on=C next_state=", "ff(A,B) x", "}", "a{b", "rise", "setup", "[1]", "{}"),
    *("9223372036854775808", "6.5", "1 2 3 4", "0.2 0.1", "x,y", "\n", "# ", "&a [*a]", "!!python/object:os.system x"),
)


@dataclass(frozen=True)
class ChangedProcess:
    """A process's files; changes are (file, line, cell of the line, new text), then bytes: (file, place, new ones)."""

    changes: tuple[tuple[str, int, int, str], ...]
    bytes: tuple[tuple[str, int, bytes], ...] = ()
    is_shipped: bool = True

    def write(self, folder: Path) -> None:
        for name, text in _files(self.is_shipped).items():
            lines = text.splitlines()
            for file, line, cell, new in self.changes:
                if file == name:
                    line %= len(lines)
                    separator = "," if name.endswith(".csv") else ": "
                    cells = lines[line].split(separator)
                    cells[cell % len(cells)] = new
                    lines[line] = separator.join(cells)
            content = ("\n".join(lines) + "\n").encode()
            for file, place, new_bytes in self.bytes:
                if file == name:
                    place %= len(content)
                    content = content[:place] + new_bytes + content[place + 1 :]
            (folder / name).write_bytes(content)


@cache
def _files(is_shipped: bool) -> dict[str, str]:
    """The files of the tests' process, or of the shipped one with few cells."""
    if not is_shipped:
        folder = REPOSITORY / "tests" / "codesign" / "price" / "toy"
        return {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}
    found = {}
    for name in FILES:
        lines = (SHIPPED / "sg13g2" / name).read_text().splitlines()
        if name in ("cells.csv", "pins.csv", "arcs.csv"):
            lines = [lines[0], *(line for line in lines[1:] if line.partition(",")[0] in CELLS)]
        found[name] = "\n".join(lines) + "\n"
    return found


@strategies.composite
def changed_processes(draw: DrawFn) -> ChangedProcess:
    file = strategies.sampled_from(FILES)
    change = strategies.tuples(
        file, strategies.integers(0, 40), strategies.integers(0, 9), strategies.sampled_from(VALUES)
    )
    place = strategies.tuples(file, strategies.integers(0, 1 << 14), strategies.binary(max_size=3))
    return ChangedProcess(
        tuple(draw(strategies.lists(change, max_size=3))),
        tuple(draw(strategies.one_of(strategies.just([]), strategies.lists(place, max_size=2)))),
        draw(strategies.booleans()),
    )


def attempt(changed: ChangedProcess) -> Outcome:
    with TemporaryDirectory() as name:
        changed.write(Path(name))
        try:
            process = load_process(name)
            timing = load_timing(process) if changed.is_shipped else None
        except PriceError:
            return Outcome.REFUSED
    _require_figures(process)
    _require_liberty(process, timing)
    for cell in process.cells:
        if not cell.state:
            for function in cell.outputs.values():
                if "'" not in function and "|" not in function:
                    evaluator(function, {pin: number for number, pin in enumerate(cell.inputs)})({})
    return Outcome.RIGHT


def _require_figures(process: Process) -> None:
    for sizes in SIZES:
        price = storage_price("x", sizes, process)
        figures = [] if price is None else [price.area_um2, price.read_pj or 0.0, price.write_pj or 0.0]
        if not all(0 <= figure < math.inf for figure in figures) or (price and price.wasted_bits < 0):
            raise WrongAnswer(f"a memory of {sizes} has the figures {figures}", "process folders: figures")


def _require_liberty(process: Process, timing: Timing | None) -> None:
    library = parse(liberty(process, timing))
    found = {cell.name: float(cell.text("area")) for cell in library.all("cell")}
    if found != {cell.name: cell.area_um2 for cell in process.cells}:
        raise WrongAnswer("its Liberty file has other cells", "process folders: cells")
    functions = [
        pin.text("function") for cell in library.all("cell") for pin in cell.all("pin") if pin.text("function")
    ]
    if functions != [function for cell in process.cells for function in cell.outputs.values()]:
        raise WrongAnswer("its Liberty file has other functions", "process folders: functions")


TARGET = Target("process folders", changed_processes(), attempt)
