"""Counts the cells of the vector datapath and of the array, with what they share and without.

python -m tilewright.rtl.synthesis base16
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.lib import wiring

from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import Operation, Unit, bind, schedule
from tilewright.isa.templates.systolic import is_transposing
from tilewright.rtl.arrays import systolic_arrays
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.yosys import run_yosys

FINE = "synth -flatten -noabc -noshare\ntee -o out stat -json"
COARSE = "proc\nflatten\nopt -full\ntee -o out stat -json"


@dataclass(frozen=True, slots=True)
class Area:
    """Some hardware: its multipliers, as units and as Yosys cells (`$mul`), and its cells."""

    name: str
    multipliers: int
    mul_cells: int
    gates: int  # Yosys's gates of one or two inputs, and multiplexers
    flip_flops: int


def areas(machine: Machine, engine: Engine) -> list[Area]:
    """All instructions of a vector engine merged, the same without sharing, and each alone.

    Counted on one lane, because lanes are alike; a machine's datapath has `lanes` of them.
    """
    formats = machine.formats_of(engine)
    return [
        area("merged", machine, formats, bind(schedule(formats))),
        area("unmerged", machine, formats, unshared(schedule(formats))),
        *(area(format.mnemonic, machine, (format,), bind(schedule((format,)))) for format in formats),
    ]


def array_areas(machine: Machine, engine: Engine) -> list[Area]:
    """An array; if it can transpose tiles, then also as it would be without. Nothing for a machine without one."""
    formats = {key: format for key, format in machine.formats.items() if not is_transposing(format)}
    without = dataclasses.replace(machine, formats=formats)
    found = [array_area("tiles only", without, engine)] if without.formats_of(engine) else []
    return found if without == machine else [array_area("tiles and transposes", machine, engine), *found]


def array_area(name: str, machine: Machine, engine: Engine) -> Area:
    return _area(name, systolic_arrays(machine, engine)[0], engine.array.rows * engine.array.cols)


def area(name: str, machine: Machine, formats: Sequence[InstructionFormat], units: Sequence[Unit]) -> Area:
    (engine,) = {format.engine for format in formats}
    others = {key: format for key, format in machine.formats.items() if format.engine is not engine}
    formats_of_lane = {**others, **{format.mnemonic: format for format in formats}}
    one_lane = dataclasses.replace(machine.with_lanes(1), formats=formats_of_lane)
    datapath = VectorDatapath(one_lane, engine)
    datapath.units = tuple(units)
    return _area(name, datapath, sum(unit.op is Op.MUL for unit in units))


def _area(name: str, component: wiring.Component, multipliers: int) -> Area:
    coarse, fine = cells(component, COARSE), cells(component, FINE)
    flip_flops = sum(count for cell, count in fine.items() if "DFF" in cell.upper())
    return Area(name, multipliers, coarse.get("$mul", 0), sum(fine.values()) - flip_flops, flip_flops)


def unshared(operations: Sequence[Operation]) -> tuple[Unit, ...]:
    """A unit of its own for every operation."""
    return tuple(Unit(each.expr.op, each.places[0], (each,)) for each in operations)


def cells(component: wiring.Component, script: str) -> dict[str, int]:
    """Cells of each type, as Yosys counts them."""
    counts = json.loads(run_yosys(component, script))["design"]["num_cells_by_type"]
    return {str(cell): int(count) for cell, count in counts.items()}


def table(title: str, rows: Sequence[Area]) -> str:
    """The areas as text, a line each."""
    head = f"{title:28} {'multipliers':>11} {'$mul cells':>10} {'gates':>8} {'flip-flops':>10}"
    lines = [f"{r.name:28} {r.multipliers:11} {r.mul_cells:10} {r.gates:8} {r.flip_flops:10}" for r in rows]
    return "\n".join([head, *lines])


def main(arguments: list[str]) -> int:
    """Print the tables of the machine that is named."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.rtl.synthesis", description=__doc__)
    parser.add_argument("machine", help="a shipped machine or a YAML file")
    try:
        machine = load_machine(parser.parse_args(arguments).machine)
    except IsaError as error:
        print(error, file=sys.stderr)
        return 1
    for engine in machine.of(Template.VECTOR):
        print(table(f"datapath of {engine}, one lane", areas(machine, engine)))
        print()
    for engine in machine.of(Template.SYSTOLIC):
        print(table(f"{engine}, {engine.array.rows}×{engine.array.cols}", array_areas(machine, engine)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
