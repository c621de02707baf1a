"""Which passes run again, and with which options, until a program fits: up to tiling once, then up to addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tilewright.compiler.attempts import first_that_fits
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.levels import Form, Source
from tilewright.compiler.options import Options
from tilewright.compiler.passes import PLACED_BY, TILED_BY, PassContext
from tilewright.compiler.running import DECIDED, Keep, PassList, finisher_of, run
from tilewright.compiler.search.decide import PLANS, Decision, FoundPlan, decide, search_anew
from tilewright.compiler.search.finisher import Finisher, exact_cycles
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.machine.machine import Machine
from tilewright.isa.rare_collection import rare_collection


@dataclass(frozen=True)
class Covered:
    """A network of which the next pass is `next`; up to `TILED_BY`, every nest has instructions of the machine.

    `sizeless` is what it was before pass `sized`, the first that memories' sizes matter to: with other sizes, the
    passes from there on are run again.
    """

    machine: Machine
    sized: int
    sizeless: Form
    next: int
    value: Form


@rare_collection()
def cover(
    passes: PassList,
    first: int,
    value: Form | Source,
    context: PassContext,
    keep: Keep | None = None,
) -> Covered | None:
    """Run the passes from position `first` up to tiling; None as soon as the context's blame collected an error."""
    sized, tiled = max(first, passes.sized_from()), max(first, passes.position(TILED_BY))
    sizeless = run(passes.passes[first:sized], value, context, keep)
    if context.blame.faults:
        return None
    covers = run(passes.passes[sized:tiled], sizeless, context, keep)
    return None if context.blame.faults else Covered(context.machine, sized, sizeless, tiled, covers)


def fit(passes: PassList, covered: Covered, options: Options, finisher: Finisher, keep: Keep | None = None) -> Form:
    """Run the passes up to addresses, with the first options that need little enough memory.

    What a search has made with `finisher` is not made again, unless `keep` is to have the results of all passes. A
    record that is not as good as it says is searched for anew, and a remark says so.
    """
    fitter = _Fitter(passes, covered, keep is not None, finisher)
    decision = decide(covered.value, covered.next > passes.position(TILED_BY) + 1, options, finisher)
    made = fitter.fitted(decision)
    fault = decision.fault(made.options, partial(fitter.cycles, made))
    if fault and decision.known is not None:
        decision, made = _anew(fitter, decision, made, fault, options)
    decision.keep(partial(fitter.cycles, made))
    if decision.known is not None and decision.tuning is not None:
        plan = FoundPlan(decision.tuning, partial(fitter.arrangement, made))
        finisher.session.keep(PLANS, decision.known.subject.key, plan)
    if keep is not None:
        keep(DECIDED, made.options)
        for name, value in made.results.items():
            keep(name, value)
    return made.result


def _anew(fitter: _Fitter, recorded: Decision, made: _Fitted, fault: str, options: Options) -> tuple[Decision, _Fitted]:
    """What a search finds in the place of a record; the record, with what it takes now, where that is better."""
    assert recorded.known is not None and recorded.tuning is not None
    remedy = "compile once without --fail-on-miss, or put the record right"
    found = search_anew(recorded.known, options, fitter.finisher, fault, remedy)
    other = fitter.fitted(found)
    is_better = made.options.tiling == recorded.options.tiling and fitter.cycles(made) < fitter.cycles(other)
    if is_better:
        found, other = replace(recorded, is_new=True), made
    fate = "nothing better was found" if is_better else "it was searched for anew"
    return found, other.with_remark(f"{fault}: {fate}")


@dataclass(frozen=True)
class _Fitted:
    """What a decision gave: tiles, what came of them, with which options, and the results of the passes if asked."""

    tiles: Form
    result: Form
    options: Options
    results: Mapping[str, Form | Options]

    def with_remark(self, remark: str) -> _Fitted:
        """The same, with a remark about its tuning."""
        if not isinstance(self.result, PlacedTiles):
            return self
        return replace(self, result=replace(self.result, tiles=self.result.tiles.with_remarks({"tuning": remark})))


class _Fitter:
    """Runs the passes up to addresses for one decision after the other."""

    def __init__(self, passes: PassList, covered: Covered, keeps_results: bool, finisher: Finisher) -> None:
        self.finisher = finisher
        self._passes, self._covered, self._keeps_results = passes, covered, keeps_results
        ready = passes.position(TILED_BY) + 1
        self._scheduled, self._placed = max(covered.next, ready), max(covered.next, passes.position(PLACED_BY) + 1)
        self._is_tiled_here = self._scheduled == ready

    def fitted(self, decision: Decision) -> _Fitted:
        """What comes of the first options that fit. Raises CompileError."""
        self.finisher.follow(decision.arrangement)
        covered, passes, fitting = self._covered, self._passes.passes, list[tuple[Form, Options]]()
        results: dict[str, Form | Options] = {}  # those of an attempt replace those of the attempt before
        keep = results.__setitem__ if self._keeps_results else None

        def tile(attempt: Options) -> Form:
            return run(passes[covered.next : self._scheduled], covered.value, self._context(attempt), keep)

        def place(tiles: Form, attempt: Options) -> Form:
            fits: Form
            if keep is None and self._is_tiled_here and isinstance(tiles, TileProgram):
                fits = self.finisher.place(tiles, attempt)
            else:
                fits = run(passes[self._scheduled : self._placed], tiles, self._context(attempt), keep)
            fitting.append((tiles, attempt))
            return fits

        def ahead(tiles: Form, attempt: Options) -> Ahead:
            return decision.ahead(tiles, attempt, self.finisher)

        result = first_that_fits(covered.machine, decision.options, tile, place, ahead)
        return _Fitted(fitting[-1][0], result, fitting[-1][1], results)

    def _context(self, options: Options) -> PassContext:
        return PassContext(self._covered.machine, options, session=self.finisher.session)

    def cycles(self, made: _Fitted) -> int:
        """The exact cycles of the program."""
        assert isinstance(made.result, PlacedTiles)
        return exact_cycles(self.finisher.program(made.result, made.options))

    def arrangement(self, made: _Fitted) -> Arrangement | None:
        """The arrangement of the program; None if the results of passes are kept, which all have to run."""
        tiles, result = made.tiles, made.result
        if self._keeps_results or not isinstance(tiles, TileProgram) or not isinstance(result, PlacedTiles):
            return None
        return Arrangement.of(tiles, made.options.tiling.arrays, made.options.ahead, self.finisher.order(result))


def fit_larger(passes: PassList, covered: Covered, context: PassContext) -> Form:
    """What fits a machine with larger memories, that of the context; raises TooSmall if nothing does."""
    larger = cover(passes, covered.sized, covered.sizeless, context)
    assert larger is not None
    return fit(passes, larger, context.options, finisher_of(passes, context.machine, context.session))
