"""A table of cells as a Liberty file: enough to map logic to it and to count its area; with delays if it has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import Arc, Timing
from tilewright.codesign.price.process import FLIP_FLOP, Cell, Process


def liberty(process: Process, timing: Timing | None = None) -> str:
    """The Liberty file of a process, with delays where they are given.

    Raises PriceError for a flip-flop that is not written as one.
    """
    lines = ["library (cells) {", '  time_unit : "1ns";', "  capacitive_load_unit (1, pf);"]
    lines += _template(timing) if timing else []
    for cell in process.cells:
        lines += _cell(cell, timing)
    return "\n".join([*lines, "}", ""])


def _template(timing: Timing) -> Iterator[str]:
    """`abc` wants the axes of a table by name, though every table has its own."""
    first = timing.arcs[0]
    yield "  delay_model : table_lookup;"
    yield "  lu_table_template (delays) {"
    yield "    variable_1 : input_net_transition;"
    yield "    variable_2 : total_output_net_capacitance;"
    yield f'    index_1 ("{_listed(first.slews)}");'
    yield f'    index_2 ("{_listed(first.loads)}");'
    yield "  }"


def _cell(cell: Cell, timing: Timing | None) -> Iterator[str]:
    yield f"  cell ({cell.name}) {{"
    yield f"    area : {cell.area_um2};"
    if cell.state:
        yield _flip_flop(cell)
    for pin in cell.inputs:
        clock = " clock : true;" if pin in cell.clocks else ""
        load = f" capacitance : {timing.capacitance(cell.name, pin)};" if timing else ""
        yield f"    pin ({pin}) {{ direction : input;{clock}{load} }}"
    for pin, function in cell.outputs.items():
        yield f'    pin ({pin}) {{ direction : output; function : "{function}";'
        if timing and not cell.state:
            yield from _delays(timing.arcs_to(cell.name, pin))
        yield "    }"
    yield "  }"


def _delays(arcs: Sequence[Arc]) -> Iterator[str]:
    for source, sense in dict.fromkeys((arc.source, arc.sense) for arc in arcs):
        yield f'      timing () {{ related_pin : "{source}"; timing_sense : {sense};'
        for arc in arcs:
            if (arc.source, arc.sense) == (source, sense):
                yield from _table(f"cell_{arc.edge}", arc, arc.delays)
                yield from _table(f"{arc.edge}_transition", arc, arc.transitions)
        yield "      }"


def _table(name: str, arc: Arc, rows: Sequence[Sequence[float]]) -> Iterator[str]:
    yield f"        {name} (delays) {{"
    yield f'          index_1 ("{_listed(arc.slews)}");'
    yield f'          index_2 ("{_listed(arc.loads)}");'
    values = ", ".join(f'"{_listed(row)}"' for row in rows)
    yield f"          values ({values});"
    yield "        }"


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)


def _flip_flop(cell: Cell) -> str:
    found = FLIP_FLOP.fullmatch(cell.state)
    if found is None:
        raise PriceError(f"{cell.name}: state is {cell.state!r}; expected 'ff(IQ,IQN) clocked_on=… next_state=…'")
    facts = " ".join(f'{key} : "{value}";' for key, _, value in (fact.partition("=") for fact in found[3].split()))
    return f"    ff ({found[1]},{found[2]}) {{ {facts} }}"
