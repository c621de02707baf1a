"""What one port a bank costs and saves: cycles of networks and mm² of memories, beside the machine with two.

python -m tests.schedules.ports                 # base16-1p beside base16, the networks that compile in seconds
python -m tests.schedules.ports tiny8           # tiny8-1p beside tiny8
python -m tests.schedules.ports base16 --long   # with those that take longer to compile
"""

from __future__ import annotations

import argparse
from statistics import geometric_mean

from rich.console import Console
from rich.table import Table

from tests.schedules.never_slower import model
from tilewright.codesign.price.macros import memory_price
from tilewright.codesign.price.process import load_process
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned

QUICK = ("digits", "resnet8", "autoencoder", "ds-cnn", "mobilenetv1-0.25", "mobilenetv2")
LONG = ("resnet18", "mobilenetv3-large", "efficientnet-lite0")
"""Networks of the table of cycles."""


def cycles_of(name: str, machine: Machine, effort: int) -> int:
    """The cycles of all parts of a network that run on the machine."""
    compiled = compile_partitioned(model(name), machine, Options(effort=effort))
    return sum(map(exact_cycles, compiled.programs if isinstance(compiled, Partitioned) else (compiled,)))


def memories_mm2(machine: Machine) -> float:
    """The area of all memories in the shipped process."""
    process = load_process()
    return sum(memory_price(machine, memory, process).area_um2 for memory in machine.memories.values()) / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.ports", description=__doc__.partition("\n")[0])
    parser.add_argument("isa", nargs="?", default="base16", help="the machine with two ports")
    parser.add_argument("--beside", help="the machine with one port; the first one's name with -1p if left out")
    parser.add_argument("--long", action="store_true", help="networks that take longer, too")
    parser.add_argument("--effort", type=int, default=1, choices=(0, 1, 2), help="how hard the compiler searches")
    arguments = parser.parse_args()
    two, one = load_machine(arguments.isa), load_machine(arguments.beside or f"{arguments.isa}-1p")
    table = Table("", two.name, one.name, "change", title="cycles of networks, mm² of memories")
    changes = []
    for name in (*QUICK, *(LONG if arguments.long else ())):
        before, after = (cycles_of(name, machine, arguments.effort) for machine in (two, one))
        changes.append(after / before)
        print(f"{name}: {before:,} {after:,} {changes[-1] - 1:+.2%}", flush=True)
        table.add_row(name, f"{before:,}", f"{after:,}", f"{changes[-1] - 1:+.2%}")
    table.add_row("geometric mean", "", "", f"{geometric_mean(changes) - 1:+.2%}")
    before_mm2, after_mm2 = memories_mm2(two), memories_mm2(one)
    table.add_row("mm²", f"{before_mm2:.1f}", f"{after_mm2:.1f}", f"{after_mm2 / before_mm2 - 1:+.0%}")
    Console().print(table)


if __name__ == "__main__":
    main()
