"""Windows that are too large for an instruction's reduce loops become two nests: first along rows, then down columns.

Example: the largest of 20×20 is the largest of 20 row maxima, each the largest of 20; a reduce loop of 16 iterations
runs twice over overlapping halves of a row, which is the same for a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.nest.space import NO_LOOP, walking_loops
from tilewright.compiler.select.cover import Cover
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import IDEMPOTENT, Op


def separate_windows(program: NestProgram, cover: Callable[[Nest], Cover]) -> NestProgram:
    """The same program with every window that its instruction cannot hold in two steps; others are as they were."""
    nests: list[Nest] = []
    buffers = dict(program.buffers)
    for nest in program.nests:
        window = _window(nest)
        if window is None or fits_reduce_loops(cover(nest), nest):
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
    return read, moving[2][0], moving[3][0]


def fits_reduce_loops(cover: Cover, nest: Nest) -> bool:
    """Whether every window loop fits a reduce loop of the instruction that runs it."""
    of = next(step.format for step in cover.steps if step.reduces)
    trips = sorted((loop.trip for loop in nest.loops if loop.is_reduce and loop.trip > 1), reverse=True)
    most = sorted((1 << loop.bits for loop in of.loops if loop.is_reduce), reverse=True)
    return of.has_accumulate or (
        len(trips) <= len(most) and all(trip <= room for trip, room in zip(trips, most, strict=False))
    )


def _along_rows(nest: Nest, read: str, rows: str, columns: str, buffers: dict[str, Buffer]) -> tuple[Nest, Buffer]:
    """For every row of the tensor that is read, the reduction over the columns of each window."""
    access, row_loop = nest.reads[read], f"{rows}.all"
    tensor = buffers[access.tensor]
    trips = {loop.name: loop.trip for loop in nest.loops}
    outer = [loop or NO_LOOP for loop in walking_loops(nest.result)]
    shape = (tensor.shape[0], trips.get(outer[1], 1), tensor.shape[2], trips.get(outer[3], 1))
    between = Buffer(f"{nest.name}.rows", shape, tensor.type)
    loops = [NestLoop(loop, trips[loop]) for loop in (outer[0], outer[1]) if loop]
    loops += [NestLoop(row_loop, tensor.shape[2])]
    loops += [NestLoop(outer[3], trips[outer[3]])] if outer[3] else []
    loops += [NestLoop(columns, trips[columns], is_reduce=True)]
    index = access.index
    reading = replace(access, index=(index[0], index[1], Affine(((row_loop, 1),)), index[3]))
    writing = Access(between.name, tuple(_only(loop) for loop in (outer[0], outer[1], row_loop, outer[3])))
    reduction = next(node for node in walk(nest.expr) if node.op in IDEMPOTENT)
    return Nest(between.name, nest.nodes, tuple(loops), {read: reading}, writing, reduction, 0), between


def _down_columns(nest: Nest, read: str, columns: str, between: Buffer) -> Nest:
    """The rest of the nest: the reduction over the rows of each window, and what follows it."""
    access = nest.reads[read]
    outer = [loop or NO_LOOP for loop in walking_loops(nest.result)]
    index = (access.index[0], _only(outer[1]), access.index[2], _only(outer[3]))
    reading = Access(between.name, index, access.outside)
    loops = tuple(loop for loop in nest.loops if loop.name != columns)
    return replace(nest, loops=loops, reads={**nest.reads, read: reading})


def _only(loop: str) -> Affine:
    return Affine(((loop, 1),)) if loop else Affine(())
