"""The whole compiler: an ONNX model in, a checked program out, by way of a table of named passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tilewright.compiler.attempts import first_that_fits
from tilewright.compiler.columns.decide import Measured, measured
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import RAISING, Blame, CompileError, TooSmall
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.levels import GRAPH, Form
from tilewright.compiler.options import Options
from tilewright.compiler.pass_list import PassList, chosen, listed
from tilewright.compiler.passes import (
    COLUMNS,
    MACHINE_FROM,
    PLACED_BY,
    SIDE_BY_SIDE,
    SIZED_FROM,
    TILED_BY,
    Pass,
    all_passes,
)
from tilewright.compiler.remedy import with_tried_remedy
from tilewright.compiler.rules import BrokenRule
from tilewright.compiler.search.alike import Alike
from tilewright.compiler.search.decide import decide
from tilewright.compiler.search.finisher import Finisher, Steps, exact_cycles
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.planned import without_room as nests_without_room
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.check.checker import require_valid
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.rare_collection import rare_collection

Source = str | Path | bytes
"""A model as the first pass takes it."""

Model = Source | onnx.ModelProto
Dump = Callable[[str, str], None]
"""Called with a pass's name and the text of its result."""

Keep = Callable[[str, Form | Options], None]
"""Called with a pass's name and its result; with DECIDED and the `Options` with which the program fits."""

DECIDED = "options"
"""No pass has this name."""


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
    sizeless: Form
    next: int
    value: Form


def cover_graph(
    graph: Graph,
    machine: Machine,
    options: Options | None = None,
    blame: Blame = RAISING,
    keep: Keep | None = None,
) -> Covered | None:
    """The first half of `compile_model`, from a simplified graph on; None if `blame` collected an error."""
    return _cover(PASSES.position(MACHINE_FROM), graph, machine, options or Options(), blame, keep)


@rare_collection()
def compile_covered(
    covered: Covered, options: Options | None = None, keep: Keep | None = None, alike: Alike | None = None
) -> Program:
    """The second half of `compile_model`: sizes of tiles, places in memory, instructions.

    `alike` has what searches found for other parts of the network, and takes what one finds for this. Raises
    CompileError of the nodes of the layer at fault; TooSmall when a program does not fit.
    """
    options, machine = options or Options(), covered.machine
    if options.verifies:
        keep = keep or _ignore  # with one, every pass is run for its result, and none is left out
    passes = passes_of(options.passes)
    finisher, placed = finisher_for(machine, passes), max(covered.next, passes.position(PLACED_BY) + 1)
    try:
        value = _fit(covered, options, keep, alike or Alike(), finisher)
        if keep is None and isinstance(value, PlacedTiles):
            program = finisher.program(value)
        else:
            program = _program(passes.passes[placed:], value, machine, options, keep)
    except CompileError as error:
        error.nodes = error.nodes or _nodes_of_layer(covered, str(error.place))
        raise
    require_valid(program)
    return program


def _ignore(name: str, value: Form | Options) -> None:
    """Keeps no result."""


def with_enough_room(error: TooSmall, covered: Covered, options: Options | None = None) -> TooSmall:
    """The error with memories that would be enough: passes up to addresses succeed with them."""
    least = replace(options or Options(), effort=0)
    if covered.sized > _sized_from(passes_of(least.passes)):  # the text of a later pass is for one machine
        return error
    return with_tried_remedy(error, covered.machine, lambda larger: _fit_larger(covered, larger, least))


def without_room(covered: Covered) -> tuple[CompileError, ...]:
    """The errors of all layers that no tile fits: compiling meets only the first."""
    return nests_without_room(covered.value) if isinstance(covered.value, Selection) else ()


def resume(
    after: str, text: str, machine: Machine, options: Options | None = None, dump: Dump | None = None
) -> Program:
    """Compile from the text of a pass's result on, which may have been edited.

    The program has passed the checker. Raises CompileError for an unknown pass, and CompileError or IsaError for a
    fault of the text: the rules of its level hold for what the next pass is given.
    """
    options = options or Options()
    passes = passes_of(options.passes)
    level = passes.named(after).after
    if level is GRAPH:  # what ONNX's operators become keeps rules that theirs do not say
        options = replace(options, verifies=True)
    value = level.read(text, machine)
    with np.errstate(all="ignore"):  # sizes of 0, which the checker refuses
        program = _compile(passes.position(after) + 1, value, machine, options, keeping(dump))
    from_bytes(to_bytes(program), "the program of this text", machine)  # sizes that no file may have
    return program


def compared_columns(graph: Graph, machine: Machine) -> list[Measured]:
    """What the pass `columns` compares for a graph, with the cycles that decide."""
    return measured(graph, machine, partial(_cycles_of_graph, (), machine))


def pass_names() -> tuple[str, ...]:
    """The passes in the order in which they run, if the user says nothing else."""
    return PASSES.names()


def pass_named(name: str) -> Pass[Any, Any]:
    """The pass of a name; raises CompileError when there is none."""
    return PASSES.named(name)


def chosen_passes(text: str) -> tuple[str, ...]:
    """The passes of a user's list, as `Options.passes` has them; raises CompileError where they cannot run so."""
    names = chosen(text, PASSES)
    passes_of(names)
    return names


def passes_of(names: tuple[str, ...]) -> PassList:
    """The passes of these names; all if there are none. Raises CompileError where they cannot run so."""
    return listed(names, PASSES) if names else PASSES


