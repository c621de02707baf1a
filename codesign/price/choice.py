"""How a machine is mapped, and at which corner its paths are timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.codesign.price.corners import TYPICAL
from tilewright.codesign.price.efforts import SMALLEST

MOST_MHZ = 100_000
"""More than any machine reaches: a cycle of ten picoseconds is shorter than what a flip-flop takes."""


@dataclass(frozen=True)
class HardwareChoices:
    """What there is to choose of a machine's hardware in a process.

    `effort`: how hard to work for short paths, as little as possible if nothing is said, since a clock stands beside
    areas that are mapped for area; `efforts`: for single units, by their key in `MachinePaths.mapped`.
    `macro_ns`: the latest that a word of a memory may come after the clock, by the memory's name.
    """

    effort: str = SMALLEST
    efforts: Mapping[str, str] = field(default_factory=dict)
    macro_ns: Mapping[str, float] = field(default_factory=dict)
    corner: str = TYPICAL
