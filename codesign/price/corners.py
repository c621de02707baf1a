"""The corners of a process: the same cells and macros, slower or faster.

`corners` in process.yaml names them. Each has a folder of its own in that of the process: arcs.csv and pins.csv as
there, and srams.csv with the columns `macro` and `clock_to_output_ns`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.process import Process, number_of, table_rows

TYPICAL = "typical"
"""What the tables of the process itself are of."""


def at_corner(process: Process, name: str) -> Process:
    """The process at one of its corners. Raises PriceError for a corner that it does not have, or a missing figure."""
    if name == TYPICAL:
        return process
    if name not in process.corners:
        raise PriceError(f"{process.name} has no corner {name}; it has: {', '.join((TYPICAL, *process.corners))}")
    path = process.folder / name / "srams.csv"
    late = {}
    for row in table_rows(path, ("macro", "clock_to_output_ns")):
        late[row["macro"]] = number_of(row["clock_to_output_ns"], f"{row['place']}: clock_to_output_ns")
        if late[row["macro"]] <= 0:
            raise PriceError(f"{row['place']}: clock_to_output_ns is {late[row['macro']]:g}; expected more than 0")
    needed = (macro.name for macro in process.macros if macro.clock_to_output_ns is not None)
    missing = [name for name in needed if name not in late]
    if missing:
        raise PriceError(f"{path}: no row for {missing[0]}, which has a delay in the process")
    macros = tuple(replace(macro, clock_to_output_ns=late.get(macro.name)) for macro in process.macros)
    return replace(process, folder=process.folder / name, corner=process.corners[name], macros=macros)
