"""The compiler's passes: what each takes and gives, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from tilewright.compiler.columns.columns import columns
from tilewright.compiler.columns.side_by_side import side_by_side
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import RAISING, Blame, CompileError
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.levels import (
    COVERS,
    GRAPH,
    INSTRUCTIONS,
    MODELS,
    NESTS,
    ORDERED_TILES,
    PLACED_TILES,
    TILES,
    AnyLevel,
    Form,
    Level,
    Source,
)
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.batches import batches
from tilewright.compiler.nest.copies import copies
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.parts import parts
from tilewright.compiler.options import Options
from tilewright.compiler.search.effort import EFFORTS
from tilewright.compiler.search.known_chains import KnownChains
from tilewright.compiler.search.pace import pace
from tilewright.compiler.search.ports import ports
from tilewright.compiler.select.channel_tables import channel_tables
from tilewright.compiler.select.column_sums import column_sums
from tilewright.compiler.select.diagonals import diagonals
from tilewright.compiler.select.plain_sums import plain_sums
from tilewright.compiler.select.read_sums import read_sums
from tilewright.compiler.select.select import select
from tilewright.compiler.select.windows import windows
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.steps import SIMPLIFYING, GraphPass
from tilewright.compiler.stripes.stripes import Recall, stripes
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes are given beside their value: the machine, the user's options, who takes errors, what is known."""

    machine: Machine
    options: Options
    blame: Blame = RAISING
    session: Session = field(default_factory=Session)


CyclesOf = Callable[[Collection[str], PassContext, Graph | NestProgram], int | None]
"""The exact cycles of a network by those of the user's passes that come after all of the names; None if it has no
program. Passes that measure do nothing to it."""

SIDE_BY_SIDE, COLUMNS, STRIPES = "side-by-side", "columns", "stripes"
"""These passes measure their choices: the first two with the passes after both."""

MACHINE_FROM = SIDE_BY_SIDE
"""This pass is the first that looks at the machine."""

SIZED_FROM = "plain-sums"
"""From this pass on, the sizes of memories matter."""

TILED_BY = "tile"
"""This pass and those after it are run again, with options that need less memory, when a program does not fit."""

PLACED_BY = "allocate"
"""After this pass, every buffer has an address."""

Before = TypeVar("Before")
Before_co = TypeVar("Before_co", covariant=True)
After = TypeVar("After", bound=Form)


class PassInput(Protocol[Before_co]):
    """What a pass takes: values of a level, or models."""

    @property
    def name(self) -> str: ...

    def of(self, value: Form | Source) -> Before_co:
        """A value that is of this kind."""


@dataclass(frozen=True, slots=True)
class Pass(Generic[Before, After]):
    """One step from level to level; `before` is MODELS for the pass that reads the model itself."""

    name: str
    before: PassInput[Before]
    after: Level[After]
    run: Callable[[Before, PassContext], After]

    def apply(self, value: Form | Source, context: PassContext) -> After:
        """`run`, of a value that is known to be of the level `before` only now."""
        return self.after.of(self.run(self.before.of(value), context))


class AnyPass(Protocol):
    """A pass, whichever levels it is between."""

    @property
    def name(self) -> str: ...
    @property
    def before(self) -> PassInput[object]: ...
    @property
    def after(self) -> AnyLevel: ...

    def apply(self, value: Form | Source, context: PassContext) -> Form:
        """What the pass gives for a value, which must be of the level `before`."""


def in_order(passes: tuple[AnyPass, ...]) -> tuple[AnyPass, ...]:
    """The passes as they are; raises CompileError where one does not read what the one before it gives."""
    for earlier, later in pairwise(passes):
        given: object = earlier.after
        if later.before is not given:
            fact = f"takes {later.before.name}, and {earlier.name!r} before it gives {earlier.after.name}"
            raise CompileError(f"pass {later.name!r}", fact)
    return passes


