"""Which buffers are used at the same time through the same kind of port, and for about how many cycles.

A bank has one read port and one write port. So two buffers that two engines read at the same time, or that one
operation reads, should be in different banks. Where a bank has one port for both, so should one that is read and one
that is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.durations import durations
from tilewright.compiler.emission.kernels.contention import estimate_starts, find_contention
from tilewright.compiler.tile.accesses import Integers, engine_numbers
from tilewright.compiler.tile.program import TileProgram, forms

Contention = Mapping[str, Mapping[str, int]]
"""By buffer, the others and the cycles; buffers of different memories never contend."""

PAIRS_FOR_EACH = 8
"""For so many pairs of each access there is room at first."""


class PortColumns(NamedTuple):
    """Accesses on chip, as `kernels.contention` goes through them: those of an operation from `begins[operation]` on.

    Of each operation its `engine` and for how many cycles that is `busy`. Of each access its `buffer` and `memory`, by
    number; which `port` of a bank it uses; so many `words`, read or written from cycle `begin` after the operation's
    start to before `end`; and whether it `is_first`: where another engine wants the port in the same cycle, that engine
    waits.
    """

    begins: Integers
    engine: Integers
    busy: Integers
    buffer: Integers
    memory: Integers
    port: Integers
    is_write: NDArray[np.bool_]
    is_first: NDArray[np.bool_]
    begin: Integers
    end: Integers
    words: Integers


def contention(program: TileProgram, starts: Integers | None = None) -> Contention:
    """The contention of all buffers on chip; `starts`: the cycle in which each operation starts, if a run has shown it.

    Without, it is estimated: in program order, when their engine is free and what they read is there.
    """
    columns, count, names = _columns(program), len(program.operations), list(program.buffers)
    engines = len(program.machine.engines)
    if starts is None:
        starts = np.zeros(count, np.int64)
        estimate_starts(columns, np.zeros(engines, np.int64), np.zeros(len(names), np.int64), starts)
    order = np.argsort(starts, kind="stable")
    room = PAIRS_FOR_EACH * len(columns.buffer) + 1
    while True:
        found, pairs = np.zeros((room, 3), np.int64), np.zeros(1, np.int64)
        queues, ends = np.zeros((engines, count), np.int64), np.zeros(count, np.int64)
        heads, tails = np.zeros((2, engines), np.int64)
        if find_contention(columns, order, starts, queues, heads, tails, ends, found, pairs):
            break
        room *= 4
    one, other, cycles = found[: pairs[0]].T
    both = np.concatenate([one * len(names) + other, other * len(names) + one])
    distinct, inverse = np.unique(both, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, inverse, np.concatenate([cycles, cycles]))
    beside: dict[str, dict[str, int]] = {}
    for pair, met in zip(distinct.tolist(), total.tolist(), strict=True):
        buffer, neighbour = divmod(pair, len(names))
        beside.setdefault(names[buffer], {})[names[neighbour]] = met
    return beside


def _columns(program: TileProgram) -> PortColumns:
    numbers = {name: number for number, name in enumerate(program.buffers)}
    memories = {name: number for number, name in enumerate(program.machine.memories)}
    of_form: dict[int, list[tuple[str, tuple[int, ...]]]] = {}  # by operand
    counts, buffers, rows = [0], list[int](), list[tuple[int, ...]]()
    of_each = zip(program.operations, program.of_each(forms), program.of_each(durations), strict=True)
    for operation, form, work in of_each:
        if form not in of_form:
            accesses = [access for access in work.accesses if access.times]
            of_form[form] = [(of.operand.name, (memories[of.operand.memory], *of[1:])) for of in accesses]
        counts.append(len(of_form[form]))
        for operand, row in of_form[form]:
            buffers.append(numbers[operation.bases[operand].buffer])
            rows.append(row)
    memory, words, begin, end, is_write, is_first = np.array(rows, np.int64).reshape(-1, 6).T.copy()
    has_one_port = np.array([of.has_one_port for of in program.machine.memories.values()])
    return PortColumns(
        begins=np.cumsum(counts),
        engine=engine_numbers(program),
        busy=np.array([work.busy for work in program.of_each(durations)], np.int64),
        buffer=np.array(buffers, np.int64),
        memory=memory,
        port=np.where(has_one_port[memory], 0, is_write),
        is_write=is_write != 0,
        is_first=is_first != 0,
        begin=begin,
        end=end,
        words=words,
    )
