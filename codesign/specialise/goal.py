"""What should be less with new instructions, by the words of the command line; it loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Goal(StrEnum):
    """What should be less."""

    CYCLES = "cycles"
    TIME = "time"  # cycles at the machine's own clock
    ENERGY = "energy"  # on chip and of DRAM
    ENERGY_DELAY = "energy-delay"  # energy times time
    AREA = "area"  # cycles times the machine's area: where to cut off


ABOUT: Mapping[Goal, str] = {
    Goal.CYCLES: "cycles",
    Goal.TIME: "time",
    Goal.ENERGY: "energy",
    Goal.ENERGY_DELAY: "energy times time",
    Goal.AREA: "cycles times area",
}
"""The goals in words."""
