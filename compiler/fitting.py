"""Which passes run again, and with which options, until a program fits: up to tiling once, then up to addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.compiler.attempts import first_that_fits
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.levels import Form, Source
from tilewright.compiler.options import Options
from tilewright.compiler.pass_list import PassList
from tilewright.compiler.passes import PLACED_BY, TILED_BY
from tilewright.compiler.running import DECIDED, Keep, finisher_of, run
from tilewright.compiler.search.alike import Alike
from tilewright.compiler.search.decide import decide
from tilewright.compiler.search.finisher import Finisher
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
    machine: Machine,
    options: Options,
    blame: Blame = RAISING,
    keep: Keep | None = None,
) -> Covered | None:
    """Run the passes from position `first` up to tiling; None as soon as `blame` collected an error."""
    sized, tiled = max(first, passes.sized_from()), max(first, passes.position(TILED_BY))
    sizeless = run(passes.passes[first:sized], value, machine, options, keep, blame)
    if blame.faults:
        return None
    covers = run(passes.passes[sized:tiled], sizeless, machine, options, keep, blame)
    return None if blame.faults else Covered(machine, sized, sizeless, tiled, covers)


def fit(
    passes: PassList, covered: Covered, options: Options, keep: Keep | None, alike: Alike, finisher: Finisher
) -> Form:
    """Run the passes up to addresses, with the first options that need little enough memory.

    What a search has made with `finisher` is not made again, unless `keep` is to have the results of all passes.
    """
    tiled, machine = covered.next, covered.machine
    ready = passes.position(TILED_BY) + 1
    scheduled, placed = max(tiled, ready), max(tiled, passes.position(PLACED_BY) + 1)
    options = replace(options, planned=alike.planned)
    decision = decide(covered.value, tiled > ready, options, finisher, alike)
    finisher.follow(decision.arrangement)
    fitting: list[tuple[Form, Options]] = []
    results: dict[str, Form | Options] = {}  # those of an attempt replace those of the attempt before
    keep_last = None if keep is None else results.__setitem__

    def place(tiles: Form, attempt: Options) -> Form:
        fits: Form
        if keep is None and scheduled == ready and isinstance(tiles, TileProgram):
            fits = finisher.place(tiles, attempt)
        else:
            fits = run(passes.passes[scheduled:placed], tiles, machine, attempt, keep_last)
        fitting.append((tiles, attempt))
        return fits

    def arrangement() -> Arrangement | None:
        tiles, attempt = fitting[-1]
        if keep is not None or not isinstance(tiles, TileProgram) or not isinstance(result, PlacedTiles):
            return None
        return Arrangement.of(tiles, attempt.ahead, finisher.order(result))

    result = first_that_fits(
        machine,
        decision.options,
        lambda attempt: run(passes.passes[tiled:scheduled], covered.value, machine, attempt, keep_last),
        place,
        lambda tiles, attempt: decision.ahead(tiles, attempt, finisher),
    )
    fitting_options = fitting[-1][1]
    decision.remember(fitting_options, arrangement)
    if keep is not None:
        keep(DECIDED, fitting_options)
        for name, value in results.items():
            keep(name, value)
    return result


def fit_larger(passes: PassList, covered: Covered, machine: Machine, options: Options) -> Form:
    """What fits a machine with larger memories; raises TooSmall if nothing does."""
    larger = cover(passes, covered.sized, covered.sizeless, machine, options)
    assert larger is not None
    return fit(passes, larger, options, None, Alike(), finisher_of(passes, machine))
