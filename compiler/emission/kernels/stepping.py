"""A machine that is stepped through without its loads, compiled; `emission.stepping` says what columns `s` has."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.kernels.marks import NOT_YET
from tilewright.compiler.emission.kernels.room import fits, take
from tilewright.isa.kernels.kernel import part_of_kernel


@part_of_kernel
def is_open(s, step):
    """Whether nothing of other steps must still start before a step."""
    return not s.waits_for[step]


@part_of_kernel
def start_of(s, step):
    """When a step can start; its loads have started as soon as they could."""
    operation = s.last[step]
    start = max(s.now[0], s.free[s.engine[operation]], s.ready[operation])
    for load in range(s.first[step], operation):
        if s.is_read[load]:
            start = max(start, s.ready[load] + s.complete[load])
    return start


@part_of_kernel
def has_room(s, step, start):
    """Whether it is a step's turn, or there are words for what it brings on chip."""
    r, first = s.room, s.first[step]
    if first == r.turn[0]:
        return True
    cycle = fits(r, first, r.named, r.begins[first], r.begins[s.last[step] + 1], s.none_reserved)
    return cycle != NOT_YET and cycle <= start


@part_of_kernel
def let_start(s, begins, after, index, cycle):
    """What comes after an operation can start from a cycle on, and its step waits for one less."""
    own = s.step_of[index]
    for at in range(begins[index], begins[index + 1]):
        later = after[at]
        s.ready[later] = max(s.ready[later], cycle)
        if s.step_of[later] != own and s.step_of[later] >= 0:
            s.waits_for[s.step_of[later]] -= 1


@part_of_kernel
def start_operation(s, index, start):
    """Start an operation of a step."""
    engine, end, now = s.engine[index], start + s.complete[index], s.now[0]
    s.order[s.done[0]] = index
    s.done[0] += 1
    s.starts[index] = start
    if not s.is_load[engine]:
        s.free[engine] = start + s.busy[index]
    take(s.room, index, max(start, now), max(end, now))
    let_start(s, s.after_end_begins, s.after_end, index, end)
    let_start(s, s.after_start_begins, s.after_start, index, start)


@part_of_kernel
def start_step(s, step, start):
    """Start a step, and its loads before it."""
    operation = s.last[step]
    for load in range(s.first[step], operation):
        start_operation(s, load, s.ready[load])
    start_operation(s, operation, start)
    s.now[0] = start
