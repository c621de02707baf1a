"""What second engines and ports are worth: networks on machines, shipped or shown in docs/engines.md, and their bases.

python -m tests.schedules.engines                          # all tables, by their names
python -m tests.schedules.engines base16-2dma              # one of them
python -m tests.schedules.engines sequence16-2vec kwt-1    # a row
python -m tests.schedules.engines shipped --area           # with their areas: minutes each, the first time
python -m tests.schedules.engines equal-area --macros      # with what their memories take: seconds
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/engines.md"


@dataclass(frozen=True, slots=True)
class Column:
    """A machine, shipped or shown on the page, with overrides; `is_told`: with how many times fewer cycles."""

    machine: str
    overrides: tuple[str, ...] = ()
    is_told: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table: its networks, and the machines of its columns, of which the first is the base."""

    networks: tuple[str, ...]
    columns: tuple[Column, ...]


SHIPPED = ("resnet8", "resnet18", "mobilenetv2", "ds-cnn", "autoencoder", "vit-tiny")
"""The networks on which all shipped machines are compared."""

COMPARISONS: Mapping[str, Comparison] = {
    "sequence16-2vec": Comparison(
        ("bert-tiny", "stories260k", "kwt-1"), (Column("sequence16", is_told=False), Column("sequence16-2vec"))
    ),
    "wide-narrow": Comparison(
        ("bert-tiny", "stories260k", *SHIPPED),
        (Column("sequence16", is_told=False), Column("wide-narrow"), Column("sequence16-8")),
    ),
    "base16-2dma": Comparison(
        ("autoencoder", "resnet8", "ds-cnn", "mobilenetv2", "resnet18"),
        (
            Column("base16", is_told=False),
            Column("base16-2dma"),
            Column("base16", ("array.cols=32",)),
            Column("base16-2dma-32"),
        ),
    ),
    "shipped": Comparison(
        SHIPPED,
        (
            Column("base16", is_told=False),
            *(Column(name) for name in ("base16-2dma", "base16-2vec", "dual16", "two16", "quad8")),
            Column("base16", ("memories.act.kib=320",)),  # the step of its macros in which the area of these lies
        ),
    ),
    "vector-only": Comparison(
        SHIPPED,
        (Column("tiny8", is_told=False), Column("vector-only"), Column("tiny8", ("memories.act.kib=48",))),
    ),
    "equal-area": Comparison(
        ("ds-cnn", "mobilenetv1-0.25", "resnet8", "resnet18", "autoencoder"),
        (
            Column("base16", is_told=False),
            Column("two16"),
            Column("dual16", ("memories.act.kib=384",)),  # about the area of two16
            Column("quad8"),
            Column("base16", ("memories.act.kib=160",)),  # about the area of quad8
        ),
    ),
    "two16": Comparison(
        ("ds-cnn", "mobilenetv1-0.25", "resnet8", "resnet18", "autoencoder"),
        (Column("base16", is_told=False), Column("dual16"), Column("two16"), Column("quad8")),
    ),
}
"""By the name of the table: of the machine that it is about, `shipped` for all that have base16 for a base, or
`equal-area` for machines with arrays of their own and others of as much area."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.engines", description=__doc__)
    parser.add_argument("table", nargs="?", choices=COMPARISONS, help="default: all")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="rows; default: all")
    parser.add_argument("--area", action="store_true", help="a row with the area of the machines, too")
    parser.add_argument("--macros", action="store_true", help="a row with the area of their memories, too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shown = {name: str(path) for name, path in machines(Path(folder)).items()}
        for name in [arguments.table] if arguments.table else COMPARISONS:
            print(name)
            if arguments.area:
                print(area_row(COMPARISONS[name].columns, shown), flush=True)
            if arguments.macros:
                print(macros_row(COMPARISONS[name].columns, shown), flush=True)
            for network in arguments.networks or COMPARISONS[name].networks:
                print(row(network, COMPARISONS[name].columns, shown), flush=True)


def row(network: str, columns: tuple[Column, ...], shown: Mapping[str, str]) -> str:
    """`| autoencoder | 18,648 | 17,530 (1.06) |`"""
    found = [cycles(network, shown.get(each.machine, each.machine), each.overrides) for each in columns]
    cells = [
        f"{count:,} ({found[0] / count:.2f})" if each.is_told else f"{count:,}"
        for each, count in zip(columns, found, strict=True)
    ]
    return f"| {network} | {' | '.join(cells)} |"


def area_row(columns: tuple[Column, ...], shown: Mapping[str, str]) -> str:
    """`| mm² | 43.3 | 44.2 |`: logic and macros, as `tilewright price` estimates them."""
    import tilewright

    prices = [tilewright.price(shown.get(each.machine, each.machine), each.overrides) for each in columns]
    cells = [f"{(price.logic_um2 + price.memories_um2) / 1e6:.1f}" for price in prices]
    return f"| mm² | {' | '.join(cells)} |"


def macros_row(columns: tuple[Column, ...], shown: Mapping[str, str]) -> str:
    """`| mm² of memories | 38.7 | 47.7 |`: on-chip memories as macros, without queues."""
    from tilewright.codesign.price.macros import memory_price
    from tilewright.codesign.price.process import load_process
    from tilewright.isa.files.loader import load_machine

    process, cells = load_process(None), []
    for each in columns:
        machine = load_machine(shown.get(each.machine, each.machine), each.overrides)
        areas = (memory_price(machine, memory, process).area_um2 for memory in machine.memories.values())
        cells.append(f"{sum(areas) / 1e6:.1f}")
    return f"| mm² of memories | {' | '.join(cells)} |"


def machines(folder: Path) -> dict[str, Path]:
    """The machine files that the page shows, written into a folder, by name."""
    files = {}
    for text, name in re.findall(r"```yaml\n(# (\S+)\.yaml\n.*?)```", PAGE.read_text(), re.DOTALL):
        files[name] = folder / f"{name}.yaml"
        files[name].write_text(text)
    return files


def cycles(network: str, machine: str, overrides: tuple[str, ...] = ()) -> int:
    import tilewright
    from tests.schedules.never_slower import model
    from tilewright.isa.files.loader import load_machine

    return int(tilewright.compile(model(network), load_machine(machine, overrides)).profile()["cycles"])


if __name__ == "__main__":
    main()
