"""Runs tools that Python packages bring as WebAssembly modules: compiled at their first run, kept in our cache.

A tool sees its working folder only, so all paths are relative to a folder of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewright.codesign.errors import PriceError
from tilewright.isa.folders.cache import cache_folder, kept


def version_of(package: str, needed_by: str) -> str:
    """The version of a package of the extra `fpga`. Raises PriceError when it is missing."""
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise PriceError(
            f"{needed_by} needs {package}, not installed here; install the extra: pip install 'tilewright[fpga]'"
        ) from error


def compiled_nextpnr(edition: str, program: str) -> Path:
    """The folder with the machine code of a nextpnr, which is compiled there if it is not; `edition` names it."""

    def compile_it(folder: Path) -> Path:
        run_tool("nextpnr", program, ["--quiet", "--version"], folder, Path("compiled"))
        return folder / "compiled"

    return kept(cache_folder() / "nextpnr" / f"{edition}-{version('yowasp-runtime')}", compile_it)


def run_tool(name: str, program: str, arguments: Sequence[str], folder: str | Path, compiled: Path) -> None:
    """Run a text of Python, which calls the tool, with arguments in a folder. Raises PriceError when it gives up."""
    environment = {**os.environ, "YOWASP_CACHE_DIR": str(compiled)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise PriceError(f"{name} ended with {done.returncode}: {' '.join(said)}")
