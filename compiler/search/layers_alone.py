"""The tilings of single layers, each layer alone: all are enumerated, and the exact cycle model says which are best.

They are measured in the order in which the analytic model ranks them. A tiling that takes no less than the best one so
far even if nothing gets in its way (`tiling/least.py`) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.errors import CompileError
from tilewright.compiler.search.changes import Anew, Cut
from tilewright.compiler.search.effort import Budget
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.choice import Candidates, TileChoice
from tilewright.compiler.tiling.least import least_cycles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.shape import Cycles
from tilewright.compiler.tiling.tile import tile_part

MOST_MEASURED = 48
"""Of a layer, so many tilings are measured at the most. Where all were, the best was among the first 17. Where the
array works nearly all the time, ports decide, which the analytic model does not know, and the best one comes later."""

OFFERED = 2
"""So many of the best tilings of a layer alone are tried in the network."""

Measure = Callable[[TileProgram, Budget], int | None]
"""The exact cycles of tiles; None if they do not fit, or if nothing is left of the budget."""


class LayersAlone:
    """The best tilings of a network's layers, each alone. Layers that are alike are measured once."""

    def __init__(self, selection: Selection, planner: Planner, measure: Measure, work: Budget) -> None:
        self._selection = selection
        self._planner = planner
        self._measure = measure
        self._work = work
        self._known: dict[CanonicalForm, Sequence[TileChoice]] = {}

    def anew(self, tiling: TilingOptions) -> Iterator[Anew]:
        """All layers with the tiles that are best for each, with the network's inputs on chip and not."""
        inputs = frozenset(tensor.name for tensor in self._selection.program.inputs)
        for off_chip in (frozenset[str](), inputs):
            planner = self._planner.under(Anew(off_chip, {}).apply(tiling))
            try:
                plan = planner.plan()
            except CompileError:
                continue
            found = ((plan.shapes[at].cover.nest.name, self._best(planner, plan, at)) for at in _apart(plan))
            yield Anew(off_chip, {name: best[0].as_wanted for name, best in found if best})

    def cuts(self, tiling: TilingOptions, plan: Plan) -> Iterator[tuple[int, Cut]]:
        """(position, change) for the best tiles of each kind of layers; the position is that of their first."""
        planner = self._planner.under(replace(tiling, limits={}))
        for positions in planner.alike(plan.residency):
            first = positions[0]
            names = [plan.shapes[position].cover.nest.name for position in positions]
            for choice in self._best(planner, plan, first) if first not in plan.within else ():
                if choice.as_wanted != plan.choices[first].as_wanted:
                    yield first, Cut(dict.fromkeys(names, choice.as_wanted))

    def _best(self, planner: Planner, plan: Plan, position: int) -> Sequence[TileChoice]:
        """The tilings of a layer with which it takes the fewest cycles alone, the best first."""
        look = plan.looks[position]
        if look not in self._known:
            self._known[look] = self._found(planner, plan, position)[:OFFERED]
        return self._known[look]

    def _found(self, planner: Planner, plan: Plan, position: int) -> Sequence[TileChoice]:
        try:
            candidates = planner.alone().candidates(position, plan.residency)
        except CompileError:
            return ()
        cuts, machine = candidates.cuts, self._selection.machine
        least = least_cycles(plan.shapes[position], machine, cuts.sizes, cuts.points_outer)
        work = self._work.part(_share(plan, position))

        def measured(choice: TileChoice) -> int | None:
            choices = (*plan.choices[:position], choice, *plan.choices[position + 1 :])
            if not work.allows(choice.cycles):
                return None
            part = tile_part(self._selection, replace(plan, choices=choices), range(position, position + 1))
            return self._measure(part, work)

        return best_first(candidates, least, measured)


def best_first(
    candidates: Candidates, least: Cycles, measure: Callable[[TileChoice], int | None]
) -> Sequence[TileChoice]:
    """The tilings of a layer that are measured, the best first.

    `least`: for each candidate, what it takes at the least. One that cannot be better than the best so far is left out.
    """
    found: list[tuple[int, int]] = []
    best = None
    for at in candidates.cheapest_first():
        if len(found) == MOST_MEASURED:
            break
        if best is not None and least[at] >= best:
            continue
        cycles = measure(candidates.choice(int(at)))
        if cycles is not None:
            found.append((cycles, int(at)))
            best = cycles if best is None else min(best, cycles)
    return [candidates.choice(at) for _, at in sorted(found, key=lambda each: each[0])]


def _apart(plan: Plan) -> list[int]:
    """The positions of layers that are computed in tiles of their own."""
    return [position for position in range(len(plan.choices)) if position not in plan.within]


def _share(plan: Plan, position: int) -> float:
    """Of the cycles of all kinds of layers, each counted once, those of a layer."""
    kinds = {look: choice.cycles for look, choice in zip(plan.looks, plan.choices, strict=True)}
    return plan.choices[position].cycles / sum(kinds.values())
