"""Whether an engine more ever makes a network slower: cycles of shipped machines beside themselves without one engine.

python -m tests.schedules.one_fewer                           # all machines and networks: half an hour
python -m tests.schedules.one_fewer resnet18 --isa two16      # a row

`dual16` has one array that is wider, and stands beside base16. All others lose the last engine that does what another
one does. At most 0.5 % more cycles with the engine than without it are wanted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.schedules.engines import cycles

MACHINES = {
    "base16-2dma": ("engines.load2=null", "dram.ports=1"),
    "base16-2vec": ("engines.vec2=null",),
    "dual16": ("array.cols=16",),
    "two16": ("copies.mma2=null",),
    "quad8": ("copies.mma4=null",),
}
"""By machine, what takes one engine away."""

NETWORKS = ("resnet8", "ds-cnn", "autoencoder", "mobilenetv1-0.25", "mobilenetv2", "resnet18")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.schedules.one_fewer", description="Cycles without an engine."
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="rows; default: six of them")
    parser.add_argument("--isa", action="append", choices=MACHINES, help="columns; default: all")
    arguments = parser.parse_args()
    machines = arguments.isa or [*MACHINES]
    print(f"| network | {' | '.join(f'`{name}`' for name in machines)} |")
    print(f"| --- |{' ---: |' * len(machines)}")
    for network in arguments.networks or NETWORKS:
        print(row(network, machines), flush=True)


def row(network: str, machines: Sequence[str]) -> str:
    """`| ds-cnn | 28,359 → 15,293 (−46.1 %) |`: without the engine, with it, and the difference."""
    cells = []
    for name in machines:
        without, whole = cycles(network, name, MACHINES[name]), cycles(network, name)
        share = f"{100 * (whole / without - 1):+.1f} %".replace("-", "−")
        cells.append(f"{without:,} → {whole:,} ({share})")
    return f"| {network} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
