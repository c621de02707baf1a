"""What networks take with less and less memory for activations, layers whole and in stripes, and what the host gets.

python -m tests.schedules.memories                        # the first table of docs/schedules.md
python -m tests.schedules.memories mobilenetv2 dw16 32 16
python -m tests.schedules.memories --least                # the second: every network of the table of cycles
python -m tests.schedules.memories --least --long         # those of it that take minutes each, too
python -m tests.schedules.memories --least bert-tiny sequence16 --effort 0      # one of these, sooner

`least`: the smallest power of two, in KiB, with which no more of a network goes to the host than with all memory that
the machine has. Where the machine can compute every node, that is the smallest with which each layer has a program of
its own. For the last that a compilation tries keeps nothing on chip between layers and moves nothing ahead, so that no
layer has anything in memory while another is computed; and what is too long for one program becomes several. Otherwise
it is found by compiling.
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tests.schedules.cycles import ENTRIES as OF_CYCLES
from tests.schedules.never_slower import model
from tilewright.compiler.attempts import frugal
from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.emission.ahead import NOTHING_AHEAD
from tilewright.compiler.errors import DoesNotFit, TooLong
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.partition.parts import whole_network
from tilewright.compiler.partition.programs import Programs
from tilewright.compiler.partition.source import read_source
from tilewright.compiler.pipeline import passes_of
from tilewright.compiler.running import finisher_of
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.session import Session
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile_part
from tilewright.compiler.tiling.tile import without_room as nests_without_room
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.partitioned import Partitioned

ENTRIES = (("mobilenetv1-0.25", "dw16"), ("ds-cnn", "dw16"))

KIB = (256, 64, 32, 16, 8, 4, 2, 1)
"""Sizes of `act`; a machine file says none that is smaller than 1 KiB."""

BESIDE_THE_LEAST = (256, 64, 32, 16)
"""Sizes for which the table with the least ones has cycles."""

ON_HOST_AT = 32
"""The size for which it has the nodes on the host."""

LONG = (
    "bert-tiny", "stories260k", "kwt-1", "resnet18", "resnet50", "botnet50", "mobilenetv2", "mobilenetv3-large",
    "efficientnet-lite0",
)  # fmt: skip
"""Networks that take minutes each: with 1 KiB of `act`, their programs are long."""

KIB_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Taken:
    """The cycles of a network's programs, and the nodes that the host computes."""

    cycles: int
    on_host: int

    def __str__(self) -> str:
        return f"{self.cycles:,}" + (f" + {self.on_host}" if self.on_host else "")


def machine_with(isa: str, kib: int) -> Machine:
    """A machine with so much memory for activations, whether its file says KiB or words."""
    try:
        return load_machine(isa, [f"memories.act.kib={kib}"])
    except IsaError:
        words = kib * KIB_BYTES // load_machine(isa).memories["act"].word_bytes
        return load_machine(isa, [f"memories.act.depth={words}"])


def taken(name: str, isa: str, kib: int, options: Options) -> Taken:
    """What a network takes on a machine with so much memory for activations."""
    compiled = compile_partitioned(model(name), machine_with(isa, kib), options)
    if isinstance(compiled, Partitioned):
        return Taken(sum(map(exact_cycles, compiled.programs)), len(compiled.host_nodes))
    return Taken(exact_cycles(compiled), 0)


def rows(name: str, isa: str, sizes: Sequence[int]) -> Iterator[str]:
    """The two rows of a network: layers whole, and in stripes. Nodes on the host stand behind the cycles."""
    for what, cuts_chains in (("whole", False), ("in stripes", True)):
        cells = [str(taken(name, isa, kib, Options(cuts_chains=cuts_chains))) for kib in sizes]
        yield f"| {name} | `{isa}` | {what} | {' | '.join(cells)} |"


def least_kib(on_host: Callable[[int], int], most: int) -> int:
    """The least power of two with which no more nodes are on the host than with `most` KiB.

    `on_host` never grows with the size. Most networks need no more than the smallest, so this is asked for first; then
    by bisection. Example, `most` is 160: of 1, 2, 4, … 128, 160, it is asked for 160 and 1, and then for about three.
    """
    powers = [1 << exponent for exponent in range(most.bit_length()) if 1 << exponent < most]
    allowed = on_host(most)
    if powers and on_host(powers[0]) <= allowed:
        return powers[0]
    at = bisect_left(powers, True, lo=min(1, len(powers)), key=lambda kib: on_host(kib) <= allowed)
    return powers[at] if at < len(powers) else most


