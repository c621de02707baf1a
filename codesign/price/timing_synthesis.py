"""Modules mapped for speed, with buffers, as netlists of cells for static timing; each is made once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.cell_timing import load_timing
from tilewright.codesign.price.efforts import EFFORTS, SMALLEST, options_of, script_of
from tilewright.codesign.price.liberty import liberty
from tilewright.codesign.price.process import Cell, Process
from tilewright.codesign.price.side_by_side import side_by_side
from tilewright.codesign.price.static_timing import Mapped, StaticTiming
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.rtl.yosys import YosysError, run_script, yosys_version

SCRIPT = """\
read_liberty -lib cells.lib
read_rtlil in.il
hierarchy -top {top}
flatten
synth -booth -top {top}
dfflibmap -liberty cells.lib
opt
abc -liberty cells.lib{options}
opt_clean
write_json out
"""
"""How hard `abc` works for a short path is in its options, see `efforts`."""

SCRIPTS = "\0".join([SCRIPT, *map(options_of, EFFORTS), *map(script_of, EFFORTS)])
"""All that says how modules are mapped."""

Texts = Mapping[str, tuple[str, str]]

NONE: Mapping[str, str] = {}

KEPT = ("ports", "cells", "netnames")


class TimingSynthesis:
    """Maps modules for timing. A result is used again only for the same netlist, script, tool and library."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.timing = load_timing(process)
        self.static = StaticTiming(process, self.timing)
        self.library = liberty(process, self.timing)
        self.constraints = f"set_driving_cell {_buffer(process).name}\nset_load 0.01 [all_outputs]\n"
        try:
            self.version = yosys_version()
        except YosysError as error:
            raise PriceError(str(error)) from error
        self.script_hash = hashlib.sha256(SCRIPTS.encode()).hexdigest()[:16]

    def mapped(self, texts: Texts, efforts: Mapping[str, str] = NONE) -> dict[str, Mapped]:
        """By name: the module that is the top of a text in RTLIL, and that text; several at a time.

        `efforts` says how hard to work for each; as little as possible where it does not.
        """
        return {name: self.static.mapped(module) for name, module in self.netlists(texts, efforts).items()}

    def netlists(self, texts: Texts, efforts: Mapping[str, str] = NONE) -> dict[str, Mapping[str, Any]]:
        """As `mapped`, in Yosys's JSON, from which the delays at any corner follow."""
        largest_first = sorted(texts, key=lambda name: -len(texts[name][1]))
        made = side_by_side(lambda name: self._one(*texts[name], efforts.get(name, SMALLEST)), largest_first)
        by_name = dict(zip(largest_first, made, strict=True))
        return {name: by_name[name] for name in texts}

    def _one(self, top: str, text: str, effort: str) -> Mapping[str, Any]:
        parts = [text, SCRIPT, options_of(effort), script_of(effort), self.constraints, self.version, self.library]
        key = hashlib.sha256("\0".join(parts).encode())
        place = cache_folder() / "timing" / key.hexdigest()[:2] / f"{key.hexdigest()}.json"

        def make(folder: Path) -> Path:
            (folder / "out").write_text(json.dumps(self._synthesised(top, text, effort)))
            return folder / "out"

        return json.loads(kept(place, make).read_text())

    def _synthesised(self, top: str, text: str, effort: str) -> Mapping[str, Any]:
        files = {"in.il": text, "cells.lib": self.library, "constraints.txt": self.constraints}
        try:
            script = SCRIPT.format(top=f"\\{top}", options=options_of(effort))
            out = json.loads(run_script({**files, "effort.abc": script_of(effort)}, script))
        except YosysError as error:
            raise PriceError(f"{self.process.name}: {error}") from error
        module = {key: out["modules"][top][key] for key in KEPT}
        for facts in (*module["cells"].values(), *module["netnames"].values()):
            facts.pop("attributes", None)
            facts.pop("parameters", None)
        return module


def _buffer(process: Process) -> Cell:
    """The smallest buffer: it drives what comes into a module."""
    buffers = [
        cell for cell in process.cells if len(cell.inputs) == 1 and list(cell.outputs.values()) == list(cell.inputs)
    ]
    if not buffers:
        raise PriceError(f"{process.name} has no buffer, and a clock needs one")
    return min(buffers, key=lambda cell: cell.area_um2)
