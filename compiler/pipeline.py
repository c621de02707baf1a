"""The whole compiler: an ONNX model in, a checked program out, by way of a table of named passes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from tilewright.compiler.columns.decide import MeasuredColumns, measured
from tilewright.compiler.emission.placed import PlacedTiles
from tilewright.compiler.errors import RAISING, Blame, CompileError, TooSmall
from tilewright.compiler.fitting import Covered, cover, fit, fit_larger
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.levels import GRAPH, Form, Source
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.pass_list import PassList, chosen, listed
from tilewright.compiler.passes import (
    COLUMNS,
    MACHINE_FROM,
    PLACED_BY,
    SIDE_BY_SIDE,
    STRIPES,
    TILED_BY,
    AnyPass,
    all_passes,
)
from tilewright.compiler.remedy import with_tried_remedy
from tilewright.compiler.running import Keep, finisher_of, run_to_program
from tilewright.compiler.search.alike import Alike
from tilewright.compiler.search.finisher import Finisher, exact_cycles
from tilewright.compiler.search.stand_in import stand_in
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.planned import without_room as nests_without_room
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
) -> Program:
    """Compile an ONNX model (path, bytes or proto) for a machine. `dump` and `keep` are given what each pass made.

    The program has passed the checker, and is the same for the same input. Raises CompileError when the model is not
    valid, needs what the machine cannot do, or does not fit; IsaError when the checker finds a fault.
    """
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return _compile(0, source, machine, options or Options(), keeping(dump, keep))


def cover_graph(
    graph: Graph,
    machine: Machine,
    options: Options | None = None,
    blame: Blame = RAISING,
    keep: Keep | None = None,
) -> Covered | None:
    """The first half of `compile_model`, from a simplified graph on; None if `blame` collected an error."""
    options = options or Options()
    return cover(passes_of(options.passes), PASSES.position(MACHINE_FROM), graph, machine, options, blame, keep)


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
    finisher, placed = finisher_of(passes, machine), max(covered.next, passes.position(PLACED_BY) + 1)
    try:
        value = fit(passes, covered, options, keep, alike or Alike(), finisher)
        if keep is None and isinstance(value, PlacedTiles):
            program = finisher.program(value, options)
        else:
            program = run_to_program(passes.passes[placed:], value, machine, options, keep)
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
    passes = passes_of(least.passes)
    if covered.sized > passes.sized_from():  # the text of a later pass is for one machine
        return error
    return with_tried_remedy(error, covered.machine, lambda larger: fit_larger(passes, covered, larger, least))


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


def compared_columns(graph: Graph, machine: Machine) -> list[MeasuredColumns]:
    """What the pass `columns` compares for a graph, with the cycles that decide."""
    return measured(graph, machine, partial(cycles_after, (SIDE_BY_SIDE, COLUMNS), (), machine))


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


def _compile(first: int, value: Form | Source, machine: Machine, options: Options, keep: Keep | None) -> Program:
    """Run the passes from position `first` on."""
    covered = cover(passes_of(options.passes), first, value, machine, options, keep=keep)
    assert covered is not None
    try:
        return compile_covered(covered, options, keep)
    except TooSmall as error:
        raise with_enough_room(error, covered, options) from error


def _nodes_of_layer(covered: Covered, layer: str) -> tuple[str, ...]:
    """The nodes of a layer; none if there is no layer of that name."""
    nests = covered.value.program.nests if isinstance(covered.value, Selection) else ()
    return next((nest.nodes for nest in nests if nest.name == layer), ())


def finisher_for(machine: Machine) -> Finisher:
    """Makes programs of tiles for a machine with the passes after tiling, and knows what it has made."""
    return finisher_of(PASSES, machine)


def finished(tiles: TileProgram, options: Options, machine: Machine) -> Program:
    """The program of tiles; raises CompileError if it does not fit."""
    passes = passes_of(options.passes)
    return run_to_program(passes.passes[passes.position(TILED_BY) + 1 :], tiles, machine, options, None)


def cycles_after(
    after: Collection[str], names: tuple[str, ...], machine: Machine, network: Graph | NestProgram
) -> int | None:
    """The exact cycles of a network by the passes after some of them, without a search; None if it has no program."""
    options, passes = Options(effort=0, passes=names, cuts_chains=False), passes_of(names)
    try:
        covered = cover(passes, passes.after(after), network, machine, options)
        assert covered is not None
        if STRIPES in after and isinstance(covered.value, Selection):
            covered = replace(covered, value=stand_in(covered.value).selection)  # what is found is kept for all weights
        placed = fit(passes, covered, options, None, Alike(), finisher_of(passes, machine))
        return exact_cycles(
            run_to_program(passes.passes[passes.position(PLACED_BY) + 1 :], placed, machine, options, None)
        )
    except CompileError:
        return None


PASSES = PassList.standard(all_passes(cycles_after))
"""Every pass, in order: its name is what `--dump-after` takes."""
