"""The exact words that an instruction reads and writes, as sorted disjoint ranges."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS

MAX_PIECES = 1 << 22
"""Separate ranges that one operand may touch; far more than the deepest sensible memory has words."""

KEPT_PIECES = 1 << 10
"""Unions of more ranges are made anew each time, so that those that are kept take little memory."""

KEPT_STEPS = 1 << 12
"""So many different steps are remembered with what follows from them; most instructions of a program walk alike."""


class OperandAccess(NamedTuple):
    """What one operand of one instruction touches.

    `place` is an on-chip memory (units are words) or a DRAM region (units are bytes). `from_base` has what it touches,
    counted from `base`: int64 [n, 2], sorted, disjoint, not adjacent, each from its first word up to but without its
    second. Most accesses of one form share one such array.
    """

    operand: str
    place: str
    is_dram: bool
    is_write: bool
    base: int
    from_base: NDArray[np.int64]

    @property
    def ranges(self) -> NDArray[np.int64]:
        """`from_base`, counted from the start of the place."""
        return self.from_base + self.base

    @property
    def words(self) -> NDArray[np.int64]:
        """Every word on its own, sorted: [[2, 4], [7, 8]] → [2, 3, 7]."""
        return expand(self.ranges)

    @property
    def first(self) -> int:
        return int(self.ranges[0, 0])

    @property
    def end(self) -> int:
        """One beyond the last word."""
        return int(self.ranges[-1, 1])


def footprint(instruction: Instruction, machine: Machine) -> tuple[OperandAccess, ...]:
    """All accesses of an instruction: sources in file order, the old sums if it accumulates, then the destination.

    Sums that a systolic instruction reads back because it wrote them itself are not listed as read. Bounds are not
    checked. Raises IsaError for a region number that does not exist, or more than MAX_PIECES ranges.
    """
    return Reaches(machine).footprint(instruction)


class OperandReach(NamedTuple):
    """What an operand of an instruction touches, counted from its base: something from `low` to before `high`.

    `place` is None for a region number that does not exist.
    """

    operand: Operand
    base: int  # the position of the base among the instruction's values
    place: str | None
    low: int
    high: int
    steps: tuple[tuple[int, int], ...]
    unit: int
    kept: NDArray[np.int64] | None  # the ranges; None when there are too many to keep

    @property
    def ranges(self) -> NDArray[np.int64]:
        """What it touches, counted from its base."""
        return affine_ranges(0, self.steps, self.unit) if self.kept is None else self.kept


class Reaches:
    """The reaches of a machine's instructions. Those that differ only in bases and waits are worked out once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[Hashable, tuple[OperandReach, ...]] = {}

    def of(self, instruction: Instruction) -> tuple[OperandReach, ...]:
        """One reach for each operand, the destination last."""
        format = instruction.format
        key = format.shape(instruction.values)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KEPT_STEPS:
                self._known.clear()
            found = tuple([_reach(instruction, operand, self._machine) for operand in format.operands])
            self._known[key] = found
        return found

    def footprint(self, instruction: Instruction) -> tuple[OperandAccess, ...]:
        """As the function of this name."""
        return accesses(instruction, self.of(instruction))


def accesses(instruction: Instruction, reaches: Sequence[OperandReach]) -> tuple[OperandAccess, ...]:
    """What `footprint` says of an instruction with these reaches."""
    *sources, destination = reaches
    found = [_access(instruction, source, False) for source in sources]
    if instruction.format.has_accumulate and instruction[ACCUMULATE]:
        found.append(_access(instruction, destination, False))
    found.append(_access(instruction, destination, True))
    return tuple(found)


def _reach(instruction: Instruction, operand: Operand, machine: Machine) -> OperandReach:
    walk = _walk(instruction.format.walks[operand.name](instruction.values))
    unit = unit_words(instruction, operand, machine)
    try:
        place = place_of(instruction, operand)
    except IsaError:
        place = None
    is_small = most_pieces(walk.steps, unit) <= KEPT_PIECES
    kept = _kept_ranges(walk.steps, unit) if is_small else None
    position = instruction.format.base_places[operand.name]
    return OperandReach(operand, position, place, walk.low, walk.high + unit, walk.steps, unit, kept)


def _access(instruction: Instruction, reach: OperandReach, is_write: bool) -> OperandAccess:
    operand = reach.operand
    place = place_of(instruction, operand) if reach.place is None else reach.place
    base = instruction.values[reach.base]
    return OperandAccess(operand.name, place, operand.memory == DRAM, is_write, base, reach.ranges)


def extent(instruction: Instruction, operand: Operand, machine: Machine) -> tuple[int, int]:
    """The first word (on chip) or byte (DRAM) that an operand touches, and one beyond the last; unchecked."""
    base = instruction.base(operand.name)
    walk = _walk(instruction.format.walks[operand.name](instruction.values))
    return base + walk.low, base + walk.high + unit_words(instruction, operand, machine)


def operand_steps(instruction: Instruction, operand: Operand) -> tuple[tuple[int, int], ...]:
    """(stride, trip count) of each loop that the operand strides over, outermost first."""
    return _walk(instruction.format.walks[operand.name](instruction.values)).steps


@dataclass(frozen=True, slots=True)
class _StrideWalk:
    """(stride, trip count) of each loop, outermost first, and the least and the greatest `Σ index·stride`."""

    steps: tuple[tuple[int, int], ...]
    low: int
    high: int


