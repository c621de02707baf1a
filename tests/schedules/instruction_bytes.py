"""What the instructions of networks take, beside what they took when all of a machine had the length of its longest.

python -m tests.schedules.instruction_bytes                    # the networks of cycles.py, two minutes
python -m tests.schedules.instruction_bytes resnet8 ds-cnn

The last line is all of them together: at most MOST of the bytes of one length are wanted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from tests.schedules.cycles import ENTRIES
from tests.schedules.never_slower import model
from tilewright.isa.program.program import Program

MOST = 0.82
"""Bytes of instructions, by those of one length."""


def main() -> None:
    """Compile the networks named, or all of the table, and print the bytes of their instructions."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.instruction_bytes", description="Program bytes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; default: all of cycles.py")
    names = parser.parse_args().names
    table = Table("network", "machine", title="bytes of instructions", caption=f"wanted: at most {MOST}")
    for column in ("instructions", "of one length", "of their own", "share"):
        table.add_column(column, justify="right")
    total = [0, 0, 0]
    for name, isa in ENTRIES:
        if names and name not in names:
            continue
        found = [sum(figures) for figures in zip(*_figures(name, isa), strict=True)]
        total = [one + other for one, other in zip(total, found, strict=True)]
        table.add_row(name, isa, *_shown(found))
    table.add_row("all", "", *_shown(total))
    Console(width=110).print(table)


def _figures(name: str, isa: str) -> Iterator[tuple[int, int, int]]:
    """Of each program: its instructions, their bytes if all had one length, and their bytes."""
    import tilewright

    for program in tilewright.compile(model(name), isa).programs:
        yield len(program.instructions), bytes_of_one_length(program), len(program.text)


def bytes_of_one_length(program: Program) -> int:
    """The bytes of a program whose instructions all have the bits of the longest, up to a beat and to 8 bytes."""
    step = 8 * max(8, program.machine.dram.bus_bytes)
    longest = max(field.low_bit + field.type.bits for of in program.machine.formats.values() for field in of.fields)
    return len(program.instructions) * -(-longest // step) * step // 8


def _shown(figures: Sequence[int]) -> tuple[str, ...]:
    count, one_length, own = figures
    return f"{count:,}", f"{one_length:,}", f"{own:,}", f"{own / one_length:.3f}"


if __name__ == "__main__":
    main()
