"""What compiling and simulating take for each 1,000 instructions, so that networks of all sizes can be compared.

python -m tests.bench_instructions                             # a handful of networks
python -m tests.bench_instructions vit-tiny --isa sequence16
python -m tests.bench_instructions --models FOLDER             # keeps the ONNX files from run to run

Wanted are at most 0.3 s to compile 1,000 instructions, at most 15 % of it in the checker, and at most 0.05 s to
simulate their values beyond the arithmetic. Seconds are of the processor, after another network was compiled and run in
the same process. `first` is with an empty cache, so that a plan is searched for; `again` recalls what was found, and
the share of the checker is of this. `prepare` is what a program's first run takes in addition, `run` every run, its
arithmetic included.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from tilewright.api import compile  # noqa: A004
from tilewright.isa.check.checker import require_valid
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, dram_bytes, place_regions
from tilewright.isa.rare_collection import rare_collection
from tilewright.simulator.values import PreparedProgram

NETWORKS = ("mobilenetv2", "shufflenetv2", "deeplabv3-mobilenetv2", "lstm-tagger", "kwt-1")
"""Classifiers with and without moves of channels, a long program, one of many small operators, one in many parts."""

WARMED_BY = "resnet8"

COLUMNS = ("network", "programs", "instructions", "first", "again", "checker", "prepare", "run")
UNITS = ("", "", "", "s / 1,000", "s / 1,000", "% of it", "s / 1,000", "s / 1,000")


@dataclass(frozen=True, slots=True)
class Times:
    """Processor seconds of one network: all of its programs together."""

    programs: int
    instructions: int
    first: float
    again: float
    check: float
    prepare: float
    run: float

    def columns(self) -> tuple[str, ...]:
        thousands = self.instructions / 1000
        times = (f"{seconds / thousands:.3f}" for seconds in (self.first, self.again, self.prepare, self.run))
        first, again, prepared, ran = times
        share = f"{100 * self.check / self.again:.1f}"
        return f"{self.programs}", f"{self.instructions:,}", first, again, share, prepared, ran


def main() -> None:
    """Measure the networks named, or the handful, each printed when it is known."""
    from programs.networks.registry import NETWORKS as KNOWN

    parser = argparse.ArgumentParser(prog="python -m tests.bench_instructions", description="For 1,000 instructions.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"networks; default: {', '.join(NETWORKS)}")
    parser.add_argument("--isa", default="base16", help="the machine; default: base16")
    parser.add_argument("--models", type=Path, help="a folder that keeps the ONNX files from run to run")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(KNOWN):
        sys.exit(f"no network {min(unknown)!r}; there are: {', '.join(KNOWN)}")
    machine = load_machine(arguments.isa)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.models or Path(temporary)
        folder.mkdir(exist_ok=True)
        os.environ["TILEWRIGHT_CACHE"] = f"{temporary}/cache"
        _times(_model(folder, WARMED_BY), machine)
        _print(COLUMNS)
        _print(UNITS)
        for name in arguments.names or NETWORKS:
            _print((name, *_times(_model(folder, name), machine).columns()))


def _model(folder: Path, name: str) -> Path:
    from programs.networks.registry import int8_network

    path = folder / f"{name}.onnx"
    if not path.exists():
        path.write_bytes(int8_network(name).SerializeToString(deterministic=True))
    return path


def _times(model: Path, machine: Machine) -> Times:
    start = process_time()
    compile(model, machine)
    first = process_time() - start
    start = process_time()
    programs = compile(model, machine).programs
    again = process_time() - start
    start = process_time()
    with rare_collection():  # as in the compilation
        for program in programs:
            require_valid(program)
    checked = process_time() - start
    values = [_values(program) for program in programs]
    instructions = sum(len(program.instructions) for program in programs)
    prepare, run = (sum(each) for each in zip(*values, strict=True))
    return Times(len(programs), instructions, first, again, checked, prepare, run)


def _values(program: Program) -> tuple[float, float]:
    """The seconds in which a program is prepared, and run on a DRAM of zeros."""
    bases = place_regions(program.limits)
    image = np.zeros(dram_bytes(program.limits), np.uint8)
    start = process_time()
    prepared = PreparedProgram(program, bases)
    middle = process_time()
    prepared.run(image)
    return middle - start, process_time() - middle


def _print(columns: tuple[str, ...]) -> None:
    name, *others = columns
    print(f"{name:24}" + "".join(f"{column:>13}" for column in others), flush=True)


if __name__ == "__main__":
    main()
