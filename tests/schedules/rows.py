"""What transformers take with softmaxes and normalisations in the rows of the products around them, and without.

python -m tests.schedules.rows                         # the table of docs/schedules.md
python -m tests.schedules.rows kwt-1 sequence16 --set memories.acc.banks=2

`waits for ports`: cycles in which the vector engine cannot reach a bank, nearly always one with sums of the array.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from tests.schedules.never_slower import model
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search import in_rows
from tilewright.compiler.search.finisher import run_of
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned

ENTRIES = (("kwt-1", "sequence16"), ("bert-tiny", "sequence16"), ("stories260k", "sequence16"))

@dataclass(frozen=True, slots=True)
class Taken:
    """Cycles of a network's programs, and those in which the vector engine waits for ports."""

    cycles: int
    waits: int


def taken(name: str, machine: Machine, *, has_rows: bool) -> Taken:
    """What a network takes, with rows or not; nothing is recalled."""
    ways = in_rows.WAYS if has_rows else ()
    with TemporaryDirectory() as folder, patch.object(in_rows, "WAYS", ways):
        compiled = compile_partitioned(model(name), machine, Options(tuning=Path(folder) / "tuning.json"))
    runs = [run_of(program) for program in (compiled.programs if isinstance(compiled, Partitioned) else [compiled])]
    of = {template: [e.name for e in machine.engines.values() if e.template is template] for template in Template}
    waits = sum(run.engines[name].stall["port"] for run in runs for name in of[Template.VECTOR])
    return Taken(sum(run.cycles for run in runs), waits)


def row(name: str, machine: Machine) -> str:
    """The row of a network."""
    apart, together = (taken(name, machine, has_rows=has_rows) for has_rows in (False, True))
    change = f"{100 * (together.cycles / apart.cycles - 1):+.1f} %"
    cells = f"{apart.cycles:,} | {apart.waits:,} | {together.cycles:,} | {together.waits:,} | {change}"
    return f"| {name} | `{machine.name}` | {cells} |"


def main() -> None:
    """Print the row of each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.rows", description="Softmaxes in rows.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/schedules.md")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change of the machines")
    arguments = parser.parse_args()
    wanted = arguments.entry
    if len(wanted) not in (0, 2):
        parser.error("expected a network and a machine")
    print("| network | machine | apart | waits for ports | in rows | waits for ports | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, isa in [(wanted[0], wanted[1])] if wanted else ENTRIES:
        print(row(name, load_machine(isa, arguments.set)), flush=True)


if __name__ == "__main__":
    main()
