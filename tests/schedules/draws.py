"""Single layers: what `--effort` finds beside the best of many random tilings, and beside a bound.

python -m tests.schedules.draws                                  # all layers on all machines, an hour
python -m tests.schedules.draws "1x1" --isa base16 --draws 100   # layers of which the name has this in it

Each layer is a network of its own. `draws`: the fewest exact cycles of so many tilings, each drawn from all that the
compiler considers, with the input on chip or not; of fewer where there are no more. `bound`: the least that any of
these takes by `compiler/tiling/least.py`. `by`: how many fewer cycles `--effort 2` takes than the best draw.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator, default_rng
from rich.console import Console
from rich.table import Table

from tests.compiler.models import conv_model, gemm_model
from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, NOTHING_AHEAD
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import finished
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tiling.choice import MOST_TILES
from tilewright.compiler.tiling.cost_terms import ALONE
from tilewright.compiler.tiling.least import least_cycles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile_part
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

MACHINES = ("base16", "dw16", "tiny8")

RESIDENCIES = ("auto", "none")
"""The input on chip, or brought tile by tile."""


def _conv(channels_in: int, channels_out: int, size: int, kernel: int, stride: int = 1, group: int = 1) -> Layer:
    return partial(
        conv_model, channels_in=channels_in, channels_out=channels_out, size=size, kernel=kernel, stride=stride,
        pads=[kernel // 2] * 4, group=group, relu=True,
    )  # fmt: skip


Layer = Callable[[Generator], onnx.ModelProto]

LAYERS: dict[str, Layer] = {
    "resnet8 3x3, 16 to 16, 32 pixels": _conv(16, 16, 32, 3),
    "resnet8 3x3, 32 to 64, 16 pixels, stride 2": _conv(32, 64, 16, 3, 2),
    "resnet8 1x1, 16 to 32, 32 pixels, stride 2": _conv(16, 32, 32, 1, 2),
    "resnet18 3x3, 128 to 128, 28 pixels": _conv(128, 128, 28, 3),
    "resnet18 1x1, 64 to 128, 56 pixels, stride 2": _conv(64, 128, 56, 1, 2),
    "mobilenetv2 first, 3 to 32, 224 pixels, stride 2": _conv(3, 32, 224, 3, 2),
    "mobilenetv2 1x1, 24 to 144, 56 pixels": _conv(24, 144, 56, 1),
    "mobilenetv2 1x1, 384 to 64, 14 pixels": _conv(384, 64, 14, 1),
    "mobilenetv2 depthwise 3x3, 144, 56 pixels": _conv(144, 144, 56, 3, group=144),
    "dense 512 to 1000": partial(gemm_model, inputs=512, outputs=1000),
}
"""By name, each as the model of one layer."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Exact cycles of a layer; `seconds` of the processor that effort 2 took; so many `draws` of so many `tilings`."""

    less: int
    more: int
    seconds: float
    drawn: int
    draws: int
    tilings: int
    bound: int


