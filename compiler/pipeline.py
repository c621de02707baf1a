"""The whole compiler: an ONNX model in, a checked program out, by way of a table of named passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from tilewright.compiler.emission.allocate import Placement, allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import Waits, compute_waits
from tilewright.compiler.errors import CompileError, DoesNotFit, TooSmall
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.graph.text import parse_graph, print_graph
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.importers.onnx_import import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.batches import separate_batches
from tilewright.compiler.nest.copies import remove_copies
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.remedy import enough, larger_memory
from tilewright.compiler.select.column_sums import sum_columns
from tilewright.compiler.select.plain_sums import sum_without_weights
from tilewright.compiler.select.selector import select
from tilewright.compiler.select.text import parse_selection, print_selection
from tilewright.compiler.select.windows import separate_windows
from tilewright.compiler.simplify import simplify
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tile.text import parse_tiles, print_tiles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.check.checker import require_valid
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

Model = str | Path | bytes | onnx.ModelProto
Dump = Callable[[str, str], None]
"""Called with a pass's name and the text of its result."""


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of the compiler.

    `loads_ahead`: how many loads may move past an operation; None: what the queue holds. `shapes`: sizes of inputs
    that the model leaves open.
    """

    tiling: TilingOptions = TilingOptions()
    loads_ahead: int | None = None
    shapes: Shapes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allocated:
    """Tiles with their addresses."""

    tiles: TileProgram
    placement: Placement


@dataclass(frozen=True, slots=True)
class Ordered:
    """Tiles with their addresses and waits."""

    tiles: TileProgram
    placement: Placement
    waits: Waits


@dataclass(frozen=True, slots=True)
class Pass:
    """One step: its result's text, and how to read that text back, where it can be read."""

    name: str
    run: Callable[[Any, Machine, Options], Any]
    print: Callable[[Any], str]
    parse: Callable[[str, Machine], Any] | None = None


def compile_model(model: Model, machine: Machine, options: Options | None = None, dump: Dump | None = None) -> Program:
    """Compile an ONNX model (path, bytes or proto) for a machine.

    The program has passed the checker, and is the same for the same input. Raises CompileError when the model is not
    valid, needs what the machine cannot do, or does not fit; IsaError when the checker finds a fault.
    """
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return _run(source, 0, machine, options or Options(), dump)


def resume(
    after: str, text: str, machine: Machine, options: Options | None = None, dump: Dump | None = None
) -> Program:
    """Compile from the text of a pass's result on. Raises CompileError for a fault of the text or an unknown pass."""
    names = pass_names()
    if after not in names:
        raise CompileError(fact=f"no pass {after!r}", known=f"there are: {', '.join(names)}")
    position = names.index(after)
    parse = PASSES[position].parse
    if parse is None:
        readable = ", ".join(step.name for step in PASSES if step.parse is not None)
        raise CompileError(fact=f"the text of {after!r} cannot be read back", known=f"that of these can: {readable}")
    return _run(parse(text, machine), position + 1, machine, options or Options(), dump)


def pass_names() -> tuple[str, ...]:
    """The passes in the order in which they run."""
    return tuple(step.name for step in PASSES)


# -- running -----------------------------------------------------------------------------------------------------------


def _run(value: Any, first: int, machine: Machine, options: Options, dump: Dump | None) -> Program:
    """Run the passes from position `first` on; the tail that depends on memories is tried until it fits.

    When it does not, the error says with what memories it would: those with which the passes up to addresses succeed.
    """
    names = pass_names()
    sized, fixed, placed = (max(first, names.index(name)) for name in (SIZED_FROM, RETRIED_FROM, PLACED_BY))
    sizeless = _run_passes(PASSES[first:sized], value, machine, options, dump)
    value = _run_passes(PASSES[sized:fixed], sizeless, machine, options, dump)

    def attempt(larger: Machine) -> None:
        selected = _run_passes(PASSES[sized:fixed], sizeless, larger, options, None)
        _run_until_it_fits(_tiling_once(PASSES[fixed : placed + 1]), selected, larger, options, None)

    try:
        program: Program = _run_until_it_fits(_tiling_once(PASSES[fixed:]), value, machine, options, dump)
    except TooSmall as error:
        if first > names.index(SIZED_FROM):  # a text of tiles is of one machine
            raise
        raise error.with_remedy(_remedy(machine, error, attempt)) from error
    require_valid(program)
    return program


def _remedy(machine: Machine, error: TooSmall, attempt: Callable[[Machine], None]) -> str:
    try:
        return f"try {enough(machine, error, attempt)}"
    except CompileError as other:
        return f"larger memories alone do not help: {other}"


def _run_passes(steps: Sequence[Pass], value: Any, machine: Machine, options: Options, dump: Dump | None) -> Any:
    for step in steps:
        value = step.run(value, machine, options)
        if dump is not None:
            dump(step.name, step.print(value))
    return value


def _run_until_it_fits(steps: Sequence[Pass], value: Any, machine: Machine, options: Options, dump: Dump | None) -> Any:
    """The result of the last of the passes with the first options that fit; raises TooSmall when none do."""
    smallest: DoesNotFit | None = None
    for attempt in attempts(options):
        dumped: list[tuple[str, str]] = []
        keep = None if dump is None else lambda name, text, kept=dumped: kept.append((name, text))
        try:
            result = _run_passes(steps, value, machine, attempt, keep)
        except DoesNotFit as error:
            if smallest is None or error.needed - error.available < smallest.needed - smallest.available:
                smallest = error
            continue
        for name, text in dumped:
            assert dump is not None
            dump(name, text)
        return result
    assert smallest is not None
    raise _too_small(smallest, machine) from smallest


