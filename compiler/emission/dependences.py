"""Which earlier operations each operation of a tile program must come after, because they touch the same words.

Two operations on a common word keep their order unless both only read it. This holds before addresses are chosen: two
buffers without a fixed offset have no word in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.mask_rows import MaskRows
from tilewright.compiler.emission.mask_steps import MaskSteps
from tilewright.compiler.tile.footprint import Footprint, dense_region, program_footprints
from tilewright.compiler.tile.program import TileProgram, engines


@dataclass(frozen=True)
class Dependences:
    """For each operation, earlier ones by index; what follows from others may be missing.

    `completed`: they must have completed before it starts. `started`: they must only have started before it, since
    their engine is its own and keeps the order of what they do.
    """

    completed: tuple[tuple[int, ...], ...]
    started: tuple[tuple[int, ...], ...]

    @cached_property
    def after_end(self) -> list[list[int]]:
        """For each operation, those before which it must have completed."""
        return _inverse(self.completed)

    @cached_property
    def after_start(self) -> list[list[int]]:
        """For each operation, those before which it must have started."""
        return _inverse(self.started)


def dependences(program: TileProgram) -> Dependences:
    """The dependences of all operations, from the words that they touch."""
    of_engine = program.of_each(engines)
    footprints = program.of_each(program_footprints)
    regions = {name: dense_region(buffer) for name, buffer in program.buffers.items()}
    masks = _Masks()
    # What nobody writes orders nothing.
    spaces = {regions[f.buffer][0]: _Space(masks) for each in footprints for f in each if f.is_write}
    completed: list[tuple[int, ...]] = []
    started: list[tuple[int, ...]] = []
    for index, (engine, each) in enumerate(zip(of_engine, footprints, strict=True)):
        accesses = []
        for footprint in each:
            name, at = regions[footprint.buffer]
            space = spaces.get(name)
            if space is not None:
                accesses.append((space, masks.access(at, footprint)))
        to_complete: set[int] = set()
        to_start: set[int] = set()
        for space, access in accesses:
            is_write = access.is_write
            for earlier in space.writes.meeting(access):
                (to_start if is_write and of_engine[earlier] == engine else to_complete).add(earlier)
            for earlier in space.reads.meeting(access) if is_write else ():
                (to_start if of_engine[earlier] == engine else to_complete).add(earlier)
        for space, access in accesses:
            space.record(index, access)
        completed.append(tuple(sorted(to_complete)))
        started.append(tuple(sorted(to_start - to_complete)) if to_start else ())
    return Dependences(tuple(completed), tuple(started))


def _inverse(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each operation, those that name it."""
    after: list[list[int]] = [[] for _ in before]
    for index, earlier in enumerate(before):
        for each in earlier:
            after[each].append(index)
    return after


class _Access(NamedTuple):
    """Words of a space; `mask` is None when it has every word from `first` to before `stop`.

    Accesses of one form have the same words, counted from their first.
    """

    first: int
    stop: int
    mask: NDArray[np.bool_] | None
    is_write: bool
    form: int


class _Masks:
    """What is known of masks and of pairs of them; equal ones are one object (`affine_mask`), so that little is new."""

    def __init__(self) -> None:
        self._have_common: dict[tuple[int, int, int], bool] = {}
        self._steps = MaskSteps()
        self.rows = MaskRows()

    def access(self, offset: int, footprint: Footprint) -> _Access:
        """A footprint in a buffer at an offset of its space."""
        _, _, _, is_write, at, mask, is_whole = footprint
        first, length, some = offset + at, len(mask), None if is_whole else mask
        return _Access(first, first + length, some, is_write, self.rows.form(length, some))

    def have_common(self, one: _Access, other: _Access) -> bool:
        """Whether two accesses whose bounds overlap have a word in common."""
        if one.mask is None and other.mask is None:
            return True
        key = one.form, other.form, other.first - one.first
        found = self._have_common.get(key)
        if found is None:
            found = self._have_common[key] = self._compare(one, other)
        return found

    def _compare(self, one: _Access, other: _Access) -> bool:
        start, stop = max(one.first, other.first), min(one.stop, other.stop)
        if one.mask is None or other.mask is None:
            partial = other if one.mask is None else one
            assert partial.mask is not None
            return bool(partial.mask[start - partial.first : stop - partial.first].any())
        step = gcd(self._steps.of(one.mask), self._steps.of(other.mask), other.first - one.first)
        mine = one.mask[start - one.first : stop - one.first : step]
        return bool((mine & other.mask[start - other.first : stop - other.first : step]).any())


