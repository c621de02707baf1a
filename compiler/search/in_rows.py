"""Cuts nests that need all channels of a pixel, a softmax or a normalisation, in the rows of the products around them.

With tiles over channels, such a nest waits for the last tile of the product before it, and the product behind it for
all of the nest: meanwhile the array stands still. Cut in the same rows, with pixels outside and channels inside, the
nest works on the first rows while the array is at the next ones. One of the three alone in rows gains nothing, so all
of a network are cut at once. What layers save by it alone says little, too: all over the program they use ports for
longer, so that each program is judged whole, with buffers in their last places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Mix
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.options import Options
from tilewright.compiler.search.changes import Cut
from tilewright.compiler.search.effort import EFFORTS, Budget
from tilewright.compiler.search.finisher import Finisher
from tilewright.compiler.search.measure import measured
from tilewright.compiler.select.cover import Cover, Selection
from tilewright.compiler.tiling.options import TileSizes
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import planner_of, tile_part

WORTH = 0.01
"""The least share of the program's cycles that rows must save: about as much as other changes would save without."""

NEAR = 4
"""Products are around a nest if at most so many nests lie between, such as those of other heads."""


@dataclass(frozen=True, slots=True)
class PixelCuts:
    """Into how many pieces of pixels products are cut, and what lies between them."""

    products: int
    between: int


WAYS = (PixelCuts(3, 3), PixelCuts(2, 2), PixelCuts(3, 6))
"""In the order in which they are tried."""


def search_rows(selection: Selection, options: Options, finisher: Finisher) -> Options:
    """The options with tiles in rows, and with the order of layers that is best for these; the same if none pays."""
    if not any(map(_crosses, selection.covers)):
        return options
    try:
        return _best(selection, options, finisher)
    except CompileError:  # the first plan does not fit: other searches try smaller ones
        return options


def _best(selection: Selection, options: Options, finisher: Finisher) -> Options:
    planner = planner_of(selection, options.tiling, finisher.session)
    plan, work = planner.plan(), Budget(EFFORTS[options.effort].rows)
    cuts, expected = list(in_rows(planner, plan)), sum(choice.cycles for choice in plan.choices)
    if not cuts or not work.allows(2 * expected):
        return options
    balanced = replace(options, ahead=replace(options.ahead, mix=Mix.BALANCED))
    orders = (options, balanced) if options.ahead == EVERYTHING_AHEAD else (options,)
    tried = [replace(order, tiling=cut.apply(options.tiling)) for order in orders for cut in cuts]
    best, least = options, _settled(selection, planner, options, work, finisher) * (1 - WORTH)
    for attempt in tried:
        if work.allows(expected):
            try:
                cycles = _settled(selection, planner, attempt, work, finisher)
            except CompileError:
                continue
            best, least = (attempt, cycles) if cycles < least else (best, least)
    return best


def _settled(selection: Selection, planner: Planner, options: Options, work: Budget, finisher: Finisher) -> int:
    """The cycles of the program with buffers in their last places; raises CompileError if it does not fit."""
    plan = planner.under(options.tiling).plan()
    tiles = tile_part(selection, plan, range(len(plan.choices)), finisher.session)
    made = measured(tiles, options, work, finisher)
    if made is None:
        raise CompileError(fact="the tiles fit in no order")
    work.spend(len(made.program.instructions), made.counters.cycles)
    return finisher.settled_cycles(made, options)


def in_rows(planner: Planner, plan: Plan) -> Iterator[Cut]:
    """All such nests and the products around them in the same rows, in each way; none where there is no such nest.

    The products before a nest get the cheapest tiles, those behind it the fewest, of which a row of tiles is done in
    few instructions.
    """
    crossing = [at for at, shape in enumerate(plan.shapes) if _crosses(shape.cover)]
    for way in WAYS if crossing else ():
        tiles: dict[str, TileSizes] = {}
        for position in crossing:
            before, behind = _products_around(planner, plan, position)
            wanted = [*((at, way.products, False) for at in before), *((at, way.products, True) for at in behind)]
            for at, pieces, of_fewest in [*wanted, (position, way.between, False)]:
                choice = planner.candidates(at, plan.residency).in_pieces(pieces, of_fewest)
                if choice is not None:
                    tiles[plan.shapes[at].cover.nest.name] = choice.as_wanted
        yield Cut(tiles)


def _crosses(cover: Cover) -> bool:
    """Whether a nest computes something that is the same for all channels of a pixel, from all of them."""
    return cover.space.across != NO_LOOP


def _products_around(planner: Planner, plan: Plan, position: int) -> tuple[list[int], list[int]]:
    """The products near a nest whose results it reads, and those that read its own."""
    nest, program = plan.shapes[position].cover.nest, planner.selection.program
    read = {access.tensor for access in nest.reads.values()}
    before = [at for at in range(max(0, position - NEAR), position) if plan.shapes[at].cover.nest.result.tensor in read]
    behind = [at for at in program.positions_of_readers.get(nest.result.tensor, ()) if at <= position + NEAR]
    return [at for at in before if _is_product(plan, at)], [at for at in behind if _is_product(plan, at)]


def _is_product(plan: Plan, position: int) -> bool:
    return plan.shapes[position].cover.dot is not None and position not in plan.within
