"""The whole compiler: an ONNX model in, a checked program out, by way of a table of named passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import onnx

from tilewright.compiler.attempts import first_that_fits
from tilewright.compiler.columns.decide import Measured, join_columns, measured
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles, place
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import compute_waits
from tilewright.compiler.errors import RAISING, Blame, CompileError, TooSmall
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.onnx_import import import_onnx
from tilewright.compiler.levels import (
    COVERS,
    GRAPH,
    INSTRUCTIONS,
    NESTS,
    ORDERED_TILES,
    PLACED_TILES,
    TILES,
    Level,
)
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.batches import separate_batches
from tilewright.compiler.nest.copies import remove_copies
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.parts import leave_inputs_in_place
from tilewright.compiler.options import Options
from tilewright.compiler.remedy import with_tried_remedy
from tilewright.compiler.search.alike import Alike
from tilewright.compiler.search.decide import decide
from tilewright.compiler.search.finisher import Finisher, exact_cycles
from tilewright.compiler.select.channel_tables import look_up
from tilewright.compiler.select.column_sums import sum_columns
from tilewright.compiler.select.diagonals import sum_own_channels
from tilewright.compiler.select.plain_sums import sum_without_weights
from tilewright.compiler.select.read_sums import read_sums
from tilewright.compiler.select.selector import select
from tilewright.compiler.select.windows import separate_windows
from tilewright.compiler.simplify import simplify
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.check.checker import require_valid
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import MODEL, Program
from tilewright.isa.rare_collection import rare_collection

Model = str | Path | bytes | onnx.ModelProto
Dump = Callable[[str, str], None]
"""Called with a pass's name and the text of its result."""

Keep = Callable[[str, Any], None]
"""Called with a pass's name and its result; with DECIDED and the `Options` with which the program fits."""

DECIDED = "options"
"""No pass has this name."""

UNSOUND = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)
"""The exceptions with which a pass fails on a value that no earlier pass could give."""

Before = TypeVar("Before")
After = TypeVar("After")


@dataclass(frozen=True, slots=True)
class Pass(Generic[Before, After]):
    """One step from level to level; `before` is None for the pass that reads the model itself."""

    name: str
    before: Level[Before] | None
    after: Level[After]
    run: Callable[[Before, Machine, Options, Blame], After]


def compile_model(
    model: Model,
    machine: Machine,
    options: Options | None = None,
    dump: Dump | None = None,
    keep: Keep | None = None,
) -> Program:
    """Compile an ONNX model (path, bytes or proto) for a machine. `dump` and `keep` are given what each pass made.

    The program has passed the checker, and is the same for the same input. Raises CompileError when the model is not
    valid, needs what the machine cannot do, or does not fit; IsaError when the checker finds a fault.
    """
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return _compile(0, source, machine, options or Options(), keeping(dump, keep))


@dataclass(frozen=True)
class Covered:
    """A network of which the next pass is `next`; up to `TILED_BY`, every nest has instructions of the machine.

    `sizeless` is what it was before pass `sized`, the first that memories' sizes matter to: with other sizes, the
    passes from there on are run again.
    """

    machine: Machine
    sized: int
    sizeless: Any
    next: int
    value: Any


def cover_graph(
    graph: Graph,
    machine: Machine,
    options: Options | None = None,
    blame: Blame = RAISING,
    keep: Keep | None = None,
) -> Covered | None:
    """The first half of `compile_model`, from a simplified graph on; None if `blame` collected an error."""
    return _cover(_position(MACHINE_FROM), graph, machine, options or Options(), blame, keep)


@rare_collection()
def compile_covered(
    covered: Covered, options: Options | None = None, keep: Keep | None = None, alike: Alike | None = None
) -> Program:
    """The second half of `compile_model`: sizes of tiles, places in memory, instructions.

    `alike` has what searches found for other parts of the network, and takes what one finds for this. A program that
    does not fit is refused with memories that would be enough: passes up to addresses succeed with them.
    """
    options, machine = options or Options(), covered.machine
    finisher, placed = finisher_for(machine), max(covered.next, _position(PLACED_BY) + 1)
    try:
        value = _fit(covered, options, keep, alike or Alike(), finisher)
    except TooSmall as error:
        if covered.sized > _position(SIZED_FROM):  # the text of a later pass is for one machine
            raise
        least = replace(options, effort=0)
        raise with_tried_remedy(error, machine, lambda larger: _fit_larger(covered, larger, least)) from error
    program: Program | None = finisher.known(value) if keep is None else None
    if program is None:
        program = _run(PASSES[placed:], value, machine, options, keep)
    require_valid(program)
    return program


def resume(
    after: str, text: str, machine: Machine, options: Options | None = None, dump: Dump | None = None
) -> Program:
    """Compile from the text of a pass's result on, which may have been edited.

    The program has passed the checker. Raises CompileError for an unknown pass, and CompileError or IsaError for a
    fault of the text.
    """
    level = pass_named(after).after
    try:
        value = level.parse(text, machine)
        return _compile(_position(after) + 1, value, machine, options or Options(), keeping(dump))
    except UNSOUND as fault:
        # A pass relies on what the passes before it promise, and an edited text need not keep that.
        reason = f"{type(fault).__name__}: {fault}"
        raise CompileError(f"no pass gives what this text says, and none can go on from it ({reason})") from fault


