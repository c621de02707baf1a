"""What is asked of a machine: how often a second it runs the networks, at which clock, within which area."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.codesign.errors import QuestionError

HERTZ = 1e6
"""Of a MHz."""


@dataclass(frozen=True, slots=True)
class RequiredLimits:
    """Limits; None where nothing is asked.

    A run is one image through each network, one network after the other: `per_second` of them, at `clock_mhz`. The
    logic is a part of the area.
    """

    per_second: float | None = None
    clock_mhz: float | None = None
    area_mm2: float | None = None
    logic_mm2: float | None = None

    @property
    def cycles(self) -> int | None:
        """What a run may take."""
        if self.per_second is None or self.clock_mhz is None:
            return None
        return int(self.clock_mhz * HERTZ / self.per_second)

    @property
    def needs_price(self) -> bool:
        return self.area_mm2 is not None or self.logic_mm2 is not None

    def rate(self, cycles: float) -> float | None:
        """Runs a second of so many cycles each; None without a clock."""
        return None if self.clock_mhz is None else self.clock_mhz * HERTZ / cycles

    def __str__(self) -> str:
        texts = []
        if self.per_second is not None:
            texts.append(f"{self.per_second:,.10g} a second at {self.clock_mhz:g} MHz")
        if self.area_mm2 is not None:
            texts.append(f"within {self.area_mm2:g} mm²")
        if self.logic_mm2 is not None:
            texts.append(f"within {self.logic_mm2:g} mm² of logic")
        return ", ".join(texts)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "cycles": self.cycles}


def question(
    per_second: float | None, clock_mhz: float | None, area_mm2: float | None, logic_mm2: float | None
) -> RequiredLimits:
    """The question of these limits. Raises QuestionError for one that asks nothing, or that nothing can answer."""
    limits: Mapping[str, tuple[float | None, str]] = {
        "--per-second": (per_second, "runs a second"),
        "--clock": (clock_mhz, "MHz"),
        "--area": (area_mm2, "mm²"),
        "--logic": (logic_mm2, "mm²"),
    }
    for option, (value, unit) in limits.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise QuestionError(f"{option} is {value:g}; expected {unit} above 0")
    if per_second is None and area_mm2 is None and logic_mm2 is None:
        raise QuestionError("nothing is asked: say --per-second RUNS with --clock MHZ, --area MM2, or both")
    if per_second is not None and clock_mhz is None:
        raise QuestionError("the cycles of a run follow from rate and clock: say --clock MHZ, such as --clock 200")
    if per_second is None and clock_mhz is not None:
        raise QuestionError("a clock says nothing without a rate: say --per-second RUNS, or leave --clock out")
    asked = RequiredLimits(per_second, clock_mhz, area_mm2, logic_mm2)
    if asked.cycles == 0:
        raise QuestionError(f"{asked}: that is less than a cycle for each run; ask for fewer a second")
    return asked
