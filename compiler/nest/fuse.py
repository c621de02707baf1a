"""Fuses nests: a nest that works on another's result element by element becomes part of that other nest.

conv → residual add → relu becomes one nest, with one requantisation inside the other. The values between keep their
roundings and limits; only the tensor that held them goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.compiler.graph.graph import numbered_name
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import REDUCTIONS, Op

MOST_LEVELS = 100
"""How deep the expression of a fused nest may be; those of networks reach 40. An instruction computes a few levels at
once, so deeper ones gain nothing, and whatever reads an expression goes down by a call for each level."""


@dataclass(frozen=True, slots=True, eq=False)
class _NestEntry:
    """A nest and its place in the order of the program; of two with the same `rank`, the same one."""

    rank: tuple[int, ...]
    nest: Nest


class _NestOrder:
    """The nests of a program in order, and who writes and reads each buffer."""

    def __init__(self, nests: Sequence[Nest]) -> None:
        self._reads: Counter[str] = Counter()
        self._writers: dict[str, dict[_NestEntry, None]] = {}
        for position, nest in enumerate(nests):
            self.add(_NestEntry((position,), nest))

    def add(self, entry: _NestEntry) -> None:
        self._reads.update(access.tensor for access in entry.nest.reads.values())
        self._writers.setdefault(entry.nest.result.tensor, {})[entry] = None

    def remove(self, entry: _NestEntry) -> None:
        self._reads.subtract(access.tensor for access in entry.nest.reads.values())
        del self._writers[entry.nest.result.tensor][entry]

    def producers(self, buffer: str, before: _NestEntry) -> list[_NestEntry]:
        """The nests before one that write a buffer, in order."""
        writers = (entry for entry in self._writers.get(buffer, ()) if entry.rank < before.rank)
        return sorted(writers, key=_rank)

    def is_read_once(self, buffer: str) -> bool:
        """True when one read of one nest reads a buffer."""
        return self._reads[buffer] == 1

    def entries(self) -> list[_NestEntry]:
        return sorted((entry for writers in self._writers.values() for entry in writers), key=_rank)


def _rank(entry: _NestEntry) -> tuple[int, ...]:
    return entry.rank


def fuse(program: NestProgram) -> NestProgram:
    """The program with every elementwise nest fused into the producers of a buffer that only it reads.

    Its results are the same. Where several nests each write a part of the buffer, each of them takes in its part of the
    consumer. A nest keeps at most one reduction, and MOST_LEVELS; outputs of the program stay as they are.
    """
    order = _NestOrder(program.nests)
    kept = {tensor.name for tensor in program.outputs}
    waiting = order.entries()[::-1]
    while waiting:
        consumer = waiting.pop()
        producers = _fusible_producers(consumer, order, program, kept)
        if not producers:
            continue
        for entry in (*producers, consumer):
            order.remove(entry)
        fused = _all_fused(producers, consumer, program)
        for entry in fused:
            order.add(entry)
        waiting.extend(reversed(fused))  # they may find another producer
    nests = tuple(entry.nest for entry in order.entries())
    live = {access.tensor for nest in nests for access in (*nest.reads.values(), nest.result)}
    live |= {tensor.name for tensor in program.inputs}
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in live}
    return replace(program, nests=nests, buffers=buffers)


def _fusible_producers(
    consumer: _NestEntry, order: _NestOrder, program: NestProgram, kept: set[str]
) -> list[_NestEntry]:
    """The nests that write a buffer which an elementwise nest reads, if all can take it in; the buffer written last."""
    nest = consumer.nest
    if any(loop.is_reduce for loop in nest.loops):
        return []
    candidates = []
    for read in nest.reads.values():
        if read.tensor not in kept and order.is_read_once(read.tensor):
            producers = order.producers(read.tensor, consumer)
            if producers and all(_takes_in(producer.nest, nest, read, program) for producer in producers):
                candidates.append(producers)
    return max(candidates, key=lambda producers: producers[-1].rank, default=[])


def _all_fused(producers: Sequence[_NestEntry], consumer: _NestEntry, program: NestProgram) -> list[_NestEntry]:
    """In the consumer's place: its fusion with each producer."""
    fused = [
        _fused(producer.nest, consumer.nest, program, is_first=position == 0)
        for position, producer in enumerate(producers)
    ]
    if len(fused) == 1:
        return [_NestEntry(consumer.rank, fused[0])]
    return [_NestEntry((*consumer.rank, position), nest) for position, nest in enumerate(fused)]


def _takes_in(producer: Nest, consumer: Nest, read: Access, program: NestProgram) -> bool:
    if _levels(producer.expr) + _levels(consumer.expr) > MOST_LEVELS:
        return False
    has_two_reductions = _reductions(producer.expr) and _reductions(consumer.expr)
    return not has_two_reductions and _loops_there(producer, consumer, read, program) is not None


def _levels(expr: Expr) -> int:
    return 1 + max((_levels(arg) for arg in expr.args), default=0)


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
        fresh = numbered_name(name, reads)
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
    if not expr.args:
        return expr
    name = leaves[expr.name].name if expr.op is Op.LUT else expr.name
    return replace(expr, args=tuple([_substituted(arg, leaves) for arg in expr.args]), name=name)
