"""Which lines and bits of the hardware's Verilog a chosen set of runs reaches, by unit: docs/rtl-coverage.md.

python -m tests.rtl.coverage --update      # builds two simulations first: ten minutes and more
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import tilewright
from tests.every_instruction import every_case, program_of_case
from tests.generators import random_dram
from tests.rtl.coverage.builds import DATA, counting_bench, run_unruly
from tests.rtl.coverage.data import Point, read_points, together
from tests.rtl.coverage.missed import idle, missed, page_lines, read_reasons, unexplained
from tests.tilewright.bundle.faults import DIGITS, SMALL, fault_files
from tilewright.bundle.simulated import WARNINGS
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.rtl.simulation.build import NETLIST, cached_netlist
from tilewright.rtl.simulation.session import Job, RtlSession
from tilewright.rtl.verilog import TOP

PAGE = Path(__file__).parents[3] / "docs" / "rtl-coverage.md"

MACHINE, SETTINGS = "tiny8", (*SMALL, "array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")

FAULTS, SEED = 102, 1

HEAD = f"""\
# Coverage of the hardware's Verilog

`make rtl-coverage` writes this page. It has Verilator count which choices (branches, cases, blocks) of the Verilog are
taken and which bits change, in both directions, on `{MACHINE}` with {", ".join(f"`{each}`" for each in SETTINGS)}.
The runs are

- each instruction with each flag, memory and region (`tests/every_instruction.py`), on a plain memory, and
- the network `digits` with {FAULTS} injected faults, stops and resets (`tests/tilewright/bundle/faults.py`), on a bus
  that lets every channel wait at random.

A `default: ;` is not counted: nothing is in it, and it is there so that no tool warns. Bits that never change are
mostly those of addresses, counts and strides that small programs do not need: an address has 64 bits.
`memory__…` are the modules around memories, by width (W) and depth (D) in hexadecimal.
"""

COLUMNS = ("unit", "choices taken", "of", "%", "changes of bits seen", "of", "%")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rtl.coverage", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the page")
    is_asked = parser.parse_args().update
    text, faults = page()
    if is_asked:
        PAGE.write_text(text)
    else:
        print(text)
    sys.exit("\n".join(faults) or 0)


def page() -> tuple[str, list[str]]:
    """The page, from runs that it makes, and what is wrong with the reasons: none for a choice, or one of nothing."""
    program = tilewright.compile(DIGITS, MACHINE, SETTINGS, effort=0)
    machine = program.machine
    with scratch() as folder:
        run_unruly(machine, fault_files(program), WARNINGS, (str(SEED), str(FAULTS)), folder)
        unruly = read_points((folder / DATA).read_text())
    total = together([unruly, every_instruction(machine)])
    source = cached_netlist(machine).splitlines()
    counted = {p: n for p, n in total.items() if p.file == NETLIST and not is_empty(p, source)}
    choices, reasons = missed(counted, source), read_reasons()
    faults = [f"{of.module}: {of.text} is never taken, and no reason is given" for of in unexplained(choices, reasons)]
    faults += [f"no choice is left for the reason: {reason.text}" for reason in idle(choices, reasons)]
    return "\n".join([HEAD, *table(counted), "", *page_lines(choices, reasons), ""]), faults


def every_instruction(machine: Machine) -> Counter[Point]:
    """What the programs of every instruction reach."""
    jobs = []
    for number, case in enumerate(every_case(machine)):
        rng = np.random.default_rng((0, number))
        program = program_of_case(machine, case, rng)
        jobs.append(Job(program, random_dram(program, rng), place_regions(program.limits)))
    with scratch() as folder:
        RtlSession(machine, program=counting_bench(machine)).run_in(folder, jobs)
        return read_points((folder / DATA).read_text())


def is_empty(point: Point, source: Sequence[str]) -> bool:
    """Whether a choice has nothing in it."""
    return not point.is_toggle and source[point.line - 1].strip() == "default: ;"


def unit_of(module: str) -> str:
    """The part of the machine in which a module is: the first name below the top module's."""
    below = module.removeprefix(f"{TOP}_")
    return re.sub(r"_\d+$", "", below).split("_")[0] if below != module else module


def table(counts: Mapping[Point, int]) -> Iterator[str]:
    """A row for each unit."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| --- |{' ---: |' * (len(COLUMNS) - 1)}"
    units = sorted({unit_of(point.module) for point in counts})
    for unit in [*units, "all"]:
        cells = []
        for is_toggle in (False, True):
            own = [n for p, n in counts.items() if p.is_toggle is is_toggle and unit in (unit_of(p.module), "all")]
            seen = sum(count > 0 for count in own)
            cells += [f"{seen:,}", f"{len(own):,}", f"{100 * seen / len(own):.1f}" if own else ""]
        yield f"| {unit} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
