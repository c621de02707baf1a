"""How well the analytic model ranks tilings: Spearman's correlation with the exact cycles, over random ones.

python -m tests.schedules.agreement
python -m tests.schedules.agreement "convolution 3x3" --isa tiny8 --tilings 50

Each kind of layer stands alone in a program, with its tensors in DRAM, and the model is told so. In a network, it
also counts what the layers around cost and hide; `in a network` is the correlation of what it expects then, still with
the exact cycles of the layer alone. `chosen` is what its choice for a network takes, by the best of the tilings tried.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import default_rng
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from tests.compiler.nests import NetworkByHand, network_for
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import finished
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.select.select import select
from tilewright.compiler.tiling.cost_terms import ALONE
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile_part
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

MOST_TILES = 64
"""Tilings of more tiles are left out: they take long to emit, and nobody wants them."""

KINDS: dict[str, Callable[[NetworkByHand], str]] = {
    "convolution 3x3": lambda n: n.conv(n.input(1, 64, 28, 28), 64, (3, 3), pad=1),
    "convolution 3x3, stride 2": lambda n: n.conv(n.input(1, 64, 28, 28), 128, (3, 3), stride=2, pad=1),
    "convolution 1x1": lambda n: n.conv(n.input(1, 128, 28, 28), 128, (1, 1)),
    "convolution 1x1, many channels": lambda n: n.conv(n.input(1, 512, 7, 7), 512, (1, 1)),
    "first convolution": lambda n: n.conv(n.input(1, 3, 64, 64), 32, (3, 3), stride=2, pad=1),
    "dense": lambda n: n.conv(n.input(1, 512, 1, 1), 1000, (1, 1)),
    "sum of two tensors": lambda n: n.add(n.input(1, 64, 28, 28), n.input(1, 64, 28, 28)),
    "largest of a window": lambda n: n.max_pool(n.input(1, 64, 28, 28), 3, 2, pad=1),
    "rescale": lambda n: n.rescale(n.input(1, 128, 28, 28)),
}
"""Layers by name, each as the one nest of a network."""


def main() -> None:
    """Print a line for each kind of layer."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.agreement", description="Analytic against exact.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of: {', '.join(KINDS)}; default: all")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--tilings", type=int, default=200, help="random tilings of each kind; default: 200")
    arguments = parser.parse_args()
    table = Table("layer", title=f"analytic and exact model on {arguments.isa}")
    for column in ("tilings", "Spearman", "in a network", "best", "worst", "chosen"):
        table.add_column(column, justify="right")
    for kind in arguments.kinds or KINDS:
        expected, around, exact, chosen = measured(kind, load_machine(arguments.isa), arguments.tilings)
        best, worst = int(exact.min()), int(exact.max())
        row = (
            len(exact),
            f"{rank_correlation(expected, exact):.3f}",
            f"{rank_correlation(around, exact):.3f}",
            f"{best:,}",
            f"{worst:,}",
            f"{chosen / best:.3f}",
        )
        table.add_row(kind, *map(str, row))
    Console(width=120).print(table)


def rank_correlation(expected: np.ndarray, exact: np.ndarray) -> float:
    """Spearman's correlation of two series."""
    return float(spearmanr(expected, exact).statistic)


def measured(
    kind: str, machine: Machine, tilings: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """What the analytic model expects of random tilings of a layer alone, and in a network; their exact cycles alone;
    and the exact cycles of the tiling that it chooses.
    """
    network = network_for(machine, seed)
    selection = select(network.program(KINDS[kind](network)), machine)
    planner = Planner(selection, TilingOptions(residency="none"))
    plan = planner.plan()
    possible = planner.candidates(0, plan.residency)
    alone = Planner(selection, TilingOptions(residency="none"), ALONE).candidates(0, plan.residency)
    is_small = possible.tiles <= MOST_TILES
    found = np.flatnonzero(possible.is_possible & is_small)
    picked = default_rng(seed).permutation(found)[: 2 * tilings]
    expected, around, exact = [], [], []
    finish = partial(finished, machine=machine)
    for index in picked:
        choice = possible.choice(int(index))
        cycles = _cycles_of(tile_part(selection, replace(plan, choices=(choice,)), range(1)), finish)
        if cycles is not None and len(exact) < tilings:
            expected.append(alone.choice(int(index)).cycles)
            around.append(choice.cycles)
            exact.append(cycles)
    chosen = _cycles_of(tile_part(selection, plan, range(1)), finish)
    assert chosen is not None
    return np.array(expected), np.array(around), np.array(exact), chosen


def _cycles_of(tiles, finish) -> int | None:  # type: ignore[no-untyped-def]
    for loads in (None, 0):
        try:
            return exact_cycles(finish(tiles, Options(ahead=Ahead(loads))))
        except CompileError:
            continue
    return None


if __name__ == "__main__":
    main()
