"""Tries changes of a plan and keeps those with which the program takes fewer cycles, by the exact cycle model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.compiler.attempts import frugal
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.search.changes import (
    Change,
    Cut,
    Limit,
    cuts_for_one_array,
    finer_cuts,
    finer_cuts_apart,
    inputs_off_chip,
    other_cuts,
    others_off_chip,
    smaller_memories,
    surroundings,
)
from tilewright.compiler.search.effort import CYCLES_PER_INSTRUCTION, EFFORTS, Budget, tiles_budget
from tilewright.compiler.search.finisher import Finished, Finisher
from tilewright.compiler.search.layers_alone import LayersAlone
from tilewright.compiler.search.measure import cycles_of, least_cycles, measured
from tilewright.compiler.search.order import search_ahead
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import formats_with
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.choice import MOST_TILES, most_tiles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.tile import planner_of, tile_part
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import RunCounters
from tilewright.simulator.cycle_owners import IDLE, cycle_owners
from tilewright.simulator.profile import instructions_of_layers

WHOLE_SHARE = 3
"""Changes are judged by the whole program if so many programs can be measured, otherwise by the layers around them."""

WORTH = 0.002
"""The least share of their cycles that layers must save for a change that is judged by them alone."""

LARGE = 0.001
"""Changes of layers that take a smaller share of the program's cycles are not judged by the layers around them."""

FAR = 0.01
"""A memory of which half costs this share of the program's cycles is not halved again."""

WORTH_AN_ARRAY = 0.02
"""The least share of the cycles that more arrays must save at the beginning of a search: from there on, searches for
more and for fewer arrays go ways of their own, and the one for fewer finds what it would on a machine that has no more.
"""

NEAR = 0.01
"""Layers that take at most so much more than their busiest engine are left as they are: nearly all is hidden."""


def search_tiling(selection: Selection, options: Options, finisher: Finisher) -> TilingOptions:
    """The tiling, of those that the effort allows to try, with which the program takes the fewest cycles.

    More effort goes on from what less effort finds, with operations as far ahead as is best for that. Deterministic.
    The options' own if nothing better is found, or if the program fits in none of the first plans.
    """
    found = options
    for effort in range(1, options.effort + 1):
        found = replace(found, effort=effort)
        try:
            search = _PlanSearch(selection, found, finisher)
            found = replace(found, tiling=search.best())
            if effort < options.effort:
                found = replace(found, ahead=search_ahead(search.tiles(), found, finisher))
        except CompileError:
            break
    return found.tiling


def _all(cuts: Iterable[Cut]) -> Cut:
    """Several changes of tiles as one."""
    return Cut({name: tiles for cut in cuts for name, tiles in cut.tiles.items()})


def _is_far_from(best: int, cycles: int | None) -> bool:
    return cycles is None or cycles > best * (1 + FAR)


def _without_array(program: Program, counters: RunCounters) -> dict[str, int]:
    """For each layer, its own cycles in which the array has nothing in flight."""
    of_layer = instructions_of_layers(program, program.layers)
    owners = cycle_owners(program, of_layer, counters)
    multiplying = {format.engine.name for format in formats_with(program.machine, Role.MULTIPLIES)}
    others = [at for at, engine in enumerate(owners.order) if engine.name not in multiplying]
    own = owners.cycles(len(program.layers))[:, [*others, IDLE]].sum(axis=1)
    return {layer.name: int(cycles) for layer, cycles in zip(program.layers, own, strict=True)}


@dataclass(frozen=True)
class _Tried:
    """A plan and what it takes; `cycles` of the nests in question, None if they do not fit."""

    tiling: TilingOptions
    plan: Plan
    cycles: int | None


@dataclass(frozen=True, slots=True)
class _Begun:
    """A program to begin with, what it was made of and with which options, and the work that is left then."""

    made: Finished
    tiling: TilingOptions
    plan: Plan
    options: Options
    work: Budget


def _worth_its_arrays(begun: Sequence[_Begun]) -> _Begun:
    """Of programs on fewer and fewer arrays, the one to go on with: that of more where it saves enough."""
    *more, best = begun
    for each in reversed(more):
        if each.made.counters.cycles < best.made.counters.cycles * (1 - WORTH_AN_ARRAY):
            best = each
    return best


@dataclass(frozen=True, slots=True)
class _Alone:
    """Some layers alone: what they take, and whether that is about as little as they can; `finisher` has made them."""

    finisher: Finisher
    instructions: int
    cycles: int
    is_near_its_least: bool


