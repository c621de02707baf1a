"""What networks take with chains of layers in stripes, and without.

python -m tests.schedules.stripes                         # the table of docs/schedules.md
python -m tests.schedules.stripes mobilenetv2 dw16
"""

from __future__ import annotations

import argparse

from tests.schedules.columns import cycles
from tilewright.compiler.options import Options
from tilewright.isa.files.loader import load_machine

ENTRIES = (
    ("mobilenetv2", "dw16", ""),
    ("mobilenetv2", "dw16", "memories.act.kib=64"),
    ("mobilenetv2", "dw16", "memories.act.kib=32"),
    ("mobilenetv3-large", "dw16", ""),
    ("efficientnet-lite0", "dw16", ""),
    ("mobilenetv1-0.25", "dw16", "memories.act.kib=32"),
)


def markdown(entries: tuple[tuple[str, str, str], ...]) -> str:
    """The table of docs/schedules.md."""
    rows = ["| network | machine | layers whole | in stripes | |", "| --- | --- | ---: | ---: | ---: |"]
    for name, isa, change in entries:
        machine = load_machine(isa, [change] if change else [])
        whole, cut = (cycles(name, machine, Options(cuts_chains=cuts_chains)) for cuts_chains in (False, True))
        where = f"`{isa}`, `{change}`" if change else f"`{isa}`"
        rows.append(f"| {name} | {where} | {whole:,} | {cut:,} | {100 * (cut / whole - 1):+.1f} % |")
    return "\n".join(rows)


def main() -> None:
    """Print a row for each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.stripes", description="With and without stripes.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/schedules.md")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2):
        parser.error("expected a network and a machine")
    print(markdown(((*arguments.entry, ""),) if arguments.entry else ENTRIES))


if __name__ == "__main__":
    main()
