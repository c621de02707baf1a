"""What the networks of programs/ take on shipped machines, beside their bounds and what others publish.

python -m tests.schedules.cycles                              # the table, as committed in cycles.json
python -m tests.schedules.cycles --measure resnet8            # compile and simulate, and compare with the table
python -m tests.schedules.cycles --measure --update           # all of it, two minutes, and rewrite cycles.json
python -m tests.schedules.cycles --measure --update --effort 2   # the same for the entries that need it, some minutes
python -m tests.schedules.cycles --layers resnet8 base16      # what bounds each layer
python -m tests.schedules.cycles --layers mobilenetv3-large dw16 --parts 1   # each block: layers that begin alike
python -m tests.schedules.cycles --layers mobilenetv2 dw16 --set memories.act.kib=32 --parts 1

`array` is the bound of the array: MACs / (rows · cols). `machine` is what the instructions of the program take of its
busiest resource, an engine or the bus: however they overlap, they take no fewer cycles. Other tiles may take fewer.
`wanted` is what schedules are meant to reach. `python -m tests.schedules.bounds` has bounds that hold for any schedule.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

TABLE = Path(__file__).with_name("cycles.json")

ALLOWED = 1.005
"""Cycles by those of the table: at the most."""

ENTRIES = (
    ("digits", "tiny8"),
    ("digits", "base16"),
    ("resnet8", "base16"),
    ("autoencoder", "base16"),
    ("ds-cnn", "base16"),
    ("mobilenetv1-0.25", "base16"),
    ("resnet20v2", "tensil8"),
    ("resnet20v2", "tensil16"),
    ("resnet20v2", "tensil32"),
    ("ds-cnn", "dw16"),
    ("mobilenetv1-0.25", "dw16"),
    ("bert-tiny", "sequence16"),
    ("stories260k", "sequence16"),
    ("kwt-1", "sequence16"),
    ("resnet18", "base16"),
    ("resnet18", "vta16"),
    ("mobilenetv2", "base16"),
    ("mobilenetv3-large", "base16"),
    ("efficientnet-lite0", "base16"),
    ("mobilenetv2", "dw16"),
    ("mobilenetv3-large", "dw16"),
    ("efficientnet-lite0", "dw16"),
    ("resnet50", "base16"),
    ("resnet50", "rect"),
    ("botnet50", "vector16"),
)
"""Networks and machines of the table, those that take longest last."""

WITH_EFFORT = (
    ("resnet20v2", "tensil8"),
    ("resnet20v2", "tensil16"),
    ("ds-cnn", "dw16"),
    ("mobilenetv1-0.25", "dw16"),
)
"""Entries that are measured at effort 2 as well: it takes up to some minutes for each, for the last percents."""

WANTED: Mapping[tuple[str, str], int] = {
    ("resnet8", "base16"): 51_500,
    ("autoencoder", "base16"): 17_400,
    ("ds-cnn", "base16"): 22_000,
    ("mobilenetv1-0.25", "base16"): 85_000,
    ("resnet20v2", "tensil8"): 1_057_000,
    ("resnet20v2", "tensil16"): 272_000,
    ("resnet20v2", "tensil32"): 82_000,
    ("ds-cnn", "dw16"): 11_200,
    ("mobilenetv1-0.25", "dw16"): 39_000,
    ("bert-tiny", "sequence16"): 258_000,
    ("stories260k", "sequence16"): 260_000,
    ("kwt-1", "sequence16"): 350_000,
    ("resnet18", "base16"): 7_250_000,
    ("resnet18", "vta16"): 7_300_000,
    ("mobilenetv2", "base16"): 2_000_000,
    ("mobilenetv2", "dw16"): 1_370_000,
    ("mobilenetv3-large", "dw16"): 1_300_000,
    ("efficientnet-lite0", "dw16"): 1_760_000,
    ("resnet50", "base16"): 15_350_000,
    ("resnet50", "rect"): 8_100_000,
    ("botnet50", "vector16"): 16_100_000,
}
"""What schedules are meant to reach. Of those that are missed, `python -m tests.schedules.bounds` has the bounds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A network on a machine: cycles, and the bounds of the array and of the busiest resource.

    `with_effort`: the cycles at effort 2, of the entries that are measured there.
    """

    cycles: int
    array: int
    machine: int
    with_effort: int | None = None

    @property
    def fewest(self) -> int:
        """The cycles at the effort that finds the faster program."""
        return min(self.cycles, self.with_effort or self.cycles)


@dataclass(frozen=True, slots=True)
class Peer:
    """What somebody else publishes or measures for the same work on a machine of about this size."""

    cycles: int
    who: str


PEERS: Mapping[tuple[str, str], Peer] = {
    ("resnet8", "base16"): Peer(107_000, "Vela's estimate for Ethos-U55-256, NPU alone"),
    ("autoencoder", "base16"): Peer(41_000, "Vela's estimate for Ethos-U55-256, NPU alone"),
    ("ds-cnn", "base16"): Peer(57_000, "Vela's estimate for Ethos-U55-256, NPU alone"),
    ("mobilenetv1-0.25", "base16"): Peer(129_000, "Vela's estimate for Ethos-U55-256, NPU alone"),
    ("mobilenetv2", "base16"): Peer(3_300_000, "Vela's estimate for Ethos-U55-256, NPU alone"),
    ("resnet20v2", "tensil8"): Peer(1_916_000, "Tensil, 8x8, 16 bits, published"),
    ("resnet20v2", "tensil16"): Peer(647_000, "Tensil, 16x16, 16 bits, published"),
    ("resnet20v2", "tensil32"): Peer(292_000, "Tensil, 32x32, 16 bits, published"),
    ("resnet18", "base16"): Peer(9_204_502, "ONNXim, 16x16 int8, 16 bytes a cycle, measured"),
    ("resnet18", "vta16"): Peer(7_729_601, "VTA's RTL simulation, convolutions alone, published"),
    ("resnet50", "base16"): Peer(30_000_000, "Gemmini, 16x16 int8, published"),
}
"""By network and machine. Each counts its own layers and multiplications: read its source before you compare."""


def main() -> None:
    """Print the table, measure entries, or print the layers of one."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.cycles", description="Cycles of networks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; default: all")
    parser.add_argument("--measure", action="store_true", help="compile and simulate")
    parser.add_argument("--update", action="store_true", help="write what is measured to cycles.json")
    parser.add_argument("--layers", nargs=2, metavar=("NAME", "MACHINE"), help="what bounds each layer of a network")
    parser.add_argument("--parts", type=int, help="with --layers: sums of those with so many first parts of the name")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with --layers: a machine's key"
    )
    parser.add_argument("--effort", type=int, default=1, choices=(0, 1, 2), help="how hard the compiler searches")
    arguments = parser.parse_args()
    if arguments.layers:
        _print_layers(*arguments.layers, arguments.set, arguments.effort, arguments.parts)
        return
    if arguments.parts or arguments.set:
        parser.error("--parts and --set go with --layers")
    every = WITH_EFFORT if arguments.effort == 2 else ENTRIES
    entries = [entry for entry in every if not arguments.names or entry[0] in arguments.names]
    committed, measured = read_table(), {}
    for name, isa in entries if arguments.measure else ():
        measured[name, isa] = measure(name, isa, arguments.effort)
        print(f"{name} on {isa}: {measured[name, isa].cycles:,} cycles", flush=True)
        if arguments.update:
            write_table({**committed, **_as_entries(measured, committed, arguments.effort)})
    _print_table(entries, committed, measured, arguments.effort)


