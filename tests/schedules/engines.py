"""What second engines and ports are worth: networks on machines, shipped or shown in docs/engines.md, and their bases.

python -m tests.schedules.engines                          # all rows, by the name of the machine that they are about
python -m tests.schedules.engines base16-2dma              # those of one table
python -m tests.schedules.engines sequence16-2vec kwt-1    # a row
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


COMPARISONS: Mapping[str, Comparison] = {
    "sequence16-2vec": Comparison(
        ("bert-tiny", "stories260k", "kwt-1"), (Column("sequence16", is_told=False), Column("sequence16-2vec"))
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
    "two16": Comparison(
        ("ds-cnn", "mobilenetv1-0.25", "resnet8", "resnet18", "autoencoder"),
        (Column("base16", is_told=False), Column("dual16"), Column("two16"), Column("quad8")),
    ),
}
"""By the name of the machine that the table is about."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.engines", description=__doc__)
    parser.add_argument("machine", nargs="?", choices=COMPARISONS, help="whose table; default: all")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="rows; default: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shown = {name: str(path) for name, path in machines(Path(folder)).items()}
        for name in [arguments.machine] if arguments.machine else COMPARISONS:
            print(name)
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