FEW = 32
"""So many accesses are gone through one by one."""

GONE = (-1, -1)
"""The bounds of an access that is forgotten: no other meets it."""


class _Accesses:
    """The reads or the writes of one space so far, as (operation, access)."""

    def __init__(self, masks: _Masks) -> None:
        self._masks = masks
        self._found: list[tuple[int, _Access]] = []
        self._facts: NDArray[np.int64] | None = None  # first, stop and form of each, and room for more; not of few
        self._gone = 0

    def meeting(self, access: _Access) -> list[int]:
        """The operations that touch a word of a new access; among few, numpy would take longer to begin than to end."""
        found, have_common = self._found, self._masks.have_common
        if not found:
            return []
        if self._facts is None:
            begin, end = access.first, access.stop
            return [
                operation
                for operation, other in found
                if other.first < end and other.stop > begin and have_common(other, access)
            ]
        first, stop, form = self._facts[:, : len(found)]
        places = np.flatnonzero((first < access.stop) & (stop > access.first))
        if len(places) > FEW:
            places = places[self._masks.rows.may_meet(access.form, form[places], access.first - first[places])]
        return [found[at][0] for at in places.tolist() if have_common(found[at][1], access)]

    def add(self, operation: int, access: _Access) -> None:
        self._found.append((operation, access))
        count = len(self._found)
        if self._facts is None:
            if count > FEW:
                self._facts = np.zeros((3, 2 * count), np.int64)
                self._facts[:, :count] = np.array([(a.first, a.stop, a.form) for _, a in self._found]).T
            return
        if count > self._facts.shape[1]:
            self._facts = np.concatenate([self._facts, np.zeros_like(self._facts)], axis=1)
        self._facts[:, count - 1] = access.first, access.stop, access.form

    def drop_covered(self, by: _Access) -> None:
        """Forget accesses whose words a new write has all: whatever meets them later meets the write too."""
        if self._facts is None:
            if self._found:
                self._found = [each for each in self._found if not _is_covered(each[1], by)]
            return
        count = len(self._found)
        first, stop, _ = self._facts[:, :count]
        inside = np.flatnonzero((first >= by.first) & (stop <= by.stop)).tolist()
        covered = [at for at in inside if _is_covered(self._found[at][1], by)]
        if not covered:
            return
        first[covered], stop[covered] = GONE
        self._gone += len(covered)
        if 2 * self._gone > count:  # otherwise most of the time would go into moving the others up
            kept = np.flatnonzero(stop != GONE[1])
            self._facts[:, : len(kept)] = self._facts[:, kept]
            self._found = [self._found[at] for at in kept.tolist()]
            self._gone = 0
            if len(kept) <= FEW:
                self._facts = None


def _is_covered(access: _Access, by: _Access) -> bool:
    if by.mask is None:
        return access.first >= by.first and access.stop <= by.stop
    return access.first == by.first and access.mask is by.mask


class _Space:
    """What touched the words of one buffer, or of one region with fixed offsets."""

    def __init__(self, masks: _Masks) -> None:
        self.reads, self.writes = _Accesses(masks), _Accesses(masks)

    def record(self, operation: int, access: _Access) -> None:
        if access.is_write:
            self.reads.drop_covered(access)
            self.writes.drop_covered(access)
            self.writes.add(operation, access)
        else:
            self.reads.add(operation, access)
