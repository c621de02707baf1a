"""What more engines of a kind take of the compiler and of the cycle model, beside a machine with one of that kind.

python -m tests.bench_engines                                        # ds-cnn: each kind, one to four engines
python -m tests.bench_engines mobilenetv1-0.25 --kind arrays --most 8

Wanted are at most 1.3 times the search with one more engine, and in the cycle model at most 1.05 times the seconds for
each 1,000 instructions with one more. Seconds are of the processor, in one process, after another network was compiled
for the same machine. `search` is a compilation that knows no tuning.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import onnx

from tests.digits import MODEL
from tests.schedules.never_slower import model as onnx_model
from tilewright.api import compile  # noqa: A004
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

RUNS = 20
"""Runs of the cycle model, of which the fastest counts."""

BASE = "extends: base16\nmemories: {act: {banks: 64}}\n"

ONE_MORE = {
    "arrays": ("copies", "  mma{n}: {{of: mma, memories: {{wgt: wgt{n}, acc: acc{n}}}}}\n", ()),
    "vectors": (
        "engines",
        "  vec{n}: {{template: vector, queue: 4, results: 4, reads: [act, acc, par], writes: [act, acc]}}\n",
        ("requantize", "rescale", "add", "max_pool", "copy", "fill", "mul", "maximum", "minimum"),
    ),
    "loads": (
        "engines",
        "  load{n}: {{template: dma, queue: 4, reads: [dram], writes: [act, wgt, acc, par, lut]}}\n",
        ("load_act", "load_wgt", "load_acc", "load_par"),
    ),
}
"""By kind: the section of a machine file, the line of one more engine, and the instructions that all of them have."""


def main() -> None:
    """Print a row for each number of engines of each kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_engines", description="Search time by engines.")
    parser.add_argument("names", nargs="*", metavar="NAME", default=["ds-cnn"], help="networks; default: ds-cnn")
    parser.add_argument("--kind", action="append", choices=ONE_MORE, help="default: all")
    parser.add_argument("--most", type=int, default=4, help="engines of a kind; default: 4")
    arguments = parser.parse_args()
    print("network           kind     engines  cycles      search s   by one fewer  simulate s / 1,000  by one fewer")
    for name in arguments.names:
        for kind in arguments.kind or ONE_MORE:
            before: tuple[float, float] | None = None
            for count in range(1, arguments.most + 1):
                cycles, *times = _measured(onnx_model(name), machine_with(kind, count))
                search, simulate = times
                of_search, of_simulate = (
                    (f"{search / before[0]:.2f}", f"{simulate / before[1]:.2f}") if before else ("", "")
                )
                figures = f"{cycles:<11,} {search:<10.2f} {of_search:13} {simulate:<19.5f} {of_simulate}"
                print(f"{name:17} {kind:8} {count:<8} {figures}", flush=True)
                before = search, simulate


def machine_with(kind: str, count: int) -> Machine:
    """base16 with activations in many banks, and with so many engines of a kind."""
    section, line, mnemonics = ONE_MORE[kind]
    numbers = range(2, count + 1)
    text = BASE + (f"{section}:\n" + "".join(line.format(n=n) for n in numbers) if numbers else "")
    if mnemonics and numbers:
        first = mnemonics[0].partition("_")[0] if kind == "loads" else "vec"
        engines = ", ".join([first, *(f"{first}{n}" for n in numbers)])
        text += "instructions:\n" + "".join(f"  {mnemonic}: {{engine: [{engines}]}}\n" for mnemonic in mnemonics)
    return load_machine_text(text, f"{kind}{count}.yaml")


def _measured(model: onnx.ModelProto, machine: Machine) -> tuple[int, float, float]:
    """Cycles, seconds of the search, and seconds of the cycle model for each 1,000 instructions."""
    _compiled(onnx.load(MODEL), machine)
    start = process_time()
    programs = _compiled(model, machine)
    search = process_time() - start
    fastest, cycles = float("inf"), 0
    for _ in range(RUNS):
        start = process_time()
        cycles = sum(simulate_cycles(program, place_regions(program.limits)).cycles for program in programs)
        fastest = min(fastest, process_time() - start)
    return cycles, search, fastest / sum(len(program.instructions) for program in programs) * 1000


def _compiled(model: onnx.ModelProto, machine: Machine) -> Sequence[Program]:
    with tempfile.TemporaryDirectory() as folder:
        return compile(model, machine, tuning=Path(folder) / "tuning.json").programs


if __name__ == "__main__":
    main()