def _as_entries(
    measured: Mapping[tuple[str, str], Entry], committed: Mapping[tuple[str, str], Entry], effort: int
) -> dict[tuple[str, str], Entry]:
    """What is to be committed of entries that were measured at an effort; the rest stays as it is."""
    if effort == 2:
        return {key: replace(committed[key], with_effort=entry.cycles) for key, entry in measured.items()}
    known = {key: entry.with_effort for key, entry in committed.items()}
    return {key: replace(entry, with_effort=known.get(key)) for key, entry in measured.items()}


def read_table() -> dict[tuple[str, str], Entry]:
    """The committed entries, by network and machine."""
    if not TABLE.exists():
        return {}
    rows = json.loads(TABLE.read_text())
    return {(row.pop("network"), row.pop("isa")): Entry(**row) for row in rows}


def write_table(entries: Mapping[tuple[str, str], Entry]) -> None:
    rows = [{"network": n, "isa": i, **asdict(entries[n, i])} for n, i in ENTRIES if (n, i) in entries]
    shown = [{name: value for name, value in row.items() if value is not None} for row in rows]
    TABLE.write_text("[\n" + ",\n".join(json.dumps(row) for row in shown) + "\n]\n")


def measure(name: str, isa: str, effort: int = 1) -> Entry:
    """Compile and simulate a network; parts on the host take no cycles."""
    profile = _profile(name, isa, [], effort)
    from tilewright.isa.files.loader import load_machine

    machine = load_machine(isa)
    array = profile["macs"] // (machine.array.rows * machine.array.cols)
    return Entry(profile["cycles"], array, max(profile["bound_cycles"].values()))


