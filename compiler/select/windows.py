"""Windows that are too large for an instruction's reduce loops become two nests: first along rows, then down columns.

Example: the largest of 20×20 is the largest of 20 row maxima, each the largest of 20; a reduce loop of 16 iterations
runs twice over overlapping halves of a row, which is the same for a maximum.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.nest.space import NO_LOOP, walking_loops
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import IDEMPOTENT, Op
from tilewright.isa.machine.machine import Machine


def windows(program: NestProgram, machine: Machine, session: Session | None = None) -> NestProgram:
    """The same program, with two nests for each window that its instruction cannot hold."""
    selector = Selector(machine, program, session)
    nests: list[Nest] = []
    buffers = dict(program.buffers)
    for nest in program.nests:
        window = _window(nest)
        cover = None if window is None else selector.cover_if_possible(nest)
        if window is None or cover is None or cover.fits_reduce_loops:
            nests.append(nest)
            continue
        read, rows, columns = window
        first, between = _along_rows(nest, read, rows, columns, buffers)
        buffers[between.name] = between
        nests += [first, _down_columns(nest, read, columns, between)]
    return replace(program, nests=tuple(nests), buffers=buffers) if len(nests) > len(program.nests) else program


def _window(nest: Nest) -> tuple[str, str, str] | None:
    """The read, row loop and column loop of a maximum or minimum over a two-dimensional window."""
    reduction = next((node for node in walk(nest.expr) if node.op in IDEMPOTENT), None)
    if reduction is None or reduction.args[0].op is not Op.SOURCE:
        return None
    reduce = {loop.name for loop in nest.loops if loop.is_reduce and loop.trip > 1}
    read = reduction.args[0].name
    moving = [[name for name, _ in index.terms if name in reduce] for index in nest.reads[read].index]
    if len(reduce) != 2 or [len(names) for names in moving] != [0, 0, 1, 1]:
        return None
    return read, moving[ROW][0], moving[COLUMN][0]


def _along_rows(nest: Nest, read: str, rows: str, columns: str, buffers: dict[str, Buffer]) -> tuple[Nest, Buffer]:
    """For every row of the tensor that is read, the reduction over the columns of each window."""
    access, row_loop = nest.reads[read], f"{rows}_all"
    tensor = buffers[access.tensor]
    trips = {loop.name: loop.trip for loop in nest.loops}
    batch, lane, _, column = (loop or NO_LOOP for loop in walking_loops(nest.result))
    shape = (tensor.shape[BATCH], trips.get(lane, 1), tensor.shape[ROW], trips.get(column, 1))
    between = Buffer(f"{nest.name}.rows", shape, tensor.type)
    loops = [NestLoop(loop, trips[loop]) for loop in (batch, lane) if loop]
    loops += [NestLoop(row_loop, tensor.shape[ROW])]
    loops += [NestLoop(column, trips[column])] if column else []
    loops += [NestLoop(columns, trips[columns], is_reduce=True)]
    index = (access.index[BATCH], access.index[CHANNEL], Affine(((row_loop, 1),)), access.index[COLUMN])
    writing = Access(between.name, tuple(_only(loop) for loop in (batch, lane, row_loop, column)))
    reduction = next(node for node in walk(nest.expr) if node.op in IDEMPOTENT)
    reads = {read: replace(access, index=index)}
    return Nest(between.name, nest.nodes, tuple(loops), reads, writing, reduction, 0), between


def _down_columns(nest: Nest, read: str, columns: str, between: Buffer) -> Nest:
    """The rest of the nest: the reduction over the rows of each window, and all that follows it."""
    access = nest.reads[read]
    _, lane, _, column = (loop or NO_LOOP for loop in walking_loops(nest.result))
    index = (access.index[BATCH], _only(lane), access.index[ROW], _only(column))
    reading = Access(between.name, index, access.outside)
    loops = tuple(loop for loop in nest.loops if loop.name != columns)
    return replace(nest, loops=loops, reads={**nest.reads, read: reading})


def _only(loop: str) -> Affine:
    return Affine(((loop, 1),)) if loop else Affine(())
