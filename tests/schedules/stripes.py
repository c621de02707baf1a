"""What networks take with chains of layers in stripes, and without.

python -m tests.schedules.stripes                         # the table of docs/schedules.md
python -m tests.schedules.stripes mobilenetv2 dw16
python -m tests.schedules.stripes --edges mobilenetv2 dw16     # its chains, each alone: edges computed again, or copied
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from tests.compiler.stripes.networks import before_stripes
from tests.schedules.columns import cycles
from tests.schedules.never_slower import model
from tilewright.compiler.options import Options
from tilewright.compiler.passes import STRIPES, PassContext
from tilewright.compiler.pipeline import cycles_after
from tilewright.compiler.stripes.chain import Chain, chains
from tilewright.compiler.stripes.cut import in_stripes
from tilewright.compiler.stripes.proposal import StripeProposal
from tilewright.compiler.stripes.stripes import alone, worth_trying
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


def of_edges(name: str, isa: str) -> Iterator[str]:
    """A row for each chain that may gain, with the fewest cycles of each kind of stripes that `--effort 1` measures."""
    machine = load_machine(isa)
    measure = partial(cycles_after, (STRIPES,), PassContext(machine, Options()))
    yield "| first layer of the chain | whole | edges computed again | edges copied |"
    yield "| --- | ---: | ---: | ---: |"
    for chain in chains(before_stripes(model(name), machine), machine.lanes):
        own = alone(chain)
        tried = worth_trying(own, machine, effort=1)

        def best(found: Sequence[StripeProposal], own: Chain = own) -> str:
            cycles = [measure(in_stripes(own, each.stripes)) for each in found]
            return f"{min((each for each in cycles if each is not None), default=0):,}" if found else ""

        if tried:
            kinds = [[each for each in tried if each.stripes.copies_edges is copied] for copied in (False, True)]
            yield f"| {chain.nests[0].name} | {measure(own.program):,} | {' | '.join(map(best, kinds))} |"


def main() -> None:
    """Print a row for each network and machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.stripes", description="With and without stripes.")
    parser.add_argument("entry", nargs="*", metavar="NETWORK MACHINE", help="default: those of docs/schedules.md")
    parser.add_argument("--edges", action="store_true", help="chains alone: edges computed again, or copied")
    arguments = parser.parse_args()
    if len(arguments.entry) not in (0, 2) or (arguments.edges and not arguments.entry):
        parser.error("expected a network and a machine")
    if arguments.edges:
        for row in of_edges(*arguments.entry):
            print(row, flush=True)
        return
    print(markdown(((*arguments.entry, ""),) if arguments.entry else ENTRIES))


if __name__ == "__main__":
    main()