def _tiling_once(steps: Sequence[Pass]) -> Sequence[Pass]:
    """The same passes, where attempts that differ only in their loads share one result of tiling."""
    if not steps or steps[0].name != RETRIED_FROM:
        return steps
    run = steps[0].run
    known: dict[TilingOptions, Any] = {}

    def remembered(selection: Any, machine: Machine, options: Options) -> Any:
        if options.tiling not in known:
            known.clear()  # attempts with the same tiling follow each other
            known[options.tiling] = run(selection, machine, options)
        return known[options.tiling]

    return (replace(steps[0], run=remembered), *steps[1:])


def attempts(options: Options) -> Iterator[Options]:
    """The wanted options, then ones that need less memory: no loads ahead, nothing kept on chip, smaller tiles."""
    yield options
    yield replace(options, loads_ahead=0)
    for budget in (options.tiling.budget_fraction, options.tiling.budget_fraction / 2):
        frugal = TilingOptions(budget_fraction=budget, residency="none")
        yield replace(options, tiling=frugal)
        yield replace(options, tiling=frugal, loads_ahead=0)


def _too_small(error: DoesNotFit, machine: Machine) -> TooSmall:
    fact = f"{error.memory} needs {error.needed} words at the same time, {machine.name} has {error.available}"
    remedy = f"try --set {larger_memory(machine, error.memory, error.needed)}"
    return TooSmall(error.layer, fact, {error.memory: error.needed}, remedy)


# -- the passes --------------------------------------------------------------------------------------------------------


def _schedule(tiles: TileProgram, machine: Machine, options: Options) -> TileProgram:
    return schedule(tiles, machine.engines["load"].queue_depth if options.loads_ahead is None else options.loads_ahead)


def _allocate(tiles: TileProgram, machine: Machine, options: Options) -> Allocated:
    return Allocated(tiles, allocate(tiles))


def _order(allocated: Allocated, machine: Machine, options: Options) -> Ordered:
    return Ordered(allocated.tiles, allocated.placement, compute_waits(allocated.tiles, allocated.placement))


def _emit(ordered: Ordered, machine: Machine, options: Options) -> Program:
    metadata = {"model": ordered.tiles.name}
    return emit(ordered.tiles, ordered.placement, ordered.waits, metadata)


def _print_addresses(allocated: Allocated) -> str:
    """One line a buffer: place, first and last word, name."""
    lines = []
    for name, address in allocated.placement.addresses.items():
        buffer = allocated.tiles.buffers[name]
        lines.append(f"{buffer.place:10} {address:#8x} to {address + buffer.size:#8x}  {name}")
    return "\n".join(lines) + "\n"


def _print_waits(ordered: Ordered) -> str:
    """One line an operation: its number, mnemonic, layer, and what it waits for."""
    lines = []
    for index, (operation, wait) in enumerate(zip(ordered.tiles.operations, ordered.waits, strict=True)):
        layer = ordered.tiles.layers[operation.layer].name
        waits = ", ".join(f"{engine}={count}" for engine, count in wait.items())
        lines.append(f"{index:6} {operation.mnemonic:14} {layer:24} {f'wait({waits})' if waits else ''}".rstrip())
    return "\n".join(lines) + "\n"


def _read_graph(text: str, machine: Machine) -> Graph:
    return parse_graph(text)


def _read_nests(text: str, machine: Machine) -> NestProgram:
    return parse_nests(text)


PASSES = (
    Pass("import", lambda source, machine, options: import_onnx(source, options.shapes), print_graph, _read_graph),
    Pass("simplify", lambda graph, machine, options: simplify(graph), print_graph, _read_graph),
    Pass("lower", lambda graph, machine, options: lower(graph, machine), print_nests, _read_nests),
    Pass("batches", lambda nests, machine, options: separate_batches(nests), print_nests, _read_nests),
    Pass("copies", lambda nests, machine, options: remove_copies(nests, machine), print_nests, _read_nests),
    Pass("fuse", lambda nests, machine, options: fuse(nests), print_nests, _read_nests),
    Pass("plain-sums", lambda nests, machine, options: sum_without_weights(nests, machine), print_nests, _read_nests),
    Pass("column-sums", lambda nests, machine, options: sum_columns(nests, machine), print_nests, _read_nests),
    Pass("windows", lambda nests, machine, options: separate_windows(nests, machine), print_nests, _read_nests),
    Pass("select", lambda nests, machine, options: select(nests, machine), print_selection, parse_selection),
    Pass("tile", lambda selection, machine, options: tile(selection, options.tiling), print_tiles, parse_tiles),
    Pass("schedule", _schedule, print_tiles, parse_tiles),
    Pass("allocate", _allocate, _print_addresses),
    Pass("waits", _order, _print_waits),
    Pass("emit", _emit, disassemble),
)
"""Every pass, in order: its name is what `--dump-after` takes."""

SIZED_FROM = "select"
"""From this pass on, the sizes of memories matter."""

PLACED_BY = "allocate"
"""With this pass, everything has its place."""

RETRIED_FROM = "tile"
"""From this pass on, a program that does not fit is tried again with options that need less memory."""
