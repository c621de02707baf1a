"""What plans for a machine have found, so that the plans after them need not find it again."""

from __future__ import annotations

from tilewright.compiler.errors import CompileError
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tiling.choice import KnownCuts
from tilewright.compiler.tiling.lowered import LoweredNests
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner


class Planned:
    """What plans for one machine have found, for others that follow, and what was made of them.

    It changes nothing but the time.
    """

    def __init__(self) -> None:
        self.lowered = LoweredNests()
        self._cuts: KnownCuts = {}
        self._last: Planner | None = None

    def planner(self, selection: Selection, options: TilingOptions) -> Planner:
        """A planner for a selection, that knows what the last one found if it was for the same selection."""
        if self._last is None or self._last.selection is not selection:
            self._last = Planner(selection, options, cuts=self._cuts)
        return self._last.under(options)


def without_room(selection: Selection, planned: Planned | None = None) -> tuple[CompileError, ...]:
    """The error of each nest that no tile fits, whatever stays on chip between the others."""
    return tuple((planned or Planned()).planner(selection, TilingOptions(residency="none")).refusals())


def plan_tiles(selection: Selection, options: TilingOptions, planned: Planned | None = None) -> Plan:
    """Begin with everything on chip, and take off the largest tensors until every nest has a tile that fits.

    `planned`: what was found before. Raises CompileError when a nest finds none with nothing on chip.
    """
    return (planned or Planned()).planner(selection, options).plan()
