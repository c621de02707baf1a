"""What networks take with less and less memory for activations, layers whole and in stripes, and what the host gets.

python -m tests.schedules.memories                        # the table of docs/schedules.md
python -m tests.schedules.memories mobilenetv2 dw16 32 16
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from tests.schedules.never_slower import model
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import Partitioned

ENTRIES = (("mobilenetv1-0.25", "dw16"), ("ds-cnn", "dw16"))

KIB = (256, 64, 32, 16, 8, 4, 2, 1)
"""Sizes of `act`; a machine file says none that is smaller than 1 KiB."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The cycles of a network's programs, and the nodes that the host computes."""

    cycles: int
    on_host: int


def taken(name: str, isa: str, kib: int, cuts_chains: bool) -> Taken:
    """What a network takes on a machine with so much memory for activations."""
    machine = load_machine(isa, [f"memories.act.kib={kib}"])
    compiled = compile_partitioned(model(name), machine, Options(cuts_chains=cuts_chains))
    if isinstance(compiled, Partitioned):
        return Taken(sum(map(exact_cycles, compiled.programs)), len(compiled.host_nodes))
    return Taken(exact_cycles(compiled), 0)


def rows(name: str, isa: str, sizes: Sequence[int]) -> list[str]:
    """The two rows of a network: layers whole, and in stripes. Nodes on the host stand behind the cycles."""
    found = []
    for what, cuts_chains in (("whole", False), ("in stripes", True)):
        cells = []
        for kib in sizes:
            result = taken(name, isa, kib, cuts_chains)
            cells.append(f"{result.cycles:,}" + (f" + {result.on_host}" if result.on_host else ""))
        found.append(f"| {name} | `{isa}` | {what} | {' | '.join(cells)} |")
    return found


def main() -> None:
    """Print two rows for each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.memories", description="With less memory.")
    parser.add_argument(
        "entry", nargs="*", metavar="NETWORK MACHINE [KIB…]", help="default: those of docs/schedules.md"
    )
    wanted = parser.parse_args().entry
    if len(wanted) == 1:
        parser.error("expected a network and a machine")
    sizes = [int(kib) for kib in wanted[2:]] or KIB
    entries = ((wanted[0], wanted[1]),) if wanted else ENTRIES
    print(f"| network | machine | layers | {' | '.join(f'{kib} KiB' for kib in sizes)} |")
    print(f"| --- | --- | --- |{' ---: |' * len(sizes)}", flush=True)
    for name, isa in entries:
        for row in rows(name, isa, sizes):
            print(row, flush=True)


if __name__ == "__main__":
    main()
