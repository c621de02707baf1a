"""Splits buffers whose batches are copied one by one, and the nests that use them: one of each for every batch.

Level 2 to level 2, so that `compiler.nest.copies` may let the copies go. Example, the queries of 4 heads: copied from 4
ranges of the channels of a convolution's result to the 4 batches of a buffer, which a product for all heads reads. With
a buffer and a product for each head, each copy is of a whole buffer, each product reads where the convolution wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tilewright.compiler.graph.graph import BATCH
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.isa.language.operations import Op

MOST_BATCHES = 64
"""A buffer with more batches is not split: every batch costs a nest to store and to start."""


def batches(program: NestProgram) -> NestProgram:
    """The program with such buffers split into one for each batch; it computes the same."""
    while (buffer := _next_to_separate(program)) is not None:
        program = _with_split(program, buffer)
    return program


def _next_to_separate(program: NestProgram) -> Buffer | None:
    """A buffer that can be split, if there is one; splitting it may make others possible."""
    hosted = {tensor.name for tensor in (*program.inputs, *program.outputs)}
    for buffer in program.buffers.values():
        if buffer.name not in hosted and 1 < buffer.shape[BATCH] <= MOST_BATCHES:
            if _is_worth_splitting(buffer, program):
                return buffer
    return None


def _with_split(program: NestProgram, buffer: Buffer) -> NestProgram:
    nests = tuple(made for nest in program.nests for made in _split(nest, buffer))
    buffers = {name: other for name, other in program.buffers.items() if name != buffer.name}
    for batch in range(buffer.shape[BATCH]):
        name = _name(buffer, batch)
        buffers[name] = replace(buffer, name=name, shape=(1, *buffer.shape[1:]))
    return replace(program, nests=nests, buffers=buffers)


def _is_worth_splitting(buffer: Buffer, program: NestProgram) -> bool:
    """Whether all writers or all readers of a buffer copy some of its batches, and all nests that use it can split."""
    writers, readers = program.writers.get(buffer.name, ()), program.readers.get(buffer.name, ())
    for copies, others in ((writers, readers), (readers, writers)):
        if copies and others and all(_is_copy_of_some(nest, buffer) for nest in copies):
            return all(_is_separable(nest, buffer) for nest in (*writers, *readers))
    return False


def _is_copy_of_some(nest: Nest, buffer: Buffer) -> bool:
    """Whether a nest is a copy that touches some batches of a buffer but not all."""
    batches = buffer.shape[BATCH]
    return nest.expr.op is Op.SOURCE and all(
        prod(loop.trip for loop in _batch_loops(nest, access)) < batches for access in _accesses(nest, buffer)
    )


def _is_separable(nest: Nest, buffer: Buffer) -> bool:
    """Whether at most one loop walks along the buffer's batches, and it is no reduce loop."""
    loops = [loop for access in _accesses(nest, buffer) for loop in _batch_loops(nest, access)]
    return len(set(loops)) <= 1 and not any(loop.is_reduce for loop in loops)


def _batch_loops(nest: Nest, access: Access) -> list[NestLoop]:
    return [loop for loop in nest.loops if loop.name in {name for name, _ in access.index[BATCH].terms}]


def _split(nest: Nest, buffer: Buffer) -> Iterator[Nest]:
    """One nest for each iteration of the loop over a buffer's batches; each uses the buffer of its own batch."""
    accesses = _accesses(nest, buffer)
    if not accesses:
        yield nest
        return
    loop = next((loop for access in accesses for loop in _batch_loops(nest, access)), None)
    count = 1 if loop is None else loop.trip
    for index in range(count):
        made = nest if loop is None else _at(nest, loop.name, index, count)
        reads = {name: _of_batch(read, buffer) for name, read in made.reads.items()}
        yield replace(made, reads=reads, result=_of_batch(made.result, buffer))


def _at(nest: Nest, loop: str, index: int, count: int) -> Nest:
    """One iteration of a loop, as a nest without that loop."""

    at = {loop: index}
    return replace(
        nest,
        name=f"{nest.name}.batch{index}",
        loops=tuple(other for other in nest.loops if other.name != loop),
        reads={name: read.fixed(at) for name, read in nest.reads.items()},
        result=nest.result.fixed(at),
        macs=nest.macs // count,
    )


def _of_batch(access: Access, buffer: Buffer) -> Access:
    """An access to one batch of a buffer, as an access to the buffer of that batch."""
    if access.tensor != buffer.name:
        return access
    return Access(_name(buffer, access.index[BATCH].constant), (Affine(()), *access.index[1:]), access.outside)


def _accesses(nest: Nest, buffer: Buffer) -> list[Access]:
    return [access for access in (nest.result, *nest.reads.values()) if access.tensor == buffer.name]


def _name(buffer: Buffer, batch: int) -> str:
    return f"{buffer.name}.batch{batch}"
