"""The whole compiler: an ONNX model in, a checked program out, by way of a table of named passes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from tilewright.compiler.columns.columns import MeasuredColumns, measured
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import RAISING, Blame, CompileError, TooSmall
from tilewright.compiler.fitting import Covered, cover, fit, fit_larger
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.levels import GRAPH, Form, Source
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.passes import (
    COLUMNS,
    MACHINE_FROM,
    PLACED_BY,
    SIDE_BY_SIDE,
    STRIPES,
    TILED_BY,
    AnyPass,
    PassContext,
    all_passes,
)
from tilewright.compiler.remedy import with_tried_remedy
from tilewright.compiler.running import Keep, PassList, chosen, finisher_of, listed, run_to_program
from tilewright.compiler.search.finisher import Finisher, exact_cycles
from tilewright.compiler.search.stand_in import stand_in
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.session import MemoScope, Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.tile import without_room as nests_without_room
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.check.checker import require_valid
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.rare_collection import rare_collection

Model = Source | onnx.ModelProto
Dump = Callable[[str, str], None]
"""Called with a pass's name and the text of its result."""


def compile_model(
    model: Model,
    machine: Machine,
    options: Options | None = None,
    dump: Dump | None = None,
    keep: Keep | None = None,
    session: Session | None = None,
) -> Program:
    """Compile an ONNX model (path, bytes or proto) for a machine. `dump` and `keep` are given what each pass made.

    Who compiles more models or for more machines gives each the same `session`: that takes less time.

    The program has passed the checker, and is the same for the same input. Raises CompileError when the model is not
    valid, needs what the machine cannot do, or does not fit; IsaError when the checker finds a fault.
    """
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    with (session or Session()).inner(MemoScope.PROGRAM) as own:
        return _compile(0, source, PassContext(machine, options or Options(), session=own), keeping(dump, keep))


def cover_graph(
    graph: Graph,
    machine: Machine,
    options: Options | None = None,
    blame: Blame = RAISING,
    keep: Keep | None = None,
    session: Session | None = None,
) -> Covered | None:
    """The first half of `compile_model`, from a simplified graph on; None if `blame` collected an error."""
    context = PassContext(machine, options or Options(), blame, session or Session())
    return cover(passes_of(context.options.passes), PASSES.position(MACHINE_FROM), graph, context, keep)


@rare_collection()
def compile_covered(
    covered: Covered, options: Options | None = None, keep: Keep | None = None, session: Session | None = None
) -> Program:
    """The second half of `compile_model`: sizes of tiles, places in memory, instructions.

    `session` has what searches found for other parts of the network, and takes what one finds for this. Raises
    CompileError of the nodes of the layer at fault; TooSmall when a program does not fit.
    """
    options, machine = options or Options(), covered.machine
    if options.verifies:
        keep = keep or _ignore  # with one, every pass is run for its result, and none is left out
    passes = passes_of(options.passes)
    finisher = finisher_of(passes, machine, session)
    placed = max(covered.next, passes.position(PLACED_BY) + 1)
    try:
        value = fit(passes, covered, options, finisher, keep)
        if keep is None and isinstance(value, PlacedTiles):
            program = finisher.program(value, options)
        else:
            context = PassContext(machine, options, session=finisher.session)
            program = run_to_program(passes.passes[placed:], value, context, keep)
    except CompileError as error:
        error.nodes = error.nodes or _nodes_of_layer(covered, str(error.place))
        raise
    require_valid(program)
    return program


def _ignore(name: str, value: Form | Options) -> None:
    """Keeps no result."""


def with_enough_room(
    error: TooSmall, covered: Covered, options: Options | None = None, session: Session | None = None
) -> TooSmall:
    """The error with memories that would be enough: passes up to addresses succeed with them."""
    least = replace(options or Options(), effort=0)
    passes = passes_of(least.passes)
    if covered.sized > passes.sized_from():  # the text of a later pass is for one machine
        return error
    found = session or Session()

    def attempt(larger: Machine) -> Form:
        return fit_larger(passes, covered, PassContext(larger, least, session=found))

    return with_tried_remedy(error, covered.machine, attempt)


def without_room(covered: Covered, session: Session | None = None) -> tuple[CompileError, ...]:
    """The errors of all layers that no tile fits: compiling meets only the first."""
    return nests_without_room(covered.value, session) if isinstance(covered.value, Selection) else ()


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
        program = _compile(passes.position(after) + 1, value, PassContext(machine, options), keeping(dump))
    from_bytes(to_bytes(program), "the program of this text", machine)  # sizes that no file may have
    return program


def compared_columns(graph: Graph, machine: Machine) -> list[MeasuredColumns]:
    """What the pass `columns` compares for a graph, with the cycles that decide."""
    return measured(graph, machine, partial(cycles_after, (SIDE_BY_SIDE, COLUMNS), PassContext(machine, Options())))


def pass_names() -> tuple[str, ...]:
    """The passes in the order in which they run, if the user says nothing else."""
    return PASSES.names()


def pass_named(name: str) -> AnyPass:
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
        if not isinstance(value, Options):
            dump(name, pass_named(name).after.text(value))

    return both


# -- running -----------------------------------------------------------------------------------------------------------


def _compile(first: int, value: Form | Source, context: PassContext, keep: Keep | None) -> Program:
    """Run the passes from position `first` on."""
    covered = cover(passes_of(context.options.passes), first, value, context, keep)
    assert covered is not None
    try:
        return compile_covered(covered, context.options, keep, context.session)
    except TooSmall as error:
        raise with_enough_room(error, covered, context.options, context.session) from error


def _nodes_of_layer(covered: Covered, layer: str) -> tuple[str, ...]:
    """The nodes of a layer; none if there is no layer of that name."""
    nests = covered.value.program.nests if isinstance(covered.value, Selection) else ()
    return next((nest.nodes for nest in nests if nest.name == layer), ())


def finisher_for(machine: Machine, session: Session | None = None) -> Finisher:
    """Makes programs of tiles for a machine with the passes after tiling, and knows what it has made."""
    return finisher_of(PASSES, machine, session)


def finished(tiles: TileProgram, options: Options, machine: Machine) -> Program:
    """The program of tiles; raises CompileError if it does not fit."""
    passes = passes_of(options.passes)
    return run_to_program(passes.passes[passes.position(TILED_BY) + 1 :], tiles, PassContext(machine, options))


def cycles_after(after: Collection[str], context: PassContext, network: Graph | NestProgram) -> int | None:
    """The exact cycles of a network by the passes after some of them, without a search; None if it has no program."""
    passes = passes_of(context.options.passes)
    plain = Options(effort=0, passes=context.options.passes, cuts_chains=False)
    context = PassContext(context.machine, plain, session=context.session)
    try:
        covered = cover(passes, passes.after(after), network, context)
        assert covered is not None
        if STRIPES in after and isinstance(covered.value, Selection):  # what is found is kept for all weights
            covered = replace(covered, value=stand_in(covered.value, context.session).selection)
        placed = fit(passes, covered, plain, finisher_of(passes, context.machine, context.session))
        return exact_cycles(run_to_program(passes.passes[passes.position(PLACED_BY) + 1 :], placed, context))
    except CompileError:
        return None


PASSES = PassList.standard(all_passes(cycles_after))
"""Every pass, in order: its name is what `--dump-after` takes."""
