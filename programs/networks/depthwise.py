"""Ways to compute depthwise convolutions, compared: cycles of networks, and gates of the machine.

python -m programs.networks.depthwise                  # the table of docs/depthwise.md; some minutes of processor time
python -m programs.networks.depthwise ds-cnn           # of one network
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import tilewright
from programs.networks.registry import int8_network

NETWORKS = ("ds-cnn", "mobilenetv1-0.25", "mobilenetv2", "efficientnet-lite0", "mobilenetv3-large")

SUMS_ONLY = (
    "instructions.depthwise.from.p=null",
    "instructions.depthwise.imm=null",
    "instructions.depthwise.to.y=acc[c, y, x]",
    "instructions.depthwise.do=y = sum(words_sum(a * w))",
)
"""The changes that leave bias and scale to `requantize`."""

WAYS: Sequence[tuple[str, str, Sequence[str]]] = (
    ("on the array", "base16", ()),
    ("three taps a cycle, sums to accumulators", "dw16", SUMS_ONLY),
    ("three taps a cycle, bias and scale in the same instruction", "dw16", ()),
)
"""(what it is, machine, changes)"""


def main() -> None:
    """Print a row for each way, the first of which is what gates are compared with."""
    parser = argparse.ArgumentParser(prog="python -m programs.networks.depthwise", description="Compares ways.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"networks; default: {', '.join(NETWORKS)}")
    names = parser.parse_args().names or NETWORKS
    print(f"| way | {' | '.join(names)} | kGE | |\n| --- |{' ---: |' * (len(names) + 2)}")
    first = 0.0
    for title, isa, changes in WAYS:
        price = tilewright.price(isa, changes)
        gates = price.gates(price.logic_um2) / 1000
        first = first or gates
        more = "" if gates == first else f"{gates / first - 1:+.1%}"
        cycles = [f"{cycles_of(name, isa, changes):,}" for name in names]
        print(f"| {title} | {' | '.join(cycles)} | {gates:,.1f} | {more} |", flush=True)


def cycles_of(name: str, isa: str, changes: Sequence[str]) -> int:
    """The cycles of a network's program, without what the host computes."""
    cycles: int = tilewright.compile(int8_network(name), isa, changes).run_profile().cycles
    return cycles


if __name__ == "__main__":
    main()
