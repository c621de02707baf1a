"""How the operands of an instruction walk: which loops move them, and whether a walk meets another one's words."""

from __future__ import annotations

import numpy as np

from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.simulator.nest import AddressWalk, reads_its_writes, walk_of


def source_walk(instruction: Instruction, name: str, inside: bool, kept: int, word: int = 0) -> AddressWalk:
    """One word of a source's blocks, with size 1 where it stays put.

    Outside the reduction only a group's last iteration counts.
    """
    whole = walk_of(instruction, instruction.format.operand(name))
    base, trips = whole.base + word, []
    for axis, (trip, stride) in enumerate(zip(whole.trips, whole.strides, strict=True)):
        is_last_only = axis >= kept and not inside
        if is_last_only:
            base += (trip - 1) * stride
        trips.append(1 if stride == 0 or is_last_only else trip)
    return AddressWalk(base, tuple(trips), whole.strides)


def feeds_itself(reads: AddressWalk, writes: AddressWalk, kept: int, block: int) -> bool:
    """Some iteration reads a word that an earlier one has written. Reduced iterations before the last write nothing.

    Of a block of words, each may be read; any overlap counts.
    """
    if reads.low > writes.high or writes.low > reads.high + block - 1:
        return False
    if block > 1:
        return True
    if reads == writes and writes.is_distinct(1):
        return False
    inner = int(np.prod(writes.trips[kept:], dtype=np.int64))
    of_group = AddressWalk(writes.base, writes.trips[:kept], writes.strides[:kept]).addresses().ravel()
    return any(reads_its_writes(column, of_group) for column in reads.addresses().reshape(-1, inner).T)


def loop_roles(
    instruction: Instruction, a: Operand, w: Operand
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Positions of the loops that are reduced, batches of products, columns of tiles, and rows of vectors."""
    reduced, batch, tiles, vectors = [], [], [], []
    a_strides, w_strides = instruction.strides(a), instruction.strides(w)
    for position, loop in enumerate(instruction.format.loops):
        if loop.is_reduce:
            reduced.append(position)
        elif w_strides[loop.name] == 0:
            vectors.append(position)
        elif a_strides[loop.name] == 0:
            tiles.append(position)
        else:
            batch.append(position)
    return tuple(reduced), tuple(batch), tuple(tiles), tuple(vectors)


def reordered(walk: AddressWalk, positions: tuple[int, ...]) -> AddressWalk:
    """A walk along some of its loops, in another order."""
    return AddressWalk(walk.base, tuple(walk.trips[i] for i in positions), tuple(walk.strides[i] for i in positions))


def may_meet_apart(reads: AddressWalk, writes: AddressWalk, is_one_memory: bool) -> bool:
    """Whether what is added may be a word that is written, but not the one of the same iteration."""
    return is_one_memory and reads != writes and reads.low <= writes.high and writes.low <= reads.high


def walk_size(walk: AddressWalk, positions: tuple[int, ...]) -> int:
    """How many iterations some loops of a walk have together."""
    return int(np.prod([walk.trips[i] for i in positions], dtype=object)) if positions else 1