def compared_columns(graph: Graph, machine: Machine) -> list[Measured]:
    """What the pass `columns` compares for a graph, with the cycles that decide."""
    return measured(graph, machine, partial(_cycles_of_graph, machine))


def pass_names() -> tuple[str, ...]:
    """The passes in the order in which they run."""
    return tuple(step.name for step in PASSES)


def pass_named(name: str) -> Pass[Any, Any]:
    """The pass of a name; raises CompileError when there is none."""
    for step in PASSES:
        if step.name == name:
            return step
    raise CompileError(f"no pass {name!r}; there are: {', '.join(pass_names())}")


def keeping(dump: Dump | None, keep: Keep | None = None) -> Keep | None:
    """One function for both; None if there is neither."""
    if dump is None:
        return keep

    def both(name: str, value: Any) -> None:
        if keep is not None:
            keep(name, value)
        if name != DECIDED:
            dump(name, pass_named(name).after.print(value))

    return both


# -- running -----------------------------------------------------------------------------------------------------------


def _compile(first: int, value: Any, machine: Machine, options: Options, keep: Keep | None) -> Program:
    """Run the passes from position `first` on."""
    covered = _cover(first, value, machine, options, RAISING, keep)
    assert covered is not None
    return compile_covered(covered, options, keep)


@rare_collection()
def _cover(
    first: int, value: Any, machine: Machine, options: Options, blame: Blame, keep: Keep | None
) -> Covered | None:
    """Run the passes from position `first` up to tiling; None as soon as `blame` collected an error."""
    sized, tiled = max(first, _position(SIZED_FROM)), max(first, _position(TILED_BY))
    sizeless = _run(PASSES[first:sized], value, machine, options, keep, blame)
    if blame.faults:
        return None
    covers = _run(PASSES[sized:tiled], sizeless, machine, options, keep, blame)
    return None if blame.faults else Covered(machine, sized, sizeless, tiled, covers)


def _fit_larger(covered: Covered, machine: Machine, options: Options) -> Any:
    """Whether it fits a machine with larger memories; raises TooSmall if not."""
    larger = _cover(covered.sized, covered.sizeless, machine, options, RAISING, None)
    assert larger is not None
    return _fit(larger, options, None, Alike(), finisher_for(machine))


def _fit(covered: Covered, options: Options, keep: Keep | None, alike: Alike, finisher: Finisher) -> Any:
    """Run the passes up to addresses, with the first options that need little enough memory.

    What a search has made with `finisher` is not made again, unless `keep` is to have the results of all passes.
    """
    tiled, machine = covered.next, covered.machine
    scheduled, placed = (max(tiled, position + 1) for position in (_position(TILED_BY), _position(PLACED_BY)))
    options = replace(options, cuts=alike.cuts)
    decision = decide(covered.value, tiled > _position(TILED_BY) + 1, options, finisher, alike)
    fitting: list[Options] = []
    results: dict[str, Any] = {}  # those of an attempt replace those of the attempt before
    keep_last = None if keep is None else results.__setitem__

    def place(tiles: Any, attempt: Options) -> Any:
        if keep is None and scheduled == _position(TILED_BY) + 1:
            placed_tiles = finisher.place(tiles, attempt)
        else:
            placed_tiles = _run(PASSES[scheduled:placed], tiles, machine, attempt, keep_last)
        fitting.append(attempt)
        return placed_tiles

    result = first_that_fits(
        machine,
        decision.options,
        lambda attempt: _run(PASSES[tiled:scheduled], covered.value, machine, attempt, keep_last),
        place,
        lambda tiles, attempt: decision.ahead(tiles, attempt, finisher),
    )
    decision.remember(fitting[-1])
    if keep is not None:
        keep(DECIDED, fitting[-1])
        for name, value in results.items():
            keep(name, value)
    return result


def finisher_for(machine: Machine) -> Finisher:
    """Makes programs of tiles for a machine with the passes after tiling, and knows what it has made."""

    def passes(first: str, last: str) -> Callable[[Any, Options], Any]:
        run = PASSES[_position(first) : _position(last) + 1]
        return lambda value, options: _run(run, value, machine, options, None)

    return Finisher(passes("schedule", "schedule"), passes("allocate", PLACED_BY), passes("waits", "emit"))


def finished(tiles: TileProgram, options: Options, machine: Machine) -> Program:
    """The program of tiles; raises CompileError if it does not fit."""
    program: Program = _run(PASSES[_position(TILED_BY) + 1 :], tiles, machine, options, None)
    return program


def _run(
    passes: Sequence[Pass[Any, Any]],
    value: Any,
    machine: Machine,
    options: Options,
    keep: Keep | None,
    blame: Blame = RAISING,
) -> Any:
    """Run passes one after the other; the value is of no use once `blame` collected an error."""
    for step in passes:
        if blame.faults:
            break
        value = step.run(value, machine, options, blame)
        assert isinstance(value, step.after.value), f"{step.name} gave {type(value).__name__}"
        if keep is not None:
            keep(step.name, value)
    return value


