"""Rings, nests and bursts: what several engines do alike."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.isa.machine.engine import MOST_ENGINES


@part_of_kernel
def count_of(rows, count):
    """How many rows are in use: all, a number of the code itself, unless it is the code for any number of them."""
    return count if len(rows) == MOST_ENGINES else len(rows)


@part_of_kernel
def wrapped(slot, size):
    """A slot of a ring, of a number below twice its size; a comparison costs far less than a division."""
    return slot - size if slot >= size else slot


@part_of_kernel
def begin_walk(m, q, at):
    """Set a walker, whose loop indices begin at a place of `q`, to the first iteration."""
    for loop in range(m.loops):
        q[at + loop] = 0


@part_of_kernel
def advance(m, code, q, at, i, end):
    """Move a walker to the next iteration of loops 0 … end-1; the loop that moved on, or -1 after the last."""
    for loop in range(end - 1, -1, -1):
        if q[at + loop] + 1 < code[i, m.trips_column + loop]:
            q[at + loop] += 1
            return loop
        q[at + loop] = 0
    return -1


@part_of_kernel
def first_place(m, code, i, operand):
    """The word or byte at which an operand of an instruction begins."""
    return code[i, m.bases_column + operand]


@part_of_kernel
def step_of(m, code, i, operand, loop):
    """What an operand's place grows by when a loop moves on."""
    return code[i, m.steps_column + operand * m.loops + loop]


@part_of_kernel
def port_of(m, q, word):
    """The bank of a word, both counted through all memories; a word outside (its run has a fault) is the nearest."""
    return q[m.at_port_of_word + min(max(word, 0), m.words - 1)]


@part_of_kernel
def burst_bytes(m, address, left):
    """tilewright.isa.templates.dma.first_burst: the size of the next burst of a run."""
    to_boundary = m.burst_boundary - address % m.burst_boundary
    to_longest = m.burst_beats * m.bus_bytes - address % m.bus_bytes
    return min(left, to_boundary, to_longest)
