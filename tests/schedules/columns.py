"""What networks take with columns of tensors with few channels joined, and without.

python -m tests.schedules.columns                         # the table of docs/schedules.md
python -m tests.schedules.columns mobilenetv2 wide32
"""

from __future__ import annotations

import argparse

from tests.schedules.never_slower import model
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned

ENTRIES = (
    ("resnet20v2", "tensil32"),
    ("mobilenetv1-0.25", "base16"),
    ("mobilenetv1-0.25", "wide32"),
    ("resnet8", "wide32"),
    ("resnet8", "rect"),
    ("mobilenetv2", "wide32"),
    ("efficientnet-lite0", "wide32"),
    ("digits", "rect"),
)


def cycles(name: str, machine: Machine, options: Options) -> int:
    """The cycles of all programs of a network, without what the host computes."""
    compiled = compile_partitioned(model(name), machine, options)
    programs = compiled.programs if isinstance(compiled, Partitioned) else (compiled,)
    return sum(map(exact_cycles, programs))


def markdown(entries: tuple[tuple[str, str], ...]) -> str:
    """The table of docs/schedules.md."""
    rows = ["| network | machine | single columns | joined | |", "| --- | --- | ---: | ---: | ---: |"]
    for name, isa in entries:
        machine = load_machine(isa)
        single, joined = (
            cycles(name, machine, Options(joins_columns=joins_columns)) for joins_columns in (False, True)
        )
        rows.append(f"| {name} | `{isa}` | {single:,} | {joined:,} | {100 * (joined / single - 1):+.1f} % |")
    return "\n".join(rows)


def main() -> None:
    """Print a row for each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.columns", description="With and without.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/schedules.md")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2):
        parser.error("expected a network and a machine")
    print(markdown(((arguments.entry[0], arguments.entry[1]),) if arguments.entry else ENTRIES))


if __name__ == "__main__":
    main()