def nests_without_program(selection: Selection) -> list[str]:
    """The nests that have no program of their own: no tile fits, or there are too many instructions for one.

    Those that look alike are tried once, with the last options that a compilation tries.
    """
    without_room = [node for error in nests_without_room(selection) for node in error.nodes]
    if without_room:
        return without_room
    first, last = frugal(TilingOptions())
    left = _without_program(selection, first, None)
    return _without_program(selection, last, left) if left else []


def _without_program(selection: Selection, tiling: TilingOptions, wanted: Collection[str] | None) -> list[str]:
    """Of the nests that are wanted, or of all, those that do not fit if they are cut so, one alone and in order."""
    options = Options(effort=0, tiling=tiling, ahead=NOTHING_AHEAD)
    plan = Planner(selection, tiling).plan()
    finisher = finisher_of(passes_of(options.passes), selection.machine)
    found, seen = list[str](), set[CanonicalForm]()
    for position, look in enumerate(plan.looks):
        name = selection.covers[position].nest.name
        if position in plan.within or look in seen or (wanted is not None and name not in wanted):
            continue
        seen.add(look)
        try:
            finisher.place(tile_part(selection, plan, range(position, position + 1)), options)
        except (DoesNotFit, TooLong):
            found.append(name)
    return found


def selected(network: bytes, machine: Machine) -> Selection | None:
    """A network with the instructions of a machine; None if there is a node for which it has none."""
    options, source = Options(effort=0, cuts_chains=False, joins_columns=False), read_source(network)
    made = Programs(source, machine, options, Session(), keeps_results=False).cover(whole_network(source)).made
    return made.value if made is not None and isinstance(made.value, Selection) else None


def nodes_on_host(name: str, isa: str, kib: int) -> int:
    """How many nodes are on the host with so much memory; 1 for any number if the machine can compute all of them."""
    selection = selected(model(name).SerializeToString(), machine_with(isa, kib))
    if selection is None:
        return taken(name, isa, kib, Options(effort=0, cuts_chains=False)).on_host
    return bool(nests_without_program(selection))


def least_row(name: str, isa: str, effort: int) -> str:
    """The row of a network in the table with the least memory of each; `effort` is that of the cycles."""
    memory = load_machine(isa).memories["act"]

    least = least_kib(partial(nodes_on_host, name, isa), memory.depth * memory.word_bytes // KIB_BYTES)
    cut = {kib: taken(name, isa, kib, Options(effort=effort)) for kib in BESIDE_THE_LEAST}
    whole = taken(name, isa, ON_HOST_AT, Options(effort=effort, cuts_chains=False))
    cells = [f"{least} KiB", whole.on_host, cut[ON_HOST_AT].on_host, *(f"{cut[kib].cycles:,}" for kib in cut)]
    return f"| {name} | `{isa}` | {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print two rows for each network and machine, or the table with the least memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.memories", description="With less memory.")
    parser.add_argument(
        "entry", nargs="*", metavar="NETWORK MACHINE [KIB…]", help="default: those of docs/schedules.md"
    )
    parser.add_argument("--least", action="store_true", help="the least memory of each network of the table of cycles")
    parser.add_argument("--long", action="store_true", help="with --least: networks that take minutes each, too")
    parser.add_argument("--effort", type=int, default=1, choices=(0, 1), help="of the cycles beside the least memory")
    arguments = parser.parse_args()
    wanted = arguments.entry
    if len(wanted) == 1:
        parser.error("expected a network and a machine")
    if arguments.least:
        entries = [(wanted[0], wanted[1])] if wanted else least_entries(arguments.long)
        _print_least(entries, arguments.effort)
        return
    sizes = [int(kib) for kib in wanted[2:]] or KIB
    print(f"| network | machine | layers | {' | '.join(f'{kib} KiB' for kib in sizes)} |")
    print(f"| --- | --- | --- |{' ---: |' * len(sizes)}", flush=True)
    for name, isa in [(wanted[0], wanted[1])] if wanted else ENTRIES:
        for row in rows(name, isa, sizes):
            print(row, flush=True)


def least_entries(with_long: bool) -> list[tuple[str, str]]:
    """The entries of the table of cycles, those that take long only if wanted."""
    return [(name, isa) for name, isa in OF_CYCLES if with_long or name not in LONG]


def _print_least(entries: Sequence[tuple[str, str]], effort: int) -> None:
    sizes = " | ".join(f"{kib} KiB" for kib in BESIDE_THE_LEAST)
    print(f"| network | machine | least | on the host at {ON_HOST_AT} KiB, whole | in stripes | {sizes} |")
    print(f"| --- | --- |{' ---: |' * (3 + len(BESIDE_THE_LEAST))}", flush=True)
    for name, isa in entries:
        print(least_row(name, isa, effort), flush=True)


if __name__ == "__main__":
    main()
