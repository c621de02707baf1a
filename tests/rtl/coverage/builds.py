"""The machine in two simulations that count what is executed: with a plain memory, and on a bus that is unruly."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from cocotb_tools import config

from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.simulation.bench_verilog import BENCH
from tilewright.rtl.simulation.board import UNRULY, board_flags, board_texts
from tilewright.rtl.simulation.build import BENCH_PUBLIC, bench_sources, texts_of
from tilewright.rtl.simulation.verilator import OBJECTS, PREFIX, make, run_tool, tool_facts, verilate
from tilewright.rtl.verilog import TOP

COUNTED = ("--coverage-line", "--coverage-toggle")

DATA = "coverage.dat"
"""What a simulation writes at its end, into the folder in which it runs."""

QUICKLY = ("OPT_FAST=-O1",)
"""Built once and run once: compiling takes most of the time."""

ALL_OBJECTS = "objects: $(VK_GLOBAL_OBJS)\n\t$(file > names.txt,$(VK_GLOBAL_OBJS))\n"
"""Read after Verilator's makefile: its own part of a program, and the names of its files."""

MOST_SECONDS = 7200


def counting_bench(machine: Machine) -> Path:
    """The program of the test bench with a memory."""
    texts = texts_of(BENCH, BENCH_PUBLIC, bench_sources(machine, has_waves=False))
    return kept(_place(texts) / BENCH, partial(_build_bench, texts))


def run_unruly(
    machine: Machine, sources: Mapping[str, bytes], flags: Sequence[str], arguments: Sequence[str], folder: Path
) -> str:
    """What a program in C prints on the unruly bus; `folder` holds DATA then. Raises RtlError, AssertionError."""
    texts = board_texts(machine, UNRULY)
    objects = kept(_place(texts) / OBJECTS, partial(_build_unruly, machine, texts))
    for name, content in sources.items():
        (folder / name).write_bytes(content)
    units = sorted(name for name in sources if name.endswith(".c"))
    run_tool(["gcc", "-std=c99", "-O2", *flags, "-c", *units], folder)
    linked = [f"{Path(name).stem}.o" for name in units]
    found = sorted(objects.iterdir(), key=lambda path: (path.suffix == ".a", path.name))
    run_tool(["g++", "-o", "program", *linked, *map(str, found), "-pthread", "-latomic"], folder)
    command = ["./program", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _place(texts: Mapping[str, str]) -> Path:
    return cache_folder() / "coverage" / digest(*texts, *texts.values(), *tool_facts(), *COUNTED)


def _build_bench(texts: Mapping[str, str], folder: Path) -> Path:
    _write(texts, folder)
    libraries = config.libs_dir
    link = f"-rdynamic -Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
    main = config.share_dir / "lib" / "verilator" / "verilator.cpp"
    verilate(folder, BENCH, [*texts, str(main)], False, *COUNTED, "-CFLAGS", "-I..", "-LDFLAGS", link)
    make(folder, *QUICKLY)
    return folder / OBJECTS / BENCH


def _build_unruly(machine: Machine, texts: Mapping[str, str], folder: Path) -> Path:
    _write(texts, folder)
    files = [name for name in texts if not name.endswith(".h")]
    verilate(folder, TOP, files, False, *COUNTED, "-CFLAGS", board_flags(machine))
    (folder / OBJECTS / "goals.mk").write_text(ALL_OBJECTS)
    own = [f"{Path(name).stem}.o" for name in texts if name.endswith(".cpp")]
    make(folder, *QUICKLY, "-f", "goals.mk", f"{PREFIX}__ALL.a", "objects", *own)
    objects = folder / "objects"
    objects.mkdir()
    others = (folder / OBJECTS / "names.txt").read_text().split()
    for name in (f"{PREFIX}__ALL.a", *own, *others):
        (folder / OBJECTS / name).rename(objects / name)
    return objects


def _write(texts: Mapping[str, str], folder: Path) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)
