"""`make bench`: the figures that the project is measured by, each printed by this run. No test looks at them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.digits import MODEL, images
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.rtl.run import run_rtl, run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import PreparedProgram

RTL_RUNS = 400
"""Runs of the digits network in one hardware simulation, so that start-up is a small part."""


def median_seconds(action: Callable[[], object], times: int) -> float:
    """The median time of an action, after one run that does not count."""
    action()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    machine = load_machine("base16")
    table = Table(title="digits on base16")
    table.add_column("measure")
    table.add_column("wanted", justify="right")
    table.add_column("measured", justify="right")

    table.add_row("load the machine", "≤ 50 ms", f"{1e3 * median_seconds(lambda: load_machine('base16'), 9):.1f} ms")
    seconds = median_seconds(lambda: compile_model(MODEL, machine), 5)
    table.add_row("compile, after start-up", "≤ 500 ms", f"{1e3 * seconds:.0f} ms")
    program = compile_model(MODEL, machine)
    is_same = to_bytes(program) == to_bytes(compile_model(MODEL, machine))
    table.add_row("emitted bytes of two compilations", "identical", "identical" if is_same else "DIFFERENT")

    bases = place_regions(program.limits)
    image = dram_image(program, {"image": images()[:1]})
    prepared = PreparedProgram(program, bases)
    values = median_seconds(lambda: prepared.run(image), 20)
    cycles = median_seconds(lambda: simulate_cycles(program, bases), 20)
    table.add_row("simulate an image: values", "", f"{1e3 * values:.1f} ms")
    table.add_row("simulate an image: cycles", "", f"{1e3 * cycles:.1f} ms")
    table.add_row("simulate an image: both", "≤ 50 ms", f"{1e3 * (values + cycles):.1f} ms")

    counters = simulate_cycles(program, bases)
    state, hardware = run_rtl(program, image, bases)
    expected = prepared.run(image)
    is_equal = np.array_equal(state.dram, expected.dram) and all(
        np.array_equal(state.memories[name], memory) for name, memory in expected.memories.items()
    )
    table.add_row("memory, simulator and hardware", "every byte equal", "equal" if is_equal else "DIFFERENT")
    table.add_row("cycles, simulator", "", f"{counters.cycles:,}")
    apart = abs(hardware.cycles - counters.cycles) / counters.cycles
    table.add_row("cycles, hardware", "≤ 1 % apart", f"{hardware.cycles:,} ({100 * apart:.2f} %)")
    start = time.perf_counter()
    runs = run_rtl_many(machine, [(program, image, bases)] * RTL_RUNS)
    speed = sum(run[1].cycles for run in runs) / (time.perf_counter() - start)
    table.add_row("hardware simulation, start-up included", "≥ 100 kcycles/s", f"{speed / 1e3:.0f} kcycles/s")
    model_speed = counters.cycles / cycles
    table.add_row("cycle model", "", f"{model_speed / 1e6:.2f} Mcycles/s")
    Console().print(table)


if __name__ == "__main__":
    main()
