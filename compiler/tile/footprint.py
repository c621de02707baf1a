"""Which words of which buffer a tile operation reads and writes, exactly, as bit masks.

Example: trip counts y=2, x=3 with strides 8 and 1 over a block of one word touch the words 0 1 2 8 9 10 from the base
on: `first` 0 and the mask 111 00000 111.

The checker finds footprints in a way of its own (`isa.check.footprint`), and so proves the waits that come from these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.tile.program import TileBuffer, TileOperation
from tilewright.isa.machine.encoding import ACCUMULATE, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.dma import moved_word_bytes


class Footprint(NamedTuple):
    """What one operand of an operation touches: word `first + i` of the buffer wherever `mask[i]` is set.

    Words on chip, bytes in DRAM. An accumulating destination is also read. The first and the last bit of a mask are
    set; `edges` are where the others change: 1100 0111 → [2, 5].
    """

    operand: str
    buffer: str
    is_read: bool
    is_write: bool
    first: int
    mask: NDArray[np.bool_]
    edges: NDArray[np.int64]

    @property
    def stop(self) -> int:
        return self.first + len(self.mask)


def operation_footprints(machine: Machine, operation: TileOperation) -> tuple[Footprint, ...]:
    """One footprint for each operand, in operand order."""
    format = machine.format(operation.mnemonic)
    found = []
    for operand in format.operands:
        first, mask, edges = operand_mask(machine, format, operand, operation)
        base = operation.bases[operand.name]
        is_write = operand is format.destination
        is_read = not is_write or reads_destination(format, operation)
        found.append(Footprint(operand.name, base.buffer, is_read, is_write, base.offset + first, mask, edges))
    return tuple(found)


def reads_destination(format: InstructionFormat, operation: TileOperation) -> bool:
    """True if the operation adds to the old value of its destination."""
    return bool(format.has_accumulate and operation.fields.get(ACCUMULATE, 0))


def operand_mask(machine: Machine, format: InstructionFormat, operand: Operand, operation: TileOperation) -> Mask:
    """First word relative to the base, mask from there on, and where it changes, of one operand."""
    return affine_mask(block_words(machine, format, operand), _operand_loops(operand, operation))


def operand_bounds(
    machine: Machine, format: InstructionFormat, operand: Operand, operation: TileOperation
) -> tuple[int, int]:
    """(first word, one more than the last word) relative to the base of one operand."""
    reaches = [stride * (trip - 1) for trip, stride in _operand_loops(operand, operation)]
    block = block_words(machine, format, operand)
    return sum(min(0, reach) for reach in reaches), sum(max(0, reach) for reach in reaches) + block


def _operand_loops(operand: Operand, operation: TileOperation) -> tuple[tuple[int, int], ...]:
    """(trip, stride) of each loop over which the operand moves, innermost first."""
    fields = operation.fields
    return tuple((fields.get(trip, 1), fields.get(stride, 0)) for trip, stride in reversed(operand.loop_fields))


def block_words(machine: Machine, format: InstructionFormat, operand: Operand) -> int:
    """Consecutive words that an operand moves in one iteration; in DRAM the bytes of the word at the other end."""
    if operand.memory != DRAM:
        return operand.block
    return moved_word_bytes(format, machine)


Loops = tuple[tuple[int, int], ...]
"""(trip, stride) of each loop, innermost first."""

Mask = tuple[int, NDArray[np.bool_], NDArray[np.int64]]
"""First word, the words touched from there on, and the edges: where that changes; none if these are all words."""

MOST_KEPT_BYTES = 1 << 27


class _KeptMasks:
    """Masks that were asked for; when they take too much memory, all are forgotten."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, Loops], Mask] = {}
        self._bytes = 0

    def mask(self, block: int, loops: Loops) -> Mask:
        found = self._found.get((block, loops))
        if found is None:
            first, mask = _new_mask(block, loops)
            found = first, mask, np.flatnonzero(mask[1:] != mask[:-1]) + 1
            if self._bytes + found[1].nbytes > MOST_KEPT_BYTES:
                self._found.clear()
                self._bytes = 0
            self._found[block, loops] = found
            self._bytes += found[1].nbytes
        return found


_KEPT = _KeptMasks()


def affine_mask(block: int, loops: Loops) -> Mask:
    """The mask of `block` consecutive words at every `Σ index·stride`; equal masks are mostly one object."""
    return _KEPT.mask(block, loops)


def _new_mask(block: int, loops: Loops) -> tuple[int, NDArray[np.bool_]]:
    """Each loop dilates the mask.

    A trip count of t takes log2 t steps, because the mask of 2n iterations is that of n, or that of n moved by n
    strides.
    """
    first, mask = 0, np.ones(block, np.bool_)
    for trip, stride in loops:
        if trip == 1 or stride == 0:
            continue
        first += min(0, stride * (trip - 1))
        step = abs(stride)
        done = 1
        while done < trip:
            more = min(done, trip - done)
            mask = _or_moved(mask, more * step)
            done += more
    mask.flags.writeable = False
    return first, mask


def _or_moved(mask: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    wider = np.zeros(len(mask) + by, np.bool_)
    wider[: len(mask)] = mask
    wider[by:] |= mask
    return wider


def dense_region(buffer: TileBuffer) -> tuple[str, int]:
    """(key, offset) under which accesses of a buffer can meet those of another before addresses are chosen.

    Buffers at a fixed offset share their region; all others have a space of their own.
    """
    if buffer.offset is None:
        return f"buffer {buffer.name}", 0
    return f"region {buffer.place}", buffer.offset
