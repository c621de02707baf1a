"""Rings, nests and bursts: what several engines do alike."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel


@part_of_kernel
def wrapped(slot, size):
    """A slot of a ring, of a number below twice its size; a comparison costs far less than a division."""
    return slot - size if slot >= size else slot


@part_of_kernel
def begin_walk(p, q, walker):
    for loop in range(p.loops):
        q[p.at_index + walker * p.loops + loop] = 0


@part_of_kernel
def advance(p, code, q, walker, i, first, end):
    """Move a walker to the next iteration of loops first … end-1; the loop that moved on, or -1 after the last."""
    for loop in range(end - 1, first - 1, -1):
        if q[p.at_index + walker * p.loops + loop] + 1 < code[i, p.trips_column + loop]:
            q[p.at_index + walker * p.loops + loop] += 1
            return loop
        q[p.at_index + walker * p.loops + loop] = 0
    return -1


@part_of_kernel
def first_place(p, code, i, operand):
    """The word or byte at which an operand of an instruction begins."""
    return code[i, p.bases_column + operand]


@part_of_kernel
def step_of(p, code, i, operand, loop):
    """What an operand's place grows by when a loop moves on."""
    return code[i, p.steps_column + operand * p.loops + loop]


@part_of_kernel
def port_of(p, q, word):
    """The bank of a word, both counted through all memories; a word outside (its run has a fault) is the nearest."""
    return q[p.at_port_of_word + min(max(word, 0), p.words - 1)]


@part_of_kernel
def burst_bytes(p, address, left):
    """tilewright.isa.timing.first_burst: the size of the next burst of a run."""
    to_boundary = p.burst_boundary - address % p.burst_boundary
    to_longest = p.burst_beats * p.bus_bytes - address % p.bus_bytes
    return min(left, to_boundary, to_longest)