def _profile(name: str, isa: str, settings: Sequence[str], effort: int) -> Mapping[str, Any]:
    import tilewright
    from tests.schedules.never_slower import model

    return tilewright.compile(model(name), isa, settings, effort=effort).profile()


def _print_table(
    wanted: Sequence[tuple[str, str]],
    committed: Mapping[tuple[str, str], Entry],
    measured: Mapping[tuple[str, str], Entry],
    effort: int,
) -> None:
    title = "cycles at the default effort" if effort == 1 else f"cycles at effort {effort}"
    table = Table("network", "machine", title=title, caption="used: array bound / cycles")
    for column in ("wanted", "cycles", "used", "array", "machine", "now", "change", "others"):
        table.add_column(column, justify="right")
    table.add_column("who")
    for key in wanted:
        entry, now, peer = committed.get(key), measured.get(key), PEERS.get(key)
        shown = entry or now
        if shown is None:
            continue
        cycles = (shown.with_effort or shown.cycles) if effort == 2 else shown.cycles
        change = "" if entry is None or now is None else f"{100 * (now.cycles / cycles - 1):+.2f} %"
        wanted_cycles = f"{WANTED[key]:,}" if key in WANTED else ""
        table.add_row(
            *key, wanted_cycles, f"{cycles:,}", f"{100 * shown.array / cycles:.1f} %",
            f"{shown.array:,}",
            f"{shown.machine:,}", "" if now is None else f"{now.cycles:,}", change,
            "" if peer is None else f"{peer.cycles:,}", "" if peer is None else peer.who,
        )  # fmt: skip
    Console(width=170).print(table)


def _print_layers(name: str, isa: str, settings: Sequence[str], effort: int, parts: int | None) -> None:
    """Each layer's cycles, or those of each block, beside the least that its own instructions take of each resource."""
    profile = _profile(name, isa, settings, effort)
    blocks = blocks_of(profile["layers"], parts)
    bounds = list(blocks[0].least)
    machine = isa + "".join(f"[{setting}]" for setting in settings)
    table = Table("layer" if parts is None else "block", title=f"{name} on {machine}: {profile['cycles']:,} cycles")
    for column in ("cycles", *bounds, "bound by", "above"):
        table.add_column(column, justify="right")
    for block in blocks:
        by = max(bounds, key=block.least.__getitem__)
        figures = [f"{block.least[bound]:,}" for bound in bounds]
        table.add_row(block.name, f"{block.cycles:,}", *figures, by, f"{block.cycles - block.least[by]:,}")
    table.add_section()
    cycles, busiest = sum(block.cycles for block in blocks), sum(max(block.least.values()) for block in blocks)
    totals = [f"{sum(block.least[bound] for block in blocks):,}" for bound in bounds]
    table.add_row("all", f"{cycles:,}", *totals, f"{busiest:,}", f"{cycles - busiest:,}")
    table.caption = "bound by, of all: the busiest resource of each row, added up"
    Console(width=150).print(table)


@dataclass(frozen=True, slots=True)
class Block:
    """Layers whose names begin alike: their cycles, and by resource the least that their instructions take of it."""

    name: str
    cycles: int
    least: Mapping[str, int]


def blocks_of(layers: Sequence[Mapping[str, Any]], parts: int | None) -> list[Block]:
    """The blocks of a profile's layers, in order; each layer is one if `parts` is None.

    Example, `parts` 2: `stage0.1.expand` and `stage0.1.project` are the block `stage0.1`.
    """
    found: dict[str, Block] = {}
    for layer in layers:
        name = ".".join(layer["name"].split(".")[:parts])
        known = found.get(name) if parts is not None else None
        key = name if parts is not None else f"{len(found)}"
        cycles, least = layer["cycles"], layer["bound_cycles"]
        if known is not None:
            cycles, least = known.cycles + cycles, {bound: known.least[bound] + least[bound] for bound in least}
        found[key] = Block(name, cycles, least)
    return list(found.values())


if __name__ == "__main__":
    main()
