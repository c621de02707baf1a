"""Turns loops of any number and length into instructions.

Loops are merged and matched with an instruction's loops; what does not fit its fields becomes several instructions.
Example, an instruction with loops i j k of 10 bits: loops of 3, 40 and 50 whose strides are (2000, 50, 1) for every
operand walk in even steps and merge into one of 6000. That is too long for 10 bits, so the instruction runs two: 6 and
1000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple

from tilewright.compiler.errors import CompileError
from tilewright.isa.language.operations import IDEMPOTENT
from tilewright.isa.machine.encoding import InstructionFormat, Loop
from tilewright.isa.machine.machine import Machine


class WordLoop(NamedTuple):
    """One loop over words: `strides` has one entry for each operand of the format, sources first."""

    trip: int
    strides: tuple[int, ...]
    is_reduce: bool = False


@dataclass(frozen=True)
class Packed:
    """One instruction of a packed nest: trip counts and strides, where its operands begin, and whether it adds."""

    fields: Mapping[str, int]
    offsets: tuple[int, ...]  # added to each operand's base, in operand order
    accumulates: bool  # an earlier instruction of the same nest wrote these results


class LoopPacker:
    """Packs loop nests into instructions of one machine; equal nests are packed once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[str, tuple[WordLoop, ...]], tuple[Packed, ...]] = {}

    def pack(self, format: InstructionFormat, loops: Sequence[WordLoop]) -> tuple[Packed, ...]:
        """The fewest instructions found that run the nest; outermost loop first.

        Raises CompileError if reduce loops do not fit one instruction and it cannot add to its destination.
        """
        key = (format.mnemonic, tuple(loops))
        if key not in self._known:
            self._known[key] = tuple(_pack(format, format.mnemonic in self._machine.continuing, _simplify(key[1])))
        return self._known[key]


def affine_runs(points: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[WordLoop, ...]]]:
    """A sequence of address tuples as few (first point, loops) that visit them in order.

    Example: 0 1 20 21 40 41 is one run: 3 steps of 20 over 2 steps of 1.
    """
    runs: list[tuple[tuple[int, ...], tuple[WordLoop, ...]]] = []
    at = 0
    while at < len(points):
        first = points[at]
        inner = _repeats(points, at, 1)
        step = _difference(points[at + 1], first) if inner > 1 else ()
        outer = _repeats(points, at, inner) // inner if inner < len(points) - at else 1
        loops = [WordLoop(inner, step)] if inner > 1 else []
        if outer > 1:
            loops.insert(0, WordLoop(outer, _difference(points[at + inner], first)))
        runs.append((first, tuple(loops)))
        at += inner * max(1, outer)
    return runs


def _repeats(points: Sequence[tuple[int, ...]], at: int, period: int) -> int:
    """How many points from `at` on, in whole periods, keep the same difference to the point one period before."""
    if at + period >= len(points):
        return period
    difference = _difference(points[at + period], points[at])
    stop = at + period
    while stop < len(points) and _difference(points[stop], points[stop - period]) == difference:
        stop += 1
    return (stop - at) // period * period


def _difference(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sub, a, b))


# -- merging -----------------------------------------------------------------------------------------------------------


def _simplify(loops: tuple[WordLoop, ...]) -> tuple[WordLoop, ...]:
    """The loops without those of one iteration; two that together walk in even steps become one."""
    left = [loop for loop in loops if loop.trip > 1]
    merged = True
    while merged:
        merged = False
        for outer, inner in _pairs(len(left)):
            if _is_one_walk(left[outer], left[inner]):
                left[inner] = left[inner]._replace(trip=left[outer].trip * left[inner].trip)
                del left[outer]
                merged = True
                break
    return tuple(left)


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    for inner in reversed(range(count)):
        for outer in reversed(range(inner)):
            yield outer, inner


def _is_one_walk(outer: WordLoop, inner: WordLoop) -> bool:
    is_even = all(a == inner.trip * b for a, b in zip(outer.strides, inner.strides, strict=True))
    return is_even and outer.is_reduce == inner.is_reduce


# -- matching with an instruction's loops ------------------------------------------------------------------------------


def _pack(format: InstructionFormat, adds: bool, loops: tuple[WordLoop, ...]) -> list[Packed]:
    """`adds`: what has a sum in parts adds each to those before, itself or through another instruction."""
    assigned = _assign(format, loops)
    if assigned is not None:
        return [Packed(assigned, (0,) * len(format.operands), False)]
    for position, loop in enumerate(loops):
        longest = max((1 << own.bits for own in format.loops if _may_run(format, own, loop)), default=1)
        if 1 < longest < loop.trip:
            if loop.is_reduce and not adds:
                return _pack_window(format, adds, loops, position, longest)
            return _pack_long(format, adds, loops, position, longest)
    return _unroll(format, adds, loops)


