"""What the operations of a tile program read and write: which words of which buffer, exactly, as bit masks and columns.

Columns have one entry for each operand of each operation: what is asked of every access is asked of all at once, by
numpy or by a kernel.

Example of a mask: trip counts y=2, x=3 with strides 8 and 1 over a block of one word touch the words 0 1 2 8 9 10 from
the base on: `first` 0 and the mask 111 00000 111.

The checker finds footprints in a way of its own (`isa.check.footprint`), and so proves the waits that come from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, TileProgram, engines, forms
from tilewright.isa.machine.encoding import ACCUMULATE, InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.dma import moved_word_bytes

Loops = tuple[tuple[int, int], ...]
"""(trip, stride) of each loop, innermost first."""

Mask = tuple[int, NDArray[np.bool_], NDArray[np.int64]]
"""First word, the words touched from there on, and the edges: where that changes; none if these are all words."""


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


def operation_footprints(
    machine: Machine, operation: TileOperation, masks: Masks | None = None
) -> tuple[Footprint, ...]:
    """One footprint for each operand, in operand order; `masks` has those of other operations, and gets new ones."""
    format = machine.format(operation.mnemonic)
    found = []
    for operand in format.operands:
        first, mask, edges = operand_mask(machine, format, operand, operation, masks)
        base = operation.bases[operand.name]
        is_write = operand is format.destination
        is_read = not is_write or reads_destination(format, operation)
        found.append(Footprint(operand.name, base.buffer, is_read, is_write, base.offset + first, mask, edges))
    return tuple(found)


def reads_destination(format: InstructionFormat, operation: TileOperation) -> bool:
    """True if the operation adds to the old value of its destination."""
    return bool(format.has_accumulate and operation.fields.get(ACCUMULATE, 0))


def operand_mask(
    machine: Machine, format: InstructionFormat, operand: Operand, operation: TileOperation, masks: Masks | None = None
) -> Mask:
    """First word relative to the base, mask from there on, and where it changes, of one operand."""
    block, loops = block_words(machine, format, operand), _operand_loops(operand, operation)
    return affine_mask(block, loops) if masks is None else masks[block, loops]


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


class Masks(dict[tuple[int, Loops], Mask]):
    """The masks of blocks and loops; each is made once, so that equal ones are mostly one object."""

    def __missing__(self, key: tuple[int, Loops]) -> Mask:
        found = self[key] = affine_mask(*key)
        return found


def affine_mask(block: int, loops: Loops) -> Mask:
    """The mask of `block` consecutive words at every `Σ index·stride`."""
    first, mask = _dilated(block, loops)
    return first, mask, np.flatnonzero(mask[1:] != mask[:-1]) + 1


def _dilated(block: int, loops: Loops) -> tuple[int, NDArray[np.bool_]]:
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


Integers = NDArray[np.int64]


class WordForms(NamedTuple):
    """Sets of words, numbered, each as its runs of words in order: those of form f from `begins[f]` on.

    Words count from the first of the set: `starts` of the first run is 0.
    """

    begins: Integers
    starts: Integers
    stops: Integers

    @property
    def lengths(self) -> Integers:
        """Of each, one more than its last word."""
        return self.stops[self.begins[1:] - 1]

    @property
    def steps(self) -> Integers:
        """Of each, the largest number of words that always go together: 0011 1100 → 2."""
        if not len(self.starts):
            return self.starts
        return np.gcd.reduceat(np.gcd(self.starts, self.stops), self.begins[:-1])

    @staticmethod
    def of(edges: Sequence[Integers], lengths: Sequence[int]) -> WordForms:
        """Of the words at which each begins or ends between its first and its last, and of their numbers of words."""
        bounds = [[0, *own.tolist(), length] for own, length in zip(edges, lengths, strict=True)]
        runs = np.fromiter(chain.from_iterable(bounds), np.int64).reshape(-1, 2)
        begins = np.cumsum([0, *(len(own) // 2 for own in bounds)])
        return WordForms(begins, runs[:, 0].copy(), runs[:, 1].copy())


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses in program order, those of one operation in the order of its operands, from `begins[operation]` on.

    `buffer` counts the program's buffers as they are declared; `first` is the first word, from the buffer's start.
    """

    begins: Integers
    buffer: Integers
    first: Integers
    form: Integers
    is_read: NDArray[np.bool_]
    is_write: NDArray[np.bool_]
    forms: WordForms

    @property
    def operation(self) -> Integers:
        """Whose accesses they are."""
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))


def program_accesses(program: TileProgram) -> Accesses:
    """The accesses of every operation; what operations that differ only in their bases touch is found once."""
    form_of = program.of_each(forms)
    alike = dict(zip(form_of, program.of_each(_relative_footprints), strict=True))
    words = _Words()
    at, begin = np.zeros(max(alike, default=0) + 1, np.int64), 0  # where each form's own rows begin
    rows: list[tuple[int, int, bool, bool]] = []
    for form, footprints in alike.items():
        at[form] = begin
        rows += [(f.first, words.form(f), f.is_read, f.is_write) for f in footprints]
        begin += len(footprints)
    operands = {form: [f.operand for f in footprints] for form, footprints in alike.items()}
    numbers = {name: number for number, name in enumerate(program.buffers)}
    bases = [
        (numbers[base.buffer], base.offset)
        for operation, form in zip(program.operations, form_of, strict=True)
        for base in map(operation.bases.__getitem__, operands[form])
    ]
    begins = np.cumsum([0, *(len(operands[form]) for form in form_of)])
    counts = np.diff(begins)
    own = np.repeat(at[np.array(form_of, np.int64)] - begins[:-1], counts) + np.arange(begins[-1])
    first, word_form, is_read, is_write = np.array(rows, np.int64).reshape(-1, 4)[own].T
    buffer, offset = np.array(bases, np.int64).reshape(-1, 2).T
    return Accesses(begins, buffer.copy(), first + offset, word_form.copy(), is_read != 0, is_write != 0, words.forms())


def _relative_footprints(program: TileProgram) -> list[tuple[Footprint, ...]]:
    """What each operation touches, from its bases on; of operations of one form it is one object."""
    alike: dict[int, tuple[Footprint, ...]] = {}
    masks = Masks()
    form_of = program.of_each(forms)
    for operation, form in zip(program.operations, form_of, strict=True):
        if form not in alike:
            elsewhere = {name: BufferAddress("", 0) for name in operation.bases}
            alike[form] = operation_footprints(program.machine, operation._replace(bases=elsewhere), masks)
    return [alike[form] for form in form_of]


def engine_numbers(program: TileProgram) -> Integers:
    """The engine of each operation, as its number in the machine."""
    return np.array([engine.number for engine in program.of_each(engines)], np.int64)


class _Words:
    """The sets of words found so far; equal ones are mostly one object (`Masks`)."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._footprints: list[Footprint] = []  # which keep the identity of their masks

    def form(self, of: Footprint) -> int:
        """The number of a footprint's words, wherever they begin."""
        key = len(of.mask), id(of.mask) if len(of.edges) else 0
        number = self._numbers.setdefault(key, len(self._footprints))
        if number == len(self._footprints):
            self._footprints.append(of)
        return number

    def forms(self) -> WordForms:
        return WordForms.of([of.edges for of in self._footprints], [len(of.mask) for of in self._footprints])
