"""What should be less with new instructions, by the words of the command line; it loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class SavedQuantity(StrEnum):
    """What should be less."""

    CYCLES = "cycles"
    TIME = "time"  # cycles at the machine's own clock
    ENERGY = "energy"  # on chip and of DRAM
    ENERGY_DELAY = "energy-delay"  # energy times time
    AREA = "area"  # cycles times the machine's area: where to cut off


ABOUT: Mapping[SavedQuantity, str] = {
    SavedQuantity.CYCLES: "cycles",
    SavedQuantity.TIME: "time",
    SavedQuantity.ENERGY: "energy",
    SavedQuantity.ENERGY_DELAY: "energy times time",
    SavedQuantity.AREA: "cycles times area",
}
"""The goals in words."""