def _pack_long(
    format: InstructionFormat, adds: bool, loops: tuple[WordLoop, ...], position: int, longest: int
) -> list[Packed]:
    """A loop that is longer than any field: as two loops if its trip count has a good divisor, else a multiple
    of the longest and a rest."""
    loop = loops[position]
    divisor = max(d for d in range(1, longest + 1) if loop.trip % d == 0)
    if divisor * divisor >= longest or loop.trip // divisor <= longest and divisor > 1:
        split = _pack(format, adds, _split(loops, position, divisor))
        if len(split) == 1:
            return split
    whole = loop.trip // longest * longest
    pieces = [loop._replace(trip=whole), loop._replace(trip=loop.trip - whole)]
    packed: list[Packed] = []
    for piece, start in zip(pieces, (0, whole), strict=True):
        if piece.trip == 0:
            continue
        changed = (*loops[:position], piece, *loops[position + 1 :])
        cut = _split(changed, position, longest) if piece.trip >= longest else _simplify(changed)
        packed += [_moved(p, loop, start, bool(start)) for p in _pack(format, adds, cut)]
    return packed


def _pack_window(
    format: InstructionFormat, adds: bool, loops: tuple[WordLoop, ...], position: int, longest: int
) -> list[Packed]:
    """A long reduce loop of an instruction that cannot add to its result, as two: `count` runs of `length`.

    A maximum may see a value twice, so the runs may overlap: 17 is 2 runs of 16, one apart.
    """
    loop = loops[position]
    idempotent = format.statement.reduction is not None and format.statement.reduction.op in IDEMPOTENT
    for count in range(2, longest + 1):
        for step in range(1, longest + 1):
            length = loop.trip - (count - 1) * step
            if length == step or (idempotent and step < length <= longest):
                runs = WordLoop(count, tuple(step * s for s in loop.strides), True)
                changed = (*loops[:position], runs, loop._replace(trip=length), *loops[position + 1 :])
                assigned = _assign(format, changed)
                if assigned is not None:
                    return [Packed(assigned, (0,) * len(format.operands), False)]
    return _unroll(format, adds, loops)


def _split(loops: tuple[WordLoop, ...], position: int, inner: int) -> tuple[WordLoop, ...]:
    loop = loops[position]
    outer = WordLoop(loop.trip // inner, tuple(inner * s for s in loop.strides), loop.is_reduce)
    pair = (outer, loop._replace(trip=inner)) if outer.trip > 1 else (loop._replace(trip=inner),)
    return (*loops[:position], *pair, *loops[position + 1 :])


def _unroll(format: InstructionFormat, adds: bool, loops: tuple[WordLoop, ...]) -> list[Packed]:
    """One instruction for each iteration of the shortest loop, a loop over results if possible."""
    candidates = [p for p, loop in enumerate(loops) if adds or not loop.is_reduce]
    if not candidates:
        trips = " × ".join(str(loop.trip) for loop in loops)
        longest = ", ".join(f"{own.name}: {1 << own.bits}" for own in format.loops if own.is_reduce)
        raise CompileError(
            format.mnemonic,
            f"a reduction over {trips} words does not fit its reduce loops ({longest})",
            remedy="give them more bits",
        )
    position = min(candidates, key=lambda p: (loops[p].is_reduce, loops[p].trip))
    rest = _pack(format, adds, _simplify((*loops[:position], *loops[position + 1 :])))
    loop = loops[position]
    return [_moved(packed, loop, i, i > 0) for i in range(loop.trip) for packed in rest]


def _moved(packed: Packed, loop: WordLoop, index: int, is_later: bool) -> Packed:
    offsets = tuple(o + index * s for o, s in zip(packed.offsets, loop.strides, strict=True))
    return Packed(packed.fields, offsets, packed.accumulates or (loop.is_reduce and is_later))


def _assign(format: InstructionFormat, loops: tuple[WordLoop, ...]) -> dict[str, int] | None:
    """Trip and stride fields that give each loop to one of the instruction's, in order if possible; None if none do."""
    for keeps_order in (True, False):
        chosen = _choose(format, loops, len(format.loops), frozenset(), keeps_order)
        if chosen is not None:
            return _fields(format, loops, chosen)
    return None


def _choose(
    format: InstructionFormat, loops: tuple[WordLoop, ...], stop: int, taken: frozenset[int], keeps_order: bool
) -> tuple[int, ...] | None:
    """For each loop the position of its loop in the instruction; innermost loops are placed first."""
    if not loops:
        return ()
    for position in reversed(range(stop if keeps_order else len(format.loops))):
        target = format.loops[position]
        if position in taken or loops[-1].trip > 1 << target.bits or not _may_run(format, target, loops[-1]):
            continue
        rest = _choose(format, loops[:-1], position, taken | {position}, keeps_order)
        if rest is not None:
            return (*rest, position)
    return None


def _may_run(format: InstructionFormat, target: Loop, loop: WordLoop) -> bool:
    """Whether the instruction's loop `target` can run `loop`: every operand that moves has a stride, wide enough."""
    if target.is_reduce != loop.is_reduce:
        return False
    for operand, stride in zip(format.operands, loop.strides, strict=True):
        if stride == 0:
            continue
        if target.name not in operand.loops:
            return False
        field = format.field(f"{operand.name}.{target.name}")
        if not field.low <= stride <= field.high:
            return False
    return True


def _fields(format: InstructionFormat, loops: tuple[WordLoop, ...], chosen: tuple[int, ...]) -> dict[str, int]:
    fields: dict[str, int] = {}
    for loop, position in zip(loops, chosen, strict=True):
        target = format.loops[position]
        fields[f"trip.{target.name}"] = loop.trip
        for operand, stride in zip(format.operands, loop.strides, strict=True):
            if target.name in operand.loops:
                fields[f"{operand.name}.{target.name}"] = stride
    return fields