class _PlanSearch:
    """One search: the planner, the work that is left, and the best plan so far."""

    def __init__(self, selection: Selection, options: Options, finisher: Finisher) -> None:
        self._selection = selection
        self._options = options
        self._finisher = finisher
        self._effort = EFFORTS[options.effort]
        self._planner = planner_of(selection, options.tiling, finisher.session)
        self._tiling, self._plan = options.tiling, self._planner.plan()
        self._expected = float(sum(choice.cycles for choice in self._plan.choices))
        times = max(1, (1 + len(selection.machine.twins)) / 2)  # four arrays take more instructions for fewer cycles
        self._work = tiles_budget(self._effort, self._expected * times)
        self._is_large = self._work.left < WHOLE_SHARE * self._expected / CYCLES_PER_INSTRUCTION
        self._lost = [choice.cycles for choice in self._plan.choices]  # by nest: cycles worth winning back
        self._on_finer, self._on_others = Budget(self._effort.finer), Budget(self._effort.large)
        self._known: dict[range, _Alone] = {}  # with the plan so far
        self._layers: LayersAlone | None = None
        if self._effort.alone:
            work = Budget(self._effort.alone)
            self._layers = LayersAlone(selection, self._planner, self._measured_alone, work)

    def best(self) -> TilingOptions:
        """Try all changes, round after round."""
        for _ in range(self._effort.rounds):
            before = self._tiling
            if self._is_large:
                self._by_layers()
            else:
                self._by_program()
            if self._tiling == before:
                break
        return self._tiling

    def tiles(self) -> TileProgram:
        """The program with the best plan so far."""
        return self._tiles(self._plan, range(len(self._plan.choices)))

    # -- judged by the whole program -----------------------------------------------------------------------------------

    def _by_program(self) -> None:
        everything = range(len(self._plan.choices))
        best = self._first_that_fits()
        enough: set[str] = set()  # memories that are small enough
        for change in self._changes():
            if not self._work.allows(best or self._expected):
                break
            if isinstance(change, Limit) and change.memory in enough:
                continue
            tried = self._try(change, everything, self._finisher)
            if tried is None:
                continue
            if tried.cycles is not None and (best is None or tried.cycles < best):
                best, self._tiling, self._plan = tried.cycles, tried.tiling, tried.plan
            elif isinstance(change, Limit) and best is not None and _is_far_from(best, tried.cycles):
                enough.add(change.memory)

    def _first_that_fits(self) -> int | None:
        """The cycles of the best plan so far. If it does not fit, the first that needs less memory becomes the best."""
        for tiling in (self._tiling, *frugal(self._tiling)):
            work = {arrays: Budget(self._work.left) for arrays in self._arrays_at_most(tiling)}
            begun = [self._begun(replace(tiling, arrays=arrays), own) for arrays, own in work.items()]
            self._work = work[tiling.arrays]
            fitting = [each for each in begun if each is not None]
            if fitting:  # the others' work is taken off no more than on a machine with so many arrays
                best = _worth_its_arrays(fitting)
                self._work, self._options, self._tiling, self._plan = best.work, best.options, best.tiling, best.plan
                of_layers = _without_array(best.made.program, best.made.counters)
                pieces = Counter(layer.name for layer in best.plan.layers)
                self._lost = [of_layers[layer.name] // pieces[layer.name] for layer in best.plan.layers]
                return best.made.counters.cycles
        return None

    def _arrays_at_most(self, tiling: TilingOptions) -> Iterator[int | None]:
        """How many arrays may share the work: as many as the options say, then fewer and fewer."""
        yield tiling.arrays
        yield from range(len(self._selection.machine.first_twins(tiling.arrays)), 0, -1)

    def _begun(self, tiling: TilingOptions, work: Budget) -> _Begun | None:
        """What to begin with; None if it does not fit."""
        options = replace(self._options, tiling=tiling)
        try:
            plan = self._planner.under(tiling).plan()
        except CompileError:
            return None
        made = measured(self._tiles(plan, range(len(plan.choices))), options, work, self._finisher)
        return None if made is None else _Begun(made, tiling, plan, options, work)

    def _for_one_array(self) -> Cut:
        """The tiles that are best for one array alone, of all nests of the best plan so far; none if they are those."""
        return _all(cut for _, cut in cuts_for_one_array(self._planner, self._plan))

    def _changes(self) -> Iterator[Change]:
        nests, plan = self._selection.program, self._plan
        for_one_array = self._for_one_array()
        yield from [for_one_array] if for_one_array.tiles else []
        yield from inputs_off_chip(nests, plan)
        yield from finer_cuts(self._planner, plan)
        yield from smaller_memories(self._selection.machine, plan)
        if self._layers is not None:
            yield from self._layers.anew(self._tiling)
            yield from (cut for _, cut in self._layers.cuts(self._tiling, self._plan))
        yield from (cut for _, cut in other_cuts(self._planner, plan, self._effort.kinds, self._lost))
        yield from others_off_chip(nests, plan)
        yield from (cut for _, cut in finer_cuts_apart(self._planner, plan))

    # -- judged by the layers around a change --------------------------------------------------------------------------

    def _by_layers(self) -> None:
        self._work = self._on_finer
        self._judge(
            (cut, range(position, position + 1)) for position, cut in finer_cuts_apart(self._planner, self._plan)
        )
        self._work = self._on_others
        self._judge(self._local_changes())

    def _judge(self, changes: Iterable[tuple[Change, range]]) -> None:
        """Keep each change with which the layers around it, alone, take fewer cycles."""
        for change, positions in changes:
            if self._share(change, positions) < LARGE:
                continue
            here = surroundings(self._plan, positions)
            expected = sum(self._plan.choices[position].cycles for position in here)
            if not self._work.allows(expected):
                continue
            alone = self._alone(here)
            if alone is None or alone.is_near_its_least or not self._work.allows(expected):
                continue
            tried = self._try(change, here, alone.finisher)
            if tried is not None and tried.cycles is not None and tried.cycles < alone.cycles * (1 - WORTH):
                self._tiling, self._plan = tried.tiling, tried.plan
                self._known.clear()

    def _alone(self, here: range) -> _Alone | None:
        """Some layers with the best plan so far, alone; None if they do not fit. Many changes are for the same ones."""
        known = self._known.get(here)
        if known is not None:
            self._work.spend(known.instructions, known.cycles)  # as if it was not known, for the same result
            return known
        tiles, finisher = self._tiles(self._plan, here), self._finisher.alone()
        made = measured(tiles, self._options, self._work, finisher)
        if made is None:
            return None
        cycles = made.counters.cycles
        is_near = cycles * (1 - NEAR) < least_cycles(tiles)
        self._known[here] = _Alone(finisher, len(made.program.instructions), cycles, is_near)
        return self._known[here]

    def _share(self, change: Change, positions: range) -> float:
        """Of the program's cycles, those of all layers that a change is for; `positions` are the first of them."""
        alike = len(change.tiles) if isinstance(change, Cut) else 1
        return alike * sum(self._plan.choices[position].cycles for position in positions) / self._expected

    def _local_changes(self) -> Iterable[tuple[Change, range]]:
        nests, plan = self._selection.program, self._plan
        for change in inputs_off_chip(nests, plan):
            yield change, plan.live[change.tensor]
        if self._layers is not None:
            for position, cut in self._layers.cuts(self._tiling, plan):
                yield cut, range(position, position + 1)
        for position, cut in cuts_for_one_array(self._planner, plan):
            yield cut, range(position, position + 1)
        expected = [choice.cycles for choice in plan.choices]
        for position, cut in other_cuts(self._planner, plan, self._effort.kinds, expected):
            yield cut, range(position, position + 1)
        for change in others_off_chip(nests, plan):
            yield change, plan.live[change.tensor]

    # -- measuring -----------------------------------------------------------------------------------------------------

    def _tiles(self, plan: Plan, positions: range) -> TileProgram:
        return tile_part(self._selection, plan, positions, self._finisher.session)

    def _try(self, change: Change, positions: range, finisher: Finisher) -> _Tried | None:
        """A change of the best plan so far, and what some nests take with it; None where no plan fits."""
        tiling = change.apply(self._tiling)
        try:
            plan = self._planner.under(tiling).plan()
        except CompileError:
            return None
        if (plan.residency, plan.choices) == (self._plan.residency, self._plan.choices):
            return None
        if most_tiles(plan.shapes, plan.choices) > max(MOST_TILES, most_tiles(self._plan.shapes, self._plan.choices)):
            return None
        return _Tried(tiling, plan, self._measure(plan, positions, finisher))

    def _measured_alone(self, tiles: TileProgram, work: Budget) -> int | None:
        """The cycles of tiles of a layer, which are compared with nothing else."""
        return cycles_of(tiles, self._options, work, self._finisher.alone())

    def _measure(self, plan: Plan, positions: range, finisher: Finisher) -> int | None:
        """The cycles of some nests, alone and from the start; None if they do not fit."""
        return cycles_of(self._tiles(plan, positions), self._options, self._work, finisher)
