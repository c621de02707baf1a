"""Fuses nests: a nest that works on another's result element by element becomes part of that other nest.

conv → residual add → relu becomes one nest, with one requantisation inside the other. The values between keep their
roundings and limits; only the tensor that held them goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import REDUCTIONS, Op


def fuse(program: NestProgram) -> NestProgram:
    """The program with every elementwise nest fused into the producers of a buffer that only it reads.

    Its results are the same. Where several nests each write a part of the buffer, each of them takes in its part of the
    consumer. A nest keeps at most one reduction; outputs of the program stay as they are.
    """
    nests = list(program.nests)
    kept = {tensor.name for tensor in program.outputs}
    position = 0
    while position < len(nests):
        producers = _fusible_producers(nests[position], nests[:position], nests, program, kept)
        if not producers:
            position += 1
            continue
        fused = [_fused(producer, nests[position], program, producer is producers[0]) for producer in producers]
        nests[position : position + 1] = fused
        nests = [nest for nest in nests if not any(nest is producer for producer in producers)]
        position -= len(producers)  # the fused nests may find another producer
    live = {access.tensor for nest in nests for access in (*nest.reads.values(), nest.result)}
    live |= {tensor.name for tensor in program.inputs}
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in live}
    return replace(program, nests=tuple(nests), buffers=buffers)


def _fusible_producers(
    consumer: Nest, before: list[Nest], nests: list[Nest], program: NestProgram, kept: set[str]
) -> list[Nest]:
    """The nests that write a buffer which an elementwise nest reads, if all can take it in; the buffer written last."""
    if any(loop.is_reduce for loop in consumer.loops):
        return []
    for buffer in dict.fromkeys(producer.result.tensor for producer in reversed(before)):
        reads = [access for access in consumer.reads.values() if access.tensor == buffer]
        if buffer in kept or len(reads) != 1 or not _is_read_once(buffer, nests):
            continue
        producers = [nest for nest in before if nest.result.tensor == buffer]
        if all(_takes_in(producer, consumer, reads[0], program) for producer in producers):
            return producers
    return []


def _is_read_once(buffer: str, nests: list[Nest]) -> bool:
    """True when one read of one nest reads a buffer."""
    return sum(access.tensor == buffer for nest in nests for access in nest.reads.values()) == 1


def _takes_in(producer: Nest, consumer: Nest, read: Access, program: NestProgram) -> bool:
    has_two_reductions = _reductions(producer.expr) and _reductions(consumer.expr)
    return not has_two_reductions and _loops_there(producer, consumer, read, program) is not None


def _reductions(expr: Expr) -> bool:
    return any(node.op in REDUCTIONS for node in walk(expr))


def _loops_there(producer: Nest, consumer: Nest, read: Access, program: NestProgram) -> Mapping[str, Affine] | None:
    """Consumer's loop → its index in the producer's loops, if the consumer reads each element where it is written."""
    shape = program.buffers[read.tensor].shape
    trips = {loop.name: loop.trip for loop in consumer.loops}
    found: dict[str, Affine] = {}
    if read.outside is not None:
        return None
    for size, written, taken in zip(shape, producer.result.index, read.index, strict=True):
        if written == taken == Affine(()):
            continue
        if not _is_plain(taken) or len(written.terms) != 1 or trips[taken.terms[0][0]] != size:
            return None
        found[taken.terms[0][0]] = written
    outer = [loop.name for loop in producer.loops if not loop.is_reduce]
    there = [loop for index in found.values() for loop, _ in index.terms]
    return found if sorted(there) == sorted(outer) and set(trips) == set(found) else None


def _is_plain(index: Affine) -> bool:
    """One loop, one step at a time, from 0."""
    return index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1


def _fused(producer: Nest, consumer: Nest, program: NestProgram, is_first: bool) -> Nest:
    """The producer's loops with the consumer's expression, the producer's in place of what the consumer read."""
    (link,) = (name for name, access in consumer.reads.items() if access.tensor == producer.result.tensor)
    loops = _loops_there(producer, consumer, consumer.reads[link], program)
    assert loops is not None
    reads = dict(producer.reads)
    leaves: dict[str, Expr] = {link: producer.expr}
    for name, access in consumer.reads.items():
        if name == link:
            continue
        fresh = _fresh(name, reads)
        reads[fresh] = _with_loops(access, loops, producer)
        leaves[name] = Expr(Op.SOURCE, _range_of(name, consumer.expr), name=fresh)
    return Nest(
        producer.name,
        producer.nodes + consumer.nodes,
        producer.loops,
        reads,
        _with_loops(consumer.result, loops, producer),
        _substituted(consumer.expr, leaves),
        producer.macs + consumer.macs * is_first,
    )


def _fresh(name: str, taken: Mapping[str, Access]) -> str:
    """The name, numbered from 2 on where it is taken."""
    candidates = [name, *(f"{name}{count}" for count in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)


def _range_of(name: str, expr: Expr) -> Interval:
    return next(node.range for node in walk(expr) if node.op in (Op.SOURCE, Op.LUT) and node.name == name)


def _with_loops(access: Access, loops: Mapping[str, Affine], producer: Nest) -> Access:
    order = [loop.name for loop in producer.loops]

    def placed(index: Affine) -> Affine:
        terms = [(loop, step * by) for outer, step in index.terms for loop, by in loops[outer].terms]
        first = index.constant + sum(step * loops[outer].constant for outer, step in index.terms)
        return Affine(tuple(sorted(terms, key=lambda term: order.index(term[0]))), first)

    return replace(access, index=tuple(map(placed, access.index)))


def _substituted(expr: Expr, leaves: Mapping[str, Expr]) -> Expr:
    """The expression with other ones in place of its reads. Ranges stay: they hold for every value of a read."""
    if expr.op is Op.SOURCE:
        return leaves[expr.name]
    name = leaves[expr.name].name if expr.op is Op.LUT else expr.name
    return replace(expr, args=tuple(_substituted(arg, leaves) for arg in expr.args), name=name)
