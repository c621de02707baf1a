"""Starts a simulation program with a cocotb test bench inside, and sees whether it passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tilewright.rtl.simulation.tools import RtlError, shared_python

JOBS = "TILEWRIGHT_JOBS"
"""Environment variable that names the folder in which the test bench finds its work and leaves its results."""


def run_cocotb(program: Path, top: str, module: str, folder: Path) -> None:
    """Run the cocotb tests of `module` on a simulation program whose top module is `top`, with `folder` for its files.

    Raises RtlError, with the last lines of the log, when the program fails or a test does.
    """
    log, results = folder / "log.txt", folder / "results.xml"
    with open(log, "w") as output:
        done = subprocess.run(
            [str(program)],
            cwd=folder,
            env=_environment(top, module, folder, results),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    verdict = results.read_text() if results.exists() else "<failure"
    if done.returncode != 0 or "<failure" in verdict or "<error" in verdict:
        last_lines = "\n".join(log.read_text().strip().splitlines()[-20:])
        raise RtlError(f"the hardware simulation {program.name} failed; its last lines:\n{last_lines}")


def _environment(top: str, module: str, folder: Path, results: Path) -> dict[str, str]:
    """What cocotb's library inside the simulation looks for."""
    from cocotb_tools import config

    kept = {name: value for name, value in os.environ.items() if not name.startswith("COCOTB_")}
    beside_package = str(Path(__file__).parents[3])
    return {
        **kept,
        JOBS: str(folder),
        "COCOTB_TEST_MODULES": module,
        "COCOTB_TOPLEVEL": top,
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "GPI_USERS": f"{shared_python()};{config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_REWRITE_ASSERTION_FILES": "",  # pytest's form of assertions, which takes half of the start
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # cocotb loads pytest, whose plugins take a tenth of the start
        "PYTHONPATH": os.pathsep.join([beside_package, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
