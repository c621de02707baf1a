"""How much work a search may do: counted in what it does and never in time, so that its result is always the same."""

from __future__ import annotations

from dataclasses import dataclass

CYCLES_PER_UNIT = 1200
"""Cycles that are simulated in the time in which one instruction is scheduled, placed and emitted."""

CYCLES_PER_INSTRUCTION = 200
"""About how many cycles an instruction takes, to tell the work on a program before it is there."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to search. The unit of work is one instruction, from tiles to cycles: about a quarter of a millisecond.

    `tiles` and `order`: units that the searches for tiles and for the order of operations may take. For tiles of a
    network that is too large to measure whole: `finer` for more of them in layers without products, and `large` for all
    other changes. `times`: either search takes at most so many times the work on the program itself, but `least` units
    even if that is less. `kinds`: how many kinds of tiles are tried for each nest. `rounds`: how often all changes are
    tried. `alone`: units for the tilings of single layers, each alone. `runs`: how often buffers are placed again after
    a run. `rows`: units for softmaxes and normalisations in the rows of the products around them, in whole programs.
    """

    tiles: int
    order: int
    finer: int
    large: int
    times: int
    least: int
    kinds: int
    rounds: int
    alone: int
    runs: int
    rows: int


EFFORTS = (
    Effort(
        tiles=0, order=0, finer=0, large=0, times=0, least=0, kinds=0, rounds=0, alone=0, runs=0, rows=0,
    ),
    Effort(
        tiles=4_334, order=20_000, finer=12_000, large=800, times=6, least=300, kinds=2, rounds=1, alone=0, runs=3,
        rows=40_000,
    ),
    Effort(
        tiles=1_200_000, order=80_000, finer=240_000, large=240_000, times=133, least=267, kinds=7, rounds=3,
        alone=240_000, runs=16, rows=160_000,
    ),
)  # fmt: skip
"""By number, as `--effort` takes it. 0 takes what the analytic model finds best and searches nothing."""


@dataclass(slots=True)
class Budget:
    """The units of work that are left."""

    left: int

    def allows(self, cycles: float) -> bool:
        """Whether there is enough for a program that is expected to take so many cycles."""
        return self.left >= cycles / CYCLES_PER_INSTRUCTION + cycles / CYCLES_PER_UNIT

    def part(self, share: float) -> Budget:
        """A share of it, to be spent by itself."""
        return Budget(int(self.left * share))

    def spend(self, instructions: int, cycles: int) -> None:
        """Take off the work on a program."""
        self.left -= instructions + cycles // CYCLES_PER_UNIT


def tiles_budget(effort: Effort, cycles: float) -> Budget:
    """What may be spent on the tiles of a program that is expected to take so many cycles."""
    return Budget(min(effort.tiles, _wanted(effort, cycles)))


def order_budget(effort: Effort, cycles: float) -> Budget:
    """What may be spent on the order of a program that is expected to take so many cycles."""
    return Budget(min(effort.order, _wanted(effort, cycles)))


def _wanted(effort: Effort, cycles: float) -> int:
    own = cycles / CYCLES_PER_INSTRUCTION + cycles / CYCLES_PER_UNIT
    return int(max(effort.least, effort.times * own))
