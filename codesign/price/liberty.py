"""A table of cells as a Liberty file: enough to map logic to it and to count its area, without delays."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.process import Cell, Process

FLIP_FLOP = re.compile(r"ff\((\w+),(\w+)\) (\S.*)")
"""As in `ff(IQ,IQN) clocked_on=CLK next_state=D clear=!RESET_B`."""


def liberty(process: Process) -> str:
    """The Liberty file of a process. Raises PriceError for a flip-flop that is not written as one."""
    lines = ["library (cells) {", '  time_unit : "1ns";', "  capacitive_load_unit (1, pf);"]
    for cell in process.cells:
        lines += _cell(cell)
    return "\n".join([*lines, "}", ""])


def _cell(cell: Cell) -> Iterator[str]:
    yield f"  cell ({cell.name}) {{"
    yield f"    area : {cell.area_um2};"
    if cell.state:
        yield _flip_flop(cell)
    for pin in cell.inputs:
        clock = " clock : true;" if pin in cell.clocks else ""
        yield f"    pin ({pin}) {{ direction : input;{clock} }}"
    for pin, function in cell.outputs.items():
        yield f'    pin ({pin}) {{ direction : output; function : "{function}"; }}'
    yield "  }"


def _flip_flop(cell: Cell) -> str:
    found = FLIP_FLOP.fullmatch(cell.state)
    if found is None:
        raise PriceError(f"{cell.name}: state is {cell.state!r}; expected 'ff(IQ,IQN) clocked_on=… next_state=…'")
    facts = " ".join(f'{key} : "{value}";' for key, _, value in (fact.partition("=") for fact in found[3].split()))
    return f"    ff ({found[1]},{found[2]}) {{ {facts} }}"
