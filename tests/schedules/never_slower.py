"""Whether more of anything ever makes a network slower: cycles of machines that differ in one key.

python -m tests.schedules.never_slower                        # small networks, every key
python -m tests.schedules.never_slower resnet8 --key memories.wgt.kib --isa base16

A line is a network, a machine and a key, with the cycles for each value. What a larger value adds to the cycles of any
smaller one is the last column.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import onnx

from tests.digits import MODEL
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import NpuSegment
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

ALLOWED = 1.005
"""Cycles with more of something, by those with less: at the most."""

LADDERS: dict[str, tuple[int, ...]] = {
    "memories.act.kib": (16, 24, 32, 48, 64, 96, 128, 256, 512, 1024),
    "memories.wgt.kib": (2, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256),
    "memories.acc.kib": (8, 12, 16, 24, 32, 64, 128, 256),
    "memories.par.kib": (2, 3, 4, 8, 16, 32),
    "memories.act.banks": (1, 2, 4, 8),
    "memories.wgt.banks": (1, 2, 4),
    "memories.acc.banks": (1, 2, 4),
    "engines.load.queue": (2, 3, 4, 6, 8, 12, 16),
    "engines.mma.queue": (2, 4, 8, 16),
    "engines.vec.queue": (2, 4, 8, 16),
    "engines.store.queue": (2, 4, 8, 16),
    "dram.bus_bytes": (8, 16, 32),
    "dram.outstanding_beats": (32, 48, 64, 128, 256),
    "array.rows": (16, 32, 48),
    "array.cols": (16, 32, 48),
}
"""By key, values to compare, each more than the one before."""

PADDED = ("array.rows", "array.cols")
"""Keys for which more may be slower, by what more bytes take: tiles of a larger array are filled up with zeros."""

SHIPPED = ("base16", "dw16", "rect", "sequence16", "tensil16", "tensil32", "tiny8", "vector16", "vta16", "wide32")
"""Machines of which a key is changed."""

SMALL = ("digits", "resnet8", "ds-cnn", "autoencoder", "mobilenetv1-0.25", "resnet20v2")
"""Networks that compile in a second or so."""

LARGER = ("gru-keywords", "bert-tiny", "squeezenet1.1", "unet", "shufflenetv2", "mobilenetv2")
"""Networks that compile in two to five seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One key of a machine at one value, and what a network takes there; None where it does not compile."""

    value: int
    cycles: int | None


def main() -> None:
    """Print the ladders of the networks and keys named."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.never_slower", description="Cycles by key.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; default: the small ones")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--key", action="append", choices=LADDERS, help="keys; default: all")
    parser.add_argument("--effort", type=int, default=1, help="how hard the compiler searches; default: 1")
    arguments = parser.parse_args()
    for name in arguments.names or SMALL:
        for key in arguments.key or LADDERS:
            steps = list(ladder(name, arguments.isa, key, LADDERS[key], arguments.effort))
            shown = "  ".join(f"{step.value}: {step.cycles or '-'}" for step in steps)
            print(f"{name:18} {arguments.isa:8} {key:24} {shown}  {100 * (growth(steps) - 1):+.2f} %", flush=True)


def ladder(name: str, isa: str, key: str, values: Sequence[int], effort: int = 1) -> Iterator[Step]:
    """The cycles of a network on a machine with each value of a key."""
    for value in values:
        yield Step(value, network_cycles(name, isa, (f"{key}={value}",), effort))


def growth(steps: Sequence[Step]) -> float:
    """The most that a value adds to the cycles of a smaller one, as a factor; 0 if no two can be compared."""
    found = [step.cycles for step in steps if step.cycles is not None]
    return max((more / less for less, more in combinations(found, 2)), default=0.0)


def network_cycles(name: str, isa: str, overrides: tuple[str, ...], effort: int) -> int | None:
    """The cycles of all programs of a network; None if it does not fit, or the machine cannot be."""
    taken = network_taken(name, isa, overrides, effort)
    return None if taken is None else taken.cycles


@dataclass(frozen=True, slots=True)
class Taken:
    """What all programs of a network take, and how many bytes pass between the machine and DRAM."""

    cycles: int
    dram_bytes: int


@cache
def network_taken(name: str, isa: str, overrides: tuple[str, ...], effort: int) -> Taken | None:
    """None if the network does not fit, or the machine cannot be."""
    try:
        compiled = compile_partitioned(model(name), load_machine(isa, overrides), Options(effort=effort))
    except (CompileError, IsaError):
        return None
    parts = (
        [compiled]
        if isinstance(compiled, Program)
        else [segment.program for segment in compiled.segments if isinstance(segment, NpuSegment)]
    )
    runs = [simulate_cycles(part, place_regions(part.limits)) for part in parts]
    return Taken(sum(run.cycles for run in runs), sum(run.dram_bytes_read + run.dram_bytes_written for run in runs))


@cache
def model(name: str) -> onnx.ModelProto:
    """A network of programs/, as int8."""
    if name == "digits":
        return onnx.load(MODEL)
    from programs.networks.registry import int8_network

    return int8_network(name)


if __name__ == "__main__":
    main()
