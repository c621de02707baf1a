"""Which earlier operations each operation of a tile program must come after, because they touch the same words.

Two operations on a common word keep their order unless both only read it. This holds before addresses are chosen: two
buffers without a fixed offset have no word in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from tilewright.compiler.emission.kernels.meetings import FULL, find_meetings
from tilewright.compiler.tile.accesses import Accesses, Integers, engine_numbers, program_accesses
from tilewright.compiler.tile.footprint import dense_region
from tilewright.compiler.tile.program import TileProgram

NOBODY = -1
"""The space of what nobody writes, which orders nothing."""

MEETINGS_FOR_EACH = 4
"""For so many meetings of each access there is room at first; most have one or two."""

KNOWN = 1 << 14
"""So many answers about pairs of forms are remembered."""


class Lists(NamedTuple):
    """Numbers of several owners, as kernels take them: those of an owner begin at `begins[owner]`."""

    begins: Integers
    values: Integers

    @staticmethod
    def of(lists: Sequence[Sequence[int]]) -> Lists:
        begins = np.cumsum([0, *map(len, lists)])
        return Lists(begins, np.fromiter(chain.from_iterable(lists), np.int64))

    @property
    def owners(self) -> Integers:
        """The owner of each value."""
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))


@dataclass(frozen=True)
class Dependences:
    """For each operation, earlier ones by index; what follows from others may be missing.

    `completed`: they must have completed before it starts. `started`: they must only have started before it, since
    their engine is its own and keeps the order of what they do.
    """

    completed: tuple[tuple[int, ...], ...]
    started: tuple[tuple[int, ...], ...]

    @cached_property
    def after_end(self) -> Lists:
        """For each operation, those before which it must have completed."""
        return Lists.of(_inverse(self.completed))

    @cached_property
    def after_start(self) -> Lists:
        """For each operation, those before which it must have started."""
        return Lists.of(_inverse(self.started))


def dependences(program: TileProgram) -> Dependences:
    """The dependences of all operations, from the words that they touch."""
    count = len(program.operations)
    pairs = np.unique(_meetings(program, program.of_order(program_accesses)))  # sorted, each once
    pairs = pairs[~np.isin(pairs, pairs[pairs % 2 == 0] + 1)]  # who must have completed has started
    later, earlier = np.divmod(pairs // 2, max(count, 1))
    starts = pairs % 2 == 1
    return Dependences(*(_of_each(later[some], earlier[some], count) for some in (~starts, starts)))


def _meetings(program: TileProgram, accesses: Accesses) -> Integers:
    """A number for each pair of operations that touch a common word, as `find_meetings` has them."""
    regions = [dense_region(buffer) for buffer in program.buffers.values()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in regions))}
    of_buffer = np.array([(numbers[name], offset) for name, offset in regions], np.int64).reshape(-1, 2)
    space, offset = of_buffer[accesses.buffer].T
    is_written = np.zeros(len(numbers), np.bool_)
    is_written[space[accesses.is_write]] = True
    space = np.where(is_written[space], space, NOBODY)
    lists = (2 * space + accesses.is_write)[space != NOBODY]
    slots = np.cumsum(np.concatenate([[0], np.bincount(lists, minlength=2 * len(numbers))]))
    engine = engine_numbers(program)
    room = MEETINGS_FOR_EACH * len(space) + 1
    while True:
        live, known, found = np.zeros(len(space) + 1, np.int64), np.full((KNOWN, 4), -1), np.zeros(room, np.int64)
        pairs = find_meetings(
            accesses.begins,
            engine,
            accesses.operation,
            space,
            accesses.first + offset,
            accesses.form,
            accesses.is_write,
            *accesses.forms,
            slots,
            live,
            np.zeros(2 * len(numbers), np.int64),
            known,
            found,
        )
        if pairs != FULL:
            return found[:pairs]
        room *= 4


def _of_each(owners: Integers, values: Integers, count: int) -> tuple[tuple[int, ...], ...]:
    """The values of each of so many owners, who are in order."""
    ends, listed = np.searchsorted(owners, np.arange(count + 1)).tolist(), values.tolist()
    return tuple(tuple(listed[begin:end]) for begin, end in pairwise(ends))


def _inverse(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each operation, those that name it."""
    after: list[list[int]] = [[] for _ in before]
    for index, earlier in enumerate(before):
        for each in earlier:
            after[each].append(index)
    return after
