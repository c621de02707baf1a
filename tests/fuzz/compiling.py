"""How generated models are compiled: for machines that are read once, and most of them without a search."""

from __future__ import annotations

from functools import cache
from zlib import crc32

import numpy as np

from tests.compiler.models import conv_model
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

SEARCHED = 4
"""Of so many inputs one is compiled with a search, which takes longer than all else and may not change a result."""


@cache
def shipped(name: str) -> Machine:
    """A shipped machine by its name."""
    return load_machine(name)


def effort_of(value: object) -> int:
    """The effort to compile an input with: the same one each time that it is tried."""
    return int(crc32(repr(value).encode()) % SEARCHED == 0)


@cache
def prepare_compiler() -> None:
    """Compile a network, and the cycle model for this computer."""
    program = compile_model(conv_model(np.random.default_rng(0)), shipped("tiny8"), Options(effort=0))
    simulate_cycles(program, place_regions(program.limits))
