"""Leaves inputs of the host where they are when a Concat joins them with other tensors.

Level 2 to level 2, when nests are fused. A copy of an input into a region of a buffer goes, and the buffer has the
input as a part: whoever loads from it loads that region from the input's own place. Example, a cache of keys
[4, 8, 1, 64], joined with a token's own: of the buffer [4, 8, 1, 65] only the last column is written, the others are
never moved.

What stays a copy: inputs that become part of an output, and channels that share words with others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.graph.graph import CHANNEL
from tilewright.compiler.nest.nest import Access, Affine, BufferPart, Nest, NestProgram, index_range
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine


def parts(program: NestProgram, machine: Machine) -> NestProgram:
    """The program without copies of whole inputs into regions of buffers; it computes the same."""
    nests, buffers = [], dict(program.buffers)
    for nest in program.nests:
        part = _part(nest, program, machine.lanes)
        if part is None:
            nests.append(nest)
        else:
            joined = buffers[nest.result.tensor]
            buffers[joined.name] = replace(joined, parts=(*joined.parts, part))
    return replace(program, nests=tuple(nests), buffers=buffers)


def _part(copy: Nest, program: NestProgram, lanes: int) -> BufferPart | None:
    """The input that a nest copies into a buffer, as a part of this buffer; None if the nest does anything else."""
    if copy.expr.op is not Op.SOURCE or any(loop.is_reduce for loop in copy.loops):
        return None
    source, result = copy.reads[copy.expr.name], copy.result
    if source.tensor not in {tensor.name for tensor in program.inputs}:
        return None
    if result.tensor in {tensor.name for tensor in program.outputs}:
        return None
    inner, outer = program.buffers[source.tensor], program.buffers[result.tensor]
    first = _first(source, result, inner.shape, {loop.name: loop.trip for loop in copy.loops})
    if first is None or inner.type != outer.type:
        return None
    end = first[CHANNEL] + inner.shape[CHANNEL]
    rest = range(end, -(-end // lanes) * lanes)  # channels of its last word
    writers = program.writers[result.tensor]
    if first[CHANNEL] % lanes or any(set(rest) & set(index_range(nest, nest.result, CHANNEL)) for nest in writers):
        return None
    return BufferPart(source.tensor, first)


def _first(source: Access, result: Access, shape: tuple[int, ...], trips: Mapping[str, int]) -> tuple[int, ...] | None:
    """Where the elements of a source of a shape begin in a result; None unless all of them go there, side by side."""
    read, written = ([_moving(index, trips) for index in access.index] for access in (source, result))
    loops = [loop for terms in read for loop, _ in terms]
    is_all = all(
        index.constant == 0 and [(trips[loop], by) for loop, by in terms] == [(size, 1)] * (size > 1)
        for index, terms, size in zip(source.index, read, shape, strict=True)
    )
    if source.outside is not None or read != written or not is_all or len(set(loops)) < len(loops):
        return None
    return tuple(index.constant for index in result.index)


def _moving(index: Affine, trips: Mapping[str, int]) -> list[tuple[str, int]]:
    """The terms of an index whose loops have more than one iteration."""
    return [(loop, by) for loop, by in index.terms if trips[loop] > 1]
