"""The simulated machine as a board that a program in C can reach: built once, then linked with the program."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.simulation.bench_verilog import BENCH
from tilewright.rtl.simulation.build import BENCH_PUBLIC, bench_sources, texts_of
from tilewright.rtl.simulation.runtime import runtime_objects
from tilewright.rtl.simulation.tools import RtlError, require_tools
from tilewright.rtl.simulation.verilator import OBJECTS, PREFIX, make, run_tool, tool_facts, verilate

BOARD = "board.cpp"

MEMORY_BYTES = 1 << 26

MOST_SECONDS = 600
"""A program that takes longer than this is stopped."""


def run_on_board(machine: Machine, sources: Mapping[str, bytes], flags: tuple[str, ...] = ()) -> tuple[int, str]:
    """Compile C files by name with their headers, link them with the machine, and run `main`: exit code and output.

    They find `board_read`, `board_write`, `board_pause`, `board_bus_address` and `board_memory`. Raises RtlError where
    a tool is missing, the sources do not compile, or the program does not end.
    """
    require_tools()
    objects = [*_board_objects(machine), *runtime_objects(has_waves=False)]
    with scratch() as folder:
        for name, content in sources.items():
            (folder / name).write_bytes(content)
        units = sorted(name for name in sources if name.endswith((".c", ".S")))
        run_tool(["gcc", "-std=c99", "-O2", *flags, "-c", *units], folder)
        linked = [f"{Path(name).stem}.o" for name in units]
        run_tool(["g++", "-o", "program", *linked, *map(str, objects), "-pthread", "-latomic"], folder)
        try:
            done = subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise RtlError(f"the program did not end within {MOST_SECONDS} seconds") from error
    return done.returncode, done.stdout + done.stderr


def _board_objects(machine: Machine) -> list[Path]:
    """The machine and its board as object files, from the cache if it has them."""
    board = {BOARD: Path(__file__).with_name(BOARD).read_text()}
    texts = texts_of(BENCH, BENCH_PUBLIC, {**bench_sources(machine, has_waves=False), **board})
    place = cache_folder() / "boards" / digest(*texts, *texts.values(), *tool_facts(), str(MEMORY_BYTES))
    found = kept(place, partial(_compile, machine, texts)).iterdir()
    return sorted(found, key=lambda path: (path.suffix == ".a", path.name))  # what an archive gives is asked for before


def _compile(machine: Machine, texts: Mapping[str, str], folder: Path) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text)
    facts = {
        "BOARD_MEMORY_BYTES": f"{MEMORY_BYTES}ULL",
        "BOARD_BUS_BYTES": machine.dram.bus_bytes,
        "BOARD_LATENCY_CYCLES": machine.dram.latency_cycles,
    }
    flags = " ".join(["-I..", *(f"-D{name}={value}" for name, value in facts.items())])
    verilate(folder, BENCH, texts, False, "-CFLAGS", flags)
    library, own = f"{PREFIX}__ALL.a", [f"{Path(name).stem}.o" for name in (f"{BENCH}.cpp", BOARD)]
    make(folder, library, *own)
    objects = folder / "objects"
    objects.mkdir()
    for name in (library, *own):
        (folder / OBJECTS / name).rename(objects / name)
    return objects
