"""A bundle on the simulated hardware: its own C, compiled for this computer, reaches the machine over its two buses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.simulation.board import run_on_board

BOARD = Path(__file__).with_name("simulated.c")

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def run_simulated(machine: Machine, files: Mapping[str, bytes]) -> str:
    """What the bundle's main prints. Raises RtlError without the tools, InputError where it ends with an error."""
    code, output = run_on_board(machine, {**files, "platform.c": BOARD.read_bytes()}, WARNINGS)
    if code:
        raise InputError(f"on the simulated hardware the bundle ended with {code}: {output.strip()}")
    return output