def keeping(dump: Dump | None, keep: Keep | None = None) -> Keep | None:
    """One function for both; None if there is neither."""
    if dump is None:
        return keep

    def both(name: str, value: Form | Options) -> None:
        if keep is not None:
            keep(name, value)
        if name != DECIDED:
            dump(name, pass_named(name).after.print(value))

    return both


# -- running -----------------------------------------------------------------------------------------------------------


def _compile(first: int, value: Form | Source, machine: Machine, options: Options, keep: Keep | None) -> Program:
    """Run the passes from position `first` on."""
    covered = _cover(first, value, machine, options, RAISING, keep)
    assert covered is not None
    try:
        return compile_covered(covered, options, keep)
    except TooSmall as error:
        raise with_enough_room(error, covered, options) from error


def _nodes_of_layer(covered: Covered, layer: str) -> tuple[str, ...]:
    """The nodes of a layer; none if there is no layer of that name."""
    nests = covered.value.program.nests if isinstance(covered.value, Selection) else ()
    return next((nest.nodes for nest in nests if nest.name == layer), ())


@rare_collection()
def _cover(
    first: int, value: Form | Source, machine: Machine, options: Options, blame: Blame, keep: Keep | None
) -> Covered | None:
    """Run the passes from position `first` up to tiling; None as soon as `blame` collected an error."""
    passes = passes_of(options.passes)
    sized, tiled = max(first, _sized_from(passes)), max(first, passes.position(TILED_BY))
    sizeless = _run(passes.passes[first:sized], value, machine, options, keep, blame)
    if blame.faults:
        return None
    covers = _run(passes.passes[sized:tiled], sizeless, machine, options, keep, blame)
    return None if blame.faults else Covered(machine, sized, sizeless, tiled, covers)


def _fit_larger(covered: Covered, machine: Machine, options: Options) -> Form:
    """Whether it fits a machine with larger memories; raises TooSmall if not."""
    larger = _cover(covered.sized, covered.sizeless, machine, options, RAISING, None)
    assert larger is not None
    return _fit(larger, options, None, Alike(), finisher_for(machine, passes_of(options.passes)))


def _fit(covered: Covered, options: Options, keep: Keep | None, alike: Alike, finisher: Finisher) -> Form:
    """Run the passes up to addresses, with the first options that need little enough memory.

    What a search has made with `finisher` is not made again, unless `keep` is to have the results of all passes.
    """
    tiled, machine, passes = covered.next, covered.machine, passes_of(options.passes)
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
            fits = _run(passes.passes[scheduled:placed], tiles, machine, attempt, keep_last)
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
        lambda attempt: _run(passes.passes[tiled:scheduled], covered.value, machine, attempt, keep_last),
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


def finisher_for(machine: Machine, passes: PassList | None = None) -> Finisher:
    """Makes programs of tiles for a machine with the passes after tiling, and knows what it has made."""
    known = passes or PASSES

    def step(name: str) -> Callable[..., Any]:
        run = known.step(name)
        return lambda value, options=None: _run(run, value, machine, options or Options(), None)

    return Finisher(Steps(step("schedule"), step(PLACED_BY), step("waits"), step("emit")))


def finished(tiles: TileProgram, options: Options, machine: Machine) -> Program:
    """The program of tiles; raises CompileError if it does not fit."""
    passes = passes_of(options.passes)
    return _program(passes.passes[passes.position(TILED_BY) + 1 :], tiles, machine, options, None)


def _program(
    passes: Sequence[Pass[Any, Any]], value: Form, machine: Machine, options: Options, keep: Keep | None
) -> Program:
    """Run the last passes, which make a program."""
    program = _run(passes, value, machine, options, keep)
    assert isinstance(program, Program)
    return program


def _run(
    passes: Sequence[Pass[Any, Any]],
    value: Form | Source,
    machine: Machine,
    options: Options,
    keep: Keep | None,
    blame: Blame = RAISING,
) -> Form:
    """Run passes one after the other; the value is of no use once `blame` collected an error."""
    for step in passes:
        if blame.faults:
            break
        value = step.run(value, machine, options, blame)
        assert isinstance(value, step.after.value), f"{step.name} gave {type(value).__name__}"
        if options.verifies and not blame.faults:
            _require(step, value)
        if keep is not None:
            keep(step.name, value)
    assert not isinstance(value, str | Path | bytes), "no pass has read the model"
    return value


def _require(step: Pass[Any, Any], value: Form) -> None:
    """Raise CompileError if a pass gave what is not valid at its level."""
    try:
        step.after.require(value)
    except BrokenRule as broken:
        raise CompileError(f"pass {step.name}: {broken.place}", broken.fact, expected=broken.expected) from broken


def _sized_from(passes: PassList) -> int:
    """The position of the first pass that memories' sizes matter to."""
    return passes.first_of(PASSES.names()[PASSES.position(SIZED_FROM) :])


def _cycles_of_graph(names: tuple[str, ...], machine: Machine, graph: Graph) -> int | None:
    """The exact cycles of a graph whose columns stay as they are, without a search; None if it has no program."""
    options, passes = Options(effort=0, passes=names), passes_of(names)
    try:
        covered = _cover(passes.after((SIDE_BY_SIDE, COLUMNS)), graph, machine, options, RAISING, None)
        assert covered is not None
        placed = _fit(covered, options, None, Alike(), finisher_for(machine, passes))
        return exact_cycles(_program(passes.passes[passes.position(PLACED_BY) + 1 :], placed, machine, options, None))
    except CompileError:
        return None


PASSES = PassList(all_passes(_cycles_of_graph))
"""Every pass, in order: its name is what `--dump-after` takes."""
