"""Plans of selections, each made with what those before it have found."""

from __future__ import annotations

from tilewright.compiler.errors import CompileError
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.session import MemoStage, SameObject, Session
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner

_PLANNERS = MemoStage[Planner](1)
"""That of the selection that was planned last."""


def planner_of(selection: Selection, options: TilingOptions, session: Session) -> Planner:
    """A planner for a selection, that knows what the last one found if it was for the same selection."""
    planner = session.memo(_PLANNERS, SameObject(selection), lambda: Planner(selection, options, session=session))
    return planner.under(options)


def without_room(selection: Selection, session: Session | None = None) -> tuple[CompileError, ...]:
    """The error of each nest that no tile fits, whatever stays on chip between the others."""
    return tuple(planner_of(selection, TilingOptions(residency="none"), session or Session()).refusals())


def plan_tiles(selection: Selection, options: TilingOptions, session: Session | None = None) -> Plan:
    """Begin with everything on chip, and take off the largest tensors until every nest has a tile that fits.

    What was found before is in `session`. Raises CompileError when a nest finds none with nothing on chip.
    """
    return planner_of(selection, options, session or Session()).plan()
