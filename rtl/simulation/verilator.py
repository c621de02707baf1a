"""How Verilator and the C++ compiler are called, and an error of ours when they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tilewright.rtl.simulation.tools import REQUIRED, RtlError, verilator_folder

PREFIX = "Vtop"
"""The name of the C++ class that cocotb's main program expects."""

OBJECTS = "obj"
"""The folder, below that of the sources, in which C++ is written and compiled."""

VERILATOR_OPTIONS = (
    *("-cc", "--exe", "--vpi", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("--output-split", "10000", "--output-split-cfuncs", "2000"),
    *("-Wno-fatal", "-Wno-WIDTH", "-Wno-CASEINCOMPLETE", "-Wno-MULTIDRIVEN", "-Wno-BLKSEQ"),
)

WAVES_OPTIONS = ("--trace-vcd", "--trace-depth", "2")
"""Not of what lies deepest, which makes files much larger."""

MAKE_OPTIONS = ("OPT_FAST=-O2", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2")

MAKE_FLAGS = "CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_COROUTINES=-fcoroutines CFG_LDLIBS_THREADS=-pthread"
"""What the makefile in Verilator's Python package leaves empty."""

BUILD_JOBS = 2


def verilate(folder: Path, top: str, files: Iterable[str], has_waves: bool, *options: str) -> None:
    """Write C++ and a makefile for the top module that the files of a folder describe. Raises RtlError."""
    waves = WAVES_OPTIONS if has_waves else ()
    names = ("-Mdir", OBJECTS, "--prefix", PREFIX, "--top-module", top, "-o", top)
    run_tool([str(verilator_folder() / "verilator"), *VERILATOR_OPTIONS, *waves, *names, *options, *files], folder)


def make(folder: Path, *arguments: str) -> None:
    """Run Verilator's makefile below a folder. Raises RtlError."""
    run_tool(["make", "-C", OBJECTS, "-f", f"{PREFIX}.mk", f"-j{BUILD_JOBS}", *MAKE_OPTIONS, *arguments], folder)


def tool_facts() -> list[str]:
    """What the result of these two depends on besides their files."""
    return [*(version(name.replace("_", "-")) for name in REQUIRED), *VERILATOR_OPTIONS, *MAKE_OPTIONS]


def run_tool(command: list[str], folder: Path) -> None:
    """Run a command in a folder; raises RtlError with its last lines when it fails, or says what to install."""
    python = sys.executable.replace(" ", "\\ ")  # which need not be called `python` on the PATH
    environment = {**os.environ, "MAKEFLAGS": f"{MAKE_FLAGS} PYTHON3={python}"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RtlError(f"the hardware simulation needs {command[0]}; install g++, make and perl") from error
    if done.returncode != 0:
        last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise RtlError(f"{Path(command[0]).name} failed in {folder}; its last lines:\n{last_lines}")