def _position(name: str) -> int:
    return pass_names().index(name)


# -- the passes --------------------------------------------------------------------------------------------------------


def in_order(passes: tuple[Pass[Any, Any], ...]) -> tuple[Pass[Any, Any], ...]:
    """The passes as they are; raises ValueError where one does not read what the one before it gives."""
    for earlier, later in pairwise(passes):
        if later.before is not earlier.after:
            takes = "a model" if later.before is None else later.before.name
            gives = earlier.after.name
            raise ValueError(f"pass {later.name!r} takes {takes}; {earlier.name!r} before it gives {gives}")
    return passes


def _import(source: str | Path | bytes, machine: Machine, options: Options, blame: Blame) -> Graph:
    return import_onnx(source, options.shapes)


def _join_columns(graph: Graph, machine: Machine, options: Options, blame: Blame) -> Graph:
    return join_columns(graph, machine, partial(_cycles_of_graph, machine)) if options.joins_columns else graph


def _cycles_of_graph(machine: Machine, graph: Graph) -> int | None:
    """The exact cycles of a graph whose columns stay as they are, without a search; None if it has no program."""
    options = Options(effort=0)
    try:
        covered = _cover(_position(COLUMNS) + 1, graph, machine, options, RAISING, None)
        assert covered is not None
        placed = _fit(covered, options, None, Alike(), finisher_for(machine))
        return exact_cycles(_run(PASSES[_position(PLACED_BY) + 1 :], placed, machine, options, None))
    except CompileError:
        return None


def _schedule(tiles: TileProgram, machine: Machine, options: Options, blame: Blame) -> TileProgram:
    return schedule(tiles, options.ahead, options.in_order)


def _allocate(tiles: TileProgram, machine: Machine, options: Options, blame: Blame) -> PlacedTiles:
    return place(tiles)


def _order(placed: PlacedTiles, machine: Machine, options: Options, blame: Blame) -> OrderedTiles:
    return OrderedTiles(placed.tiles, placed.placement, compute_waits(placed.tiles, placed.placement))


def _emit(ordered: OrderedTiles, machine: Machine, options: Options, blame: Blame) -> Program:
    return emit(ordered.tiles, ordered.placement, ordered.waits, {**ordered.tiles.remarks, MODEL: ordered.tiles.name})


_ROWS = (  # a tuple of its own, so that the type checker compares each row with its levels
    Pass("import", None, GRAPH, _import),
    Pass("simplify", GRAPH, GRAPH, lambda graph, machine, options, blame: simplify(graph, blame)),
    Pass("columns", GRAPH, GRAPH, _join_columns),
    Pass("lower", GRAPH, NESTS, lambda graph, machine, options, blame: lower(graph, machine, blame)),
    Pass("batches", NESTS, NESTS, lambda nests, machine, options, blame: separate_batches(nests)),
    Pass("copies", NESTS, NESTS, lambda nests, machine, options, blame: remove_copies(nests, machine)),
    Pass("fuse", NESTS, NESTS, lambda nests, machine, options, blame: fuse(nests)),
    Pass("plain-sums", NESTS, NESTS, lambda nests, machine, options, blame: sum_without_weights(nests, machine)),
    Pass("diagonals", NESTS, NESTS, lambda nests, machine, options, blame: sum_own_channels(nests, machine)),
    Pass("channel-tables", NESTS, NESTS, lambda nests, machine, options, blame: look_up(nests, machine)),
    Pass("column-sums", NESTS, NESTS, lambda nests, machine, options, blame: sum_columns(nests, machine)),
    Pass("windows", NESTS, NESTS, lambda nests, machine, options, blame: separate_windows(nests, machine)),
    Pass("read-sums", NESTS, NESTS, lambda nests, machine, options, blame: read_sums(nests, machine)),
    Pass("parts", NESTS, NESTS, lambda nests, machine, options, blame: leave_inputs_in_place(nests, machine)),
    Pass("select", NESTS, COVERS, lambda nests, machine, options, blame: select(nests, machine, blame)),
    Pass(
        "tile", COVERS, TILES, lambda selection, machine, options, blame: tile(selection, options.tiling, options.cuts)
    ),
    Pass("schedule", TILES, TILES, _schedule),
    Pass("allocate", TILES, PLACED_TILES, _allocate),
    Pass("waits", PLACED_TILES, ORDERED_TILES, _order),
    Pass("emit", ORDERED_TILES, INSTRUCTIONS, _emit),
)

PASSES = in_order(_ROWS)
"""Every pass, in order: its name is what `--dump-after` takes."""

COLUMNS = "columns"
"""This pass measures its choices with the passes after it."""

MACHINE_FROM = COLUMNS
"""This pass is the first that looks at the machine."""

SIZED_FROM = "plain-sums"
"""From this pass on, the sizes of memories matter."""

TILED_BY = "tile"
"""This pass and those after it are run again, with options that need less memory, when a program does not fit."""

PLACED_BY = "allocate"
"""After this pass, every buffer has an address."""