def main() -> None:
    """Print a line for each layer and machine; exit with 1 where a draw is better than effort 2."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.draws", description="Effort against chance.")
    parser.add_argument("layers", nargs="*", metavar="NAME", help="layers with one of these in their names")
    parser.add_argument("--isa", action="append", help=f"machines; default: {', '.join(MACHINES)}")
    parser.add_argument("--draws", type=int, default=1000, help="random tilings of each layer; default: 1000")
    parser.add_argument("--seed", type=int, default=0, help="of the draws; default: 0")
    arguments = parser.parse_args()
    names = [name for name in LAYERS if any(part in name for part in arguments.layers or [""])]
    table = Table("layer", "machine", title="exact cycles of single layers")
    for column in ("effort 1", "effort 2", "seconds", "best draw", "of", "by", "bound"):
        table.add_column(column, justify="right")
    lost = 0
    for isa in arguments.isa or MACHINES:
        for name in names:
            found = compared(LAYERS[name](default_rng(0)), load_machine(isa), arguments.draws, arguments.seed)
            table.add_row(name, isa, *_figures(found))
            print(name, isa, *_figures(found), sep=" | ", flush=True)
            lost += found.more > found.drawn
    Console(width=150).print(table)
    raise SystemExit(lost > 0)


def _figures(found: Compared) -> Sequence[str]:
    by = f"{100 * (1 - found.more / found.drawn):+.2f} %"
    of = f"{found.draws:,} of {found.tilings:,}"
    return (
        f"{found.less:,}", f"{found.more:,}", f"{found.seconds:.1f}", f"{found.drawn:,}", of, by, f"{found.bound:,}",
    )  # fmt: skip


def compared(model: onnx.ModelProto, machine: Machine, draws: int, seed: int = 0) -> Compared:
    """What both efforts find for the model of a layer, and the best of random tilings."""
    (less, _), (more, seconds) = (_searched(model, machine, effort) for effort in (1, 2))
    selection = _selection(model, machine)
    found = [_Drawn(selection, residency) for residency in RESIDENCIES]
    rng, drawn = default_rng(seed), [each for each in found if each.tilings]
    everything = [(each, number) for each in drawn for number in range(each.tilings)]
    picked = rng.permutation(len(everything))[:draws]
    cycles = [everything[at][0].cycles(everything[at][1], rng) for at in picked]
    best = min(each for each in cycles if each is not None)
    bound = min(each.bound for each in found)
    return Compared(less, more, seconds, best, len(picked), len(everything), bound)


def _searched(model: onnx.ModelProto, machine: Machine, effort: int) -> tuple[int, float]:
    """The exact cycles of what an effort finds, and the processor's seconds for it; nothing is recalled."""
    with TemporaryDirectory() as folder:
        start = process_time()
        program = compile_partitioned(model, machine, Options(effort=effort, tuning=Path(folder) / "tuning.json"))
        seconds = process_time() - start
    assert isinstance(program, Program)
    return exact_cycles(program), seconds


def _selection(model: onnx.ModelProto, machine: Machine) -> Selection:
    kept: dict[str, Any] = {}
    compile_partitioned(model, machine, Options(effort=0), keep=kept.__setitem__)
    selection = kept["select"]
    assert isinstance(selection, Selection)
    return selection


class _Drawn:
    """The tilings of a layer's nests with its tensors on chip, where they fit, or not."""

    def __init__(self, selection: Selection, residency: str) -> None:
        self._selection = selection
        options = TilingOptions(residency=residency)
        self._plan = Planner(selection, options).plan()
        positions = range(len(self._plan.choices))
        alone = Planner(selection, options, ALONE)
        self._candidates = [alone.candidates(position, self._plan.residency) for position in positions]
        self._possible = [np.flatnonzero(c.is_possible & (c.tiles <= MOST_TILES)) for c in self._candidates]
        self.tilings = max(map(len, self._possible))
        self.bound = max(
            int(least_cycles(shape, selection.machine, c.cuts.sizes, c.cuts.points_outer)[possible].min())
            for shape, c, possible in zip(self._plan.shapes, self._candidates, self._possible, strict=True)
        )

    def cycles(self, number: int, rng: Generator) -> int | None:
        """The exact cycles with a tiling of the nest that has most, others as chance says; None if it does not fit."""
        indices = [own[number] if len(own) == self.tilings else rng.choice(own) for own in self._possible]
        choices = tuple([c.choice(int(index)) for c, index in zip(self._candidates, indices, strict=True)])
        return _cycles_of(self._selection, replace(self._plan, choices=choices))


def _cycles_of(selection: Selection, plan: Plan) -> int | None:
    tiles = tile_part(selection, plan, range(len(plan.choices)))
    for ahead in (EVERYTHING_AHEAD, NOTHING_AHEAD):
        try:
            return exact_cycles(finished(tiles, Options(ahead=ahead), selection.machine))
        except CompileError:
            continue
    return None


if __name__ == "__main__":
    main()
