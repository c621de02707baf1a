"""Which keys of a machine are sizes: of such a machine the price is fitted to that of its file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

SIZE = re.compile(
    r"array\.(rows|cols)"
    r"|memories\.\w+\.(kib|depth)"
    r"|engines\.\w+\.(queue|results|contexts|bursts|beats)"
    r"|fetch_beats|dram\.outstanding_beats"
)
"""Arrays, memories and queues. Not lanes and banks: how many of these there are changes what stands around them."""


def of_other_sizes(isa: str, overrides: Sequence[str]) -> Machine | None:
    """The machine without overrides, if all of these are of sizes; None if there are others, or none."""
    keys = [setting.partition("=")[0].strip() for setting in overrides]
    return load_machine(isa) if keys and all(map(SIZE.fullmatch, keys)) else None
