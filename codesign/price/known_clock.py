"""Clocks that were found before, kept for the same machine, hardware, script, tools and library, and for no other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from tilewright.codesign.price.clock import Clock, UnitClock, clock_of
from tilewright.codesign.price.known import sources_hash
from tilewright.codesign.price.process import Process
from tilewright.codesign.price.timing_synthesis import SCRIPTS, TimingSynthesis
from tilewright.isa.folders.cache import cache_folder, kept
from tilewright.isa.machine.machine import Machine


def known_clock(machine: Machine, process: Process) -> Clock:
    """As `clock_of`, which is called only where the clock is not known yet. Raises PriceError as that does."""
    synthesis = TimingSynthesis(process)
    tools = (sources_hash(), version("amaranth"), SCRIPTS, synthesis.constraints, synthesis.version, synthesis.library)
    key = hashlib.sha256(repr((machine.text, *tools)).encode()).hexdigest()

    def make(folder: Path) -> Path:
        (folder / "clock").write_text(json.dumps(dataclasses.asdict(clock_of(machine, process))))
        return folder / "clock"

    found = json.loads(kept(cache_folder() / "clocks" / key[:2] / f"{key}.json", make).read_text())
    return Clock(tuple(UnitClock(**unit) for unit in found["units"]), found["script_hash"])
