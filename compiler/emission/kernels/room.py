"""Words that are taken and given back as operations start, compiled. `r` is of `emission.room`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.kernels.marks import NOT_YET
from tilewright.isa.kernels.kernel import part_of_kernel

AHEAD, OF = 3, 4
"""The share of the words free at its turn that an operation may fill ahead of it; the rest leaves the allocator a
choice."""


@part_of_kernel
def limit(r, memory, index):
    """How many words may be in use beside what an operation brings, and with it."""
    if index == r.turn[0]:
        return max(r.depth[memory], r.planned[memory, index])  # what never fits is refused by the allocator
    in_use = r.original[memory, index]
    filled = in_use + (r.depth[memory] - in_use) * AHEAD // OF
    return max(in_use, min(filled, r.for_ahead[memory]))


@part_of_kernel
def fits_from(r, index, buffer, reserved):
    """The first cycle in which there are words for a buffer of an operation; NOT_YET if that is not known."""
    memory = r.memory[buffer]
    over = r.live[memory] + reserved[memory] + r.size[buffer] - limit(r, memory, index)
    if over <= 0:
        return 0
    for at in range(r.release_begins[memory], r.release_ends[memory]):
        over -= r.release_words[memory, at]
        if over <= 0:
            return r.release_cycles[memory, at]
    return NOT_YET


@part_of_kernel
def stays_free(r, index, buffer):
    """Whether an operation ahead of its turn leaves all before it their words; if not, it is asked again later."""
    memory, last = r.memory[buffer], NOT_YET
    most = limit(r, memory, index) - r.size[buffer]
    for at in range(r.turn[0], r.first[buffer]):
        if r.planned[memory, at] > most:
            last = at
    if last == NOT_YET:
        return True
    r.retry[index] = last + 1
    return False


@part_of_kernel
def fits(r, index, buffers, begin, end, reserved):
    """The first cycle in which there are words for those of some `buffers` that take theirs with an operation; NOT_YET
    if that is not known yet. `reserved`: by memory, words to leave for operations that wait.
    """
    cycle, fresh = 0, 0
    for at in range(begin, end):
        if r.end[buffers[at]] == NOT_YET:
            from_cycle = fits_from(r, index, buffers[at], reserved)
            if from_cycle == NOT_YET:
                return NOT_YET
            cycle, fresh = max(cycle, from_cycle), fresh + 1
    if not fresh or index <= r.turn[0]:
        return cycle
    if r.retry[index] > r.turn[0]:
        return NOT_YET
    for at in range(begin, end):
        if r.end[buffers[at]] == NOT_YET and not stays_free(r, index, buffers[at]):
            return NOT_YET
    return cycle


@part_of_kernel
def give_back(r, buffer):
    """Nobody names a buffer any more: its words come free when the last of its operations completes."""
    memory = r.memory[buffer]
    cycle, words = r.end[buffer], r.size[buffer]
    at = r.release_ends[memory]
    while at > r.release_begins[memory] and (
        r.release_cycles[memory, at - 1] > cycle
        or (r.release_cycles[memory, at - 1] == cycle and r.release_words[memory, at - 1] > words)
    ):
        r.release_cycles[memory, at] = r.release_cycles[memory, at - 1]
        r.release_words[memory, at] = r.release_words[memory, at - 1]
        at -= 1
    r.release_cycles[memory, at], r.release_words[memory, at] = cycle, words
    r.release_ends[memory] += 1
    # What came before its turn leaves its words to others, then as well.
    for later in range(r.turn[0], r.last[buffer] + 1):
        r.planned[memory, later] -= words
    if r.turn[0] < r.first[buffer]:
        r.retry[:] = 0  # there is more room than when they were refused


@part_of_kernel
def take(r, index, start, end):
    """Start an operation in a cycle, not before those that started earlier; it completes in cycle `end`."""
    for memory in range(len(r.live)):
        at = r.release_begins[memory]
        while at < r.release_ends[memory] and r.release_cycles[memory, at] <= start:
            r.live[memory] -= r.release_words[memory, at]
            at += 1
        r.release_begins[memory] = at
    for at in range(r.begins[index], r.begins[index + 1]):
        buffer = r.named[at]
        memory = r.memory[buffer]
        if r.end[buffer] == NOT_YET:
            r.live[memory] += r.size[buffer]
            for earlier in range(r.turn[0], r.first[buffer]):
                r.planned[memory, earlier] += r.size[buffer]
        r.end[buffer] = max(r.end[buffer], end)
        r.left[buffer] -= 1
        if not r.left[buffer]:
            give_back(r, buffer)
    r.started[index] = True
    while r.started[r.turn[0]]:
        r.turn[0] += 1
