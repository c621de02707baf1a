"""Affine walks: the addresses that one operand of an instruction visits, as arithmetic on whole nests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import Instruction, Operand

ENUMERATED = 1 << 18
"""The most addresses that are examined one by one. Larger nests are first cut along their outer loops."""


@dataclass(frozen=True, slots=True)
class AddressWalk:
    """Addresses base + Σ index·stride for 0 ≤ index < trip, outermost loop first.

    Example: Walk(10, (2, 3), (100, 1)) visits 10, 11, 12, 110, 111, 112.
    """

    base: int
    trips: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def low(self) -> int:
        return self.base + sum(min(0, (t - 1) * s) for t, s in zip(self.trips, self.strides, strict=True))

    @property
    def high(self) -> int:
        return self.base + sum(max(0, (t - 1) * s) for t, s in zip(self.trips, self.strides, strict=True))

    def addresses(self) -> NDArray[np.int64]:
        """Every address, shape `trips`."""
        total = np.full((1,) * len(self.trips), self.base, np.int64)
        for axis, (trip, stride) in enumerate(zip(self.trips, self.strides, strict=True)):
            shape = [1] * len(self.trips)
            shape[axis] = trip
            total = total + (np.arange(trip, dtype=np.int64) * stride).reshape(shape)
        return total

    def is_distinct(self, unit: int) -> bool:
        """No two iterations touch the same of the `unit` consecutive places that each takes from its address on."""
        moved = unit
        for stride, trip in sorted((abs(s), t) for s, t in zip(self.strides, self.trips, strict=True) if t > 1):
            if stride < moved:
                break
            moved += stride * (trip - 1)
        else:
            return True
        ordered = np.sort(self.addresses(), axis=None)
        return bool(np.all(np.diff(ordered) >= unit))

    def first(
        self,
        is_sought: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
        may_hold: Callable[[int, int], bool],
    ) -> tuple[int, int] | None:
        """(iteration, address) of the first address that `is_sought`; None if there is none.

        `may_hold(low, high)` is false only if no address from low to high is sought.
        """
        if not may_hold(self.low, self.high):
            return None
        trips = tuple(t if s else 1 for t, s in zip(self.trips, self.strides, strict=True))
        moving = AddressWalk(
            self.base, trips, self.strides
        )  # the first of all iterations that visit the same addresses
        if int(np.prod(moving.trips, dtype=object)) <= ENUMERATED:
            addresses = moving.addresses().ravel()
            found = np.flatnonzero(is_sought(addresses))
            if not found.size:
                return None
            position, iteration, size = int(found[0]), 0, 1
            for visited, trip in zip(reversed(moving.trips), reversed(self.trips), strict=True):
                iteration += position % visited * size
                position, size = position // visited, size * trip
            return iteration, int(addresses[found[0]])
        inner_size = int(np.prod(self.trips[1:], dtype=object))
        for outer in range(moving.trips[0]):
            inner = AddressWalk(self.base + outer * self.strides[0], self.trips[1:], self.strides[1:])
            hit = inner.first(is_sought, may_hold)
            if hit is not None:
                return outer * inner_size + hit[0], hit[1]
        return None


def walk_of(instruction: Instruction, operand: Operand, base: int = 0) -> AddressWalk:
    """The first word (byte, in DRAM) of an operand in every iteration; `base` is added to the instruction's."""
    values = instruction.values
    places = instruction.format.stride_places[operand.name]
    strides = tuple([0 if place is None else values[place] for _, place in places])
    return AddressWalk(base + instruction.base(operand.name), tuple(instruction.trips.values()), strides)


def last_writers(addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each address the last position that has it: (distinct addresses, positions)."""
    distinct, from_end = np.unique(addresses[::-1], return_index=True)
    return distinct, addresses.size - 1 - from_end


def reads_its_writes(reads: NDArray[np.int64], writes: NDArray[np.int64]) -> bool:
    """Some place is read in a later iteration than one that writes it; both arrays are by iteration."""
    low = int(min(reads.min(), writes.min()))
    size = int(max(reads.max(), writes.max())) - low + 1
    first_written = np.full(size, writes.size, np.int64)
    np.minimum.at(first_written, writes - low, np.arange(writes.size))
    return bool(np.any(first_written[reads - low] < np.arange(reads.size)))