def all_passes(cycles_of: CyclesOf) -> tuple[AnyPass, ...]:
    """Every pass, in order. Two measure their choices by the cycles of what the passes after both make of them."""

    def of_graphs(at: PassContext) -> Callable[[Graph], int | None]:
        return partial(cycles_of, (SIDE_BY_SIDE, COLUMNS), at)

    def of_nests(at: PassContext) -> Callable[[NestProgram], int | None]:
        return partial(cycles_of, (STRIPES,), at)

    def known_chains(at: PassContext) -> Recall:
        return KnownChains(at.machine, at.options, at.session).recall

    reading = Pass("import", MODELS, GRAPH, lambda source, at: import_onnx(source, at.options.shapes))
    simplifying = [Pass(step.name, GRAPH, GRAPH, _without_machine(step)) for step in SIMPLIFYING]
    rows = (  # a tuple of its own, so that the type checker compares each row with its levels
        Pass(
            SIDE_BY_SIDE, GRAPH, GRAPH,
            lambda graph, at: side_by_side(graph, at.machine, of_graphs(at)) if at.options.joins_columns else graph,
        ),
        Pass(
            COLUMNS, GRAPH, GRAPH,
            lambda graph, at: columns(graph, at.machine, of_graphs(at)) if at.options.joins_columns else graph,
        ),
        Pass("lower", GRAPH, NESTS, lambda graph, at: lower(graph, at.machine, at.blame)),
        Pass("batches", NESTS, NESTS, lambda nests, at: batches(nests)),
        Pass("copies", NESTS, NESTS, lambda nests, at: copies(nests, at.machine)),
        Pass("fuse", NESTS, NESTS, lambda nests, at: fuse(nests)),
        Pass("plain-sums", NESTS, NESTS, lambda nests, at: plain_sums(nests, at.machine, at.session)),
        Pass("diagonals", NESTS, NESTS, lambda nests, at: diagonals(nests, at.machine, at.session)),
        Pass("channel-tables", NESTS, NESTS, lambda nests, at: channel_tables(nests, at.machine, at.session)),
        Pass("column-sums", NESTS, NESTS, lambda nests, at: column_sums(nests, at.machine, at.session)),
        Pass("windows", NESTS, NESTS, lambda nests, at: windows(nests, at.machine, at.session)),
        Pass("read-sums", NESTS, NESTS, lambda nests, at: read_sums(nests, at.machine, at.session)),
        Pass("parts", NESTS, NESTS, lambda nests, at: parts(nests, at.machine)),
        Pass(
            STRIPES, NESTS, NESTS,
            lambda nests, at: (
                stripes(nests, at.machine, of_nests(at), known_chains(at), at.options.effort, at.session)
                if at.options.cuts_chains
                else nests
            ),
        ),
        Pass("select", NESTS, COVERS, lambda nests, at: select(nests, at.machine, at.blame, at.session)),
        Pass("tile", COVERS, TILES, lambda covers, at: tile(covers, at.options.tiling, at.session)),
        Pass(
            "schedule", TILES, TILES,
            lambda tiles, at: schedule(tiles, at.options.ahead, at.options.in_order, at.options.tiling.arrays),
        ),
        Pass("allocate", TILES, PLACED_TILES, lambda tiles, at: allocate(tiles)),
        Pass("waits", PLACED_TILES, ORDERED_TILES, lambda placed, at: waits(placed)),
        Pass("pace", ORDERED_TILES, ORDERED_TILES, lambda ordered, at: pace(ordered)),
        Pass(
            "ports", ORDERED_TILES, ORDERED_TILES,
            lambda ordered, at: ports(ordered, EFFORTS[at.options.effort].runs),
        ),
        Pass("emit", ORDERED_TILES, INSTRUCTIONS, lambda ordered, at: emit(ordered)),
    )  # fmt: skip
    return in_order((reading, *simplifying, *rows))


def _without_machine(step: GraphPass) -> Callable[[Graph, PassContext], Graph]:
    return lambda graph, at: step.run(graph, at.blame, at.session)