@lru_cache(KEPT_STEPS)
def _walk(strides_and_trips: tuple[int, ...]) -> _StrideWalk:
    steps = tuple(zip(strides_and_trips[::2], strides_and_trips[1::2], strict=True))
    reaches = [stride * (trip - 1) for stride, trip in steps]
    return _StrideWalk(
        steps, sum(reach for reach in reaches if reach < 0), sum(reach for reach in reaches if reach > 0)
    )


def unit_words(instruction: Instruction, operand: Operand, machine: Machine) -> int:
    """Consecutive words (on chip) or bytes (DRAM) that an operand moves in one iteration."""
    if operand.memory != DRAM:
        return operand.block
    on_chip = next(other for other in instruction.format.operands if other.memory != DRAM)
    return machine.memories[on_chip.memory].word_bytes * on_chip.block


def place_of(instruction: Instruction, operand: Operand) -> str:
    """The on-chip memory or the DRAM region that an operand is in; raises IsaError for an unknown region number."""
    if operand.memory != DRAM:
        return operand.memory
    region = instruction[f"{operand.name}.region"]
    if region >= len(REGIONS):
        names = ", ".join(f"{number} {name}" for number, name in enumerate(REGIONS))
        raise IsaError(f"{operand.name} is in region {region}; expected one of {names}")
    return REGIONS[region]


def affine_ranges(base: int, steps: tuple[tuple[int, int], ...], length: int) -> NDArray[np.int64]:
    """The union of `length` words from `base + Σ index·stride` on, for all indices below their trip counts.

    Example: base 4, steps ((10, 2), (1, 3)), length 1 → [[4, 7], [14, 17]].
    """
    is_small = most_pieces(steps, length) <= KEPT_PIECES
    return (_kept_ranges if is_small else _ranges_from_zero)(steps, length) + base


@lru_cache(KEPT_STEPS)
def _kept_ranges(steps: tuple[tuple[int, int], ...], length: int) -> NDArray[np.int64]:
    return _ranges_from_zero(steps, length)


@lru_cache(KEPT_STEPS)
def word_count(steps: tuple[tuple[int, int], ...], length: int) -> int:
    """How many different words `affine_ranges` holds."""
    ranges = affine_ranges(0, steps, length)
    return int((ranges[:, 1] - ranges[:, 0]).sum())


@lru_cache(KEPT_STEPS)
def most_pieces(steps: tuple[tuple[int, int], ...], length: int) -> int:
    """At least as many as the ranges that `affine_ranges` gives, without making them."""
    reach = length + sum(abs(stride) * (trip - 1) for stride, trip in steps)
    return min(prod(trip for _, trip in _merge_steps(_ascending(steps), length)[1]), (reach + 1) // 2)


def _ascending(steps: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return sorted((abs(stride), trip) for stride, trip in steps if stride and trip > 1)


def _ranges_from_zero(steps: tuple[tuple[int, int], ...], length: int) -> NDArray[np.int64]:
    low = sum(stride * (trip - 1) for stride, trip in steps if stride < 0)
    length, outer = _merge_steps(_ascending(steps), length)
    ranges = np.array([[low, low + length]], np.int64)
    for stride, trip in outer:
        ranges = _repeat(ranges, stride, trip)
    ranges.setflags(write=False)
    return ranges


def _repeat(ranges: NDArray[np.int64], stride: int, trip: int) -> NDArray[np.int64]:
    """The union of `trip` copies, each `stride` > 0 further on than the one before."""
    if stride > ranges[-1, 1] - ranges[0, 0]:
        _check_pieces(len(ranges) * trip)
        return (ranges[None] + (np.arange(trip, dtype=np.int64) * stride)[:, None, None]).reshape(-1, 2)
    copies = 1
    while copies < trip:  # copies that overlap are joined two by two, so that they stay few
        more = min(copies, trip - copies)
        _check_pieces(2 * len(ranges))
        ranges = merge_ranges(np.concatenate([ranges, ranges + more * stride]))
        copies += more
    return ranges


def _check_pieces(count: int) -> None:
    if count > MAX_PIECES:
        raise IsaError(f"an operand touches more than {MAX_PIECES} separate pieces; split the instruction")


def _merge_steps(ascending: list[tuple[int, int]], length: int) -> tuple[int, list[tuple[int, int]]]:
    """The same union with fewer steps: what continues a run makes it longer, multiples of a step make it longer too."""
    outer: list[tuple[int, int]] = []
    for stride, trip in ascending:
        if not outer and stride <= length:
            length += stride * (trip - 1)
        elif outer and stride % outer[-1][0] == 0 and stride // outer[-1][0] <= outer[-1][1]:
            inner_stride, inner_trip = outer[-1]
            outer[-1] = (inner_stride, inner_trip + stride // inner_stride * (trip - 1))
        else:
            outer.append((stride, trip))
    return length, outer


def merge_ranges(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted, disjoint and not adjacent ranges with the same words; input in any order."""
    ordered = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ordered[:, 1])
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = ordered[1:, 0] > ends[:-1]
    starts = ordered[is_new, 0]
    is_last = np.append(is_new[1:], True)
    return np.stack([starts, ends[is_last]], axis=1)


def expand(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every integer of sorted ranges: [[2, 4], [7, 8]] → [2, 3, 7]."""
    if len(ranges) == 1:
        return np.arange(ranges[0, 0], ranges[0, 1])
    lengths = ranges[:, 1] - ranges[:, 0]
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(ranges[:, 0] - before, lengths)
