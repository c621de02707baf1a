"""Fusion of nests: what is computed element by element from one nest's result becomes part of that nest.

conv → residual add → relu is one nest then, with one requantisation inside the other: the intermediate values, their
roundings and limits stay, only the tensor between goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.nest import Access, Affine, Nest, NestProgram
from isa.numeric import Interval
from isa.statement import REDUCTIONS, Expr, Op, walk


def fuse(program: NestProgram) -> NestProgram:
    """The program with every elementwise nest fused into a producer whose result only it reads.

    Its results are the same. A nest keeps at most one reduction; producers that write only a part of a buffer, and
    outputs of the program, stay as they are.
    """
    nests = list(program.nests)
    kept = {tensor.name for tensor in program.outputs}
    position = 0
    while position < len(nests):
        producer = _fusible_producer(nests[position], nests[:position], nests, kept)
        if producer is None:
            position += 1
            continue
        nests[position] = _fused(producer, nests[position])
        nests.remove(producer)
        position -= 1  # the fused nest may find another producer
    live = {access.tensor for nest in nests for access in (*nest.reads.values(), nest.result)}
    live |= {tensor.name for tensor in program.inputs}
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in live}
    return replace(program, nests=tuple(nests), buffers=buffers)


def _fusible_producer(consumer: Nest, before: list[Nest], nests: list[Nest], kept: set[str]) -> Nest | None:
    """The latest nest before that may take an elementwise nest in."""
    if any(loop.is_reduce for loop in consumer.loops):
        return None
    for producer in reversed(before):
        buffer = producer.result.tensor
        reads = [access for access in consumer.reads.values() if access.tensor == buffer]
        if buffer in kept or len(reads) != 1 or not _is_only_link(buffer, nests):
            continue
        has_two_reductions = _reductions(producer.expr) and _reductions(consumer.expr)
        if not has_two_reductions and _renamed_loops(producer, consumer, reads[0]) is not None:
            return producer
    return None


def _is_only_link(buffer: str, nests: list[Nest]) -> bool:
    """True when one nest writes a buffer, and one read of one nest reads it."""
    writes = sum(nest.result.tensor == buffer for nest in nests)
    reads = sum(access.tensor == buffer for nest in nests for access in nest.reads.values())
    return writes == 1 and reads == 1


def _reductions(expr: Expr) -> bool:
    return any(node.op in REDUCTIONS for node in walk(expr))


def _renamed_loops(producer: Nest, consumer: Nest, read: Access) -> Mapping[str, str] | None:
    """Consumer's loop → producer's, if the consumer reads each element of the result where it was written."""
    trips = {loop.name: loop.trip for loop in producer.loops}
    names: dict[str, str] = {}
    if read.outside is not None:
        return None
    for written, taken in zip(producer.result.index, read.index, strict=True):
        if written == taken == Affine(()):
            continue
        if not _is_plain(written) or not _is_plain(taken):
            return None
        names[taken.terms[0][0]] = written.terms[0][0]
    if any(loop.name not in names or trips[names[loop.name]] != loop.trip for loop in consumer.loops):
        return None
    outer = [loop.name for loop in producer.loops if not loop.is_reduce]
    return names if sorted(names.values()) == sorted(outer) else None


def _is_plain(index: Affine) -> bool:
    """One loop, one step at a time, from 0."""
    return index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1


def _fused(producer: Nest, consumer: Nest) -> Nest:
    """The producer's loops with the consumer's expression, the producer's in place of what the consumer read."""
    (link,) = (name for name, access in consumer.reads.items() if access.tensor == producer.result.tensor)
    loops = _renamed_loops(producer, consumer, consumer.reads[link])
    assert loops is not None
    reads = dict(producer.reads)
    leaves: dict[str, Expr] = {link: producer.expr}
    for name, access in consumer.reads.items():
        if name == link:
            continue
        fresh = _fresh(name, reads)
        reads[fresh] = _with_loops(access, loops, producer)
        leaves[name] = Expr(Op.SOURCE, _range_of(name, consumer.expr), name=fresh)  # of a table only the name is used
    return Nest(
        producer.name,
        producer.nodes + consumer.nodes,
        producer.loops,
        reads,
        _with_loops(consumer.result, loops, producer),
        _substituted(consumer.expr, leaves),
        producer.macs + consumer.macs,
    )


def _fresh(name: str, taken: Mapping[str, Access]) -> str:
    """The name, numbered from 2 on where it is taken."""
    candidates = [name, *(f"{name}{count}" for count in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)


def _range_of(name: str, expr: Expr) -> Interval:
    return next(node.range for node in walk(expr) if node.op in (Op.SOURCE, Op.LUT) and node.name == name)


def _with_loops(access: Access, loops: Mapping[str, str], producer: Nest) -> Access:
    order = [loop.name for loop in producer.loops]

    def renamed(index: Affine) -> Affine:
        terms = sorted(((loops[loop], step) for loop, step in index.terms), key=lambda term: order.index(term[0]))
        return Affine(tuple(terms), index.constant)

    return replace(access, index=tuple(map(renamed, access.index)))


def _substituted(expr: Expr, leaves: Mapping[str, Expr]) -> Expr:
    """The expression with other ones in place of its reads. Ranges stay: they hold for every value of a read."""
    if expr.op is Op.SOURCE:
        return leaves[expr.name]
    name = leaves[expr.name].name if expr.op is Op.LUT else expr.name
    return replace(expr, args=tuple(_substituted(arg, leaves) for arg in expr.args), name=name)
