"""The steps of the scheduler, compiled: operation by operation, which can start next, and what that changes.

`emission.schedule` says what the columns of `w` (work) are, `emission.room` those of `r`.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.kernels.room import NOT_YET, fits, take
from tilewright.isa.kernels import kept_on_disk, part_of_kernel

NEVER = 1 << 62
"""A cycle later than the last one of any run."""

LOADS_COMPARED = 32
"""How many of the loads that are needed next may be chosen from, when the first of them cannot start yet."""


@part_of_kernel
def may_pass(w, r, index, load, loads_ahead, early):
    """Whether an operation may start whose turn it is not; `early`: loads that started before theirs."""
    if w.engine[index] == load and early >= loads_ahead:
        return False
    return index < w.passable[r.turn[0]]


@part_of_kernel
def earliest(w, r, index, reserved):
    """The first cycle in which an operation can start whose time has come; NEVER if that is not known yet."""
    room = fits(r, index, r.named, r.begins[index], r.begins[index + 1], reserved)
    return NEVER if room == NOT_YET else max(w.free[w.engine[index]], w.ready[index], room)


@part_of_kernel
def next_of(w, r, engine, loads_ahead, early, none_reserved):
    """When an engine that keeps its order can start its next operation, and which; NEVER if that is not known."""
    if w.heads[engine] == w.queue_begins[engine + 1]:
        return NEVER, -1
    index = w.queue[w.heads[engine]]
    if w.open[index] or (index != r.turn[0] and not may_pass(w, r, index, -1, loads_ahead, early)):
        return NEVER, index
    return earliest(w, r, index, none_reserved), index


@part_of_kernel
def reserve(r, index, reserved):
    """Leave words for what an operation that waits brings on chip."""
    for at in range(r.begins[index], r.begins[index + 1]):
        if r.end[r.named[at]] == NOT_YET:
            reserved[r.memory[r.named[at]]] += r.size[r.named[at]]


@part_of_kernel
def next_load(w, r, load, late, loads_ahead, early, reserved, none_reserved):
    """The next load in the planned order; one that must wait is passed, but its words are left free."""
    best, best_index, turn = NEVER, -1, r.turn[0]
    reserved[:] = 0
    is_among = False
    stop = min(w.heads[load] + LOADS_COMPARED, w.queue_begins[load + 1])
    for at in range(w.heads[load], stop + 1):
        if at < stop:
            index = w.queue[at]
        elif not is_among and turn < len(w.engine) and w.engine[turn] == load:
            index = turn  # it stands too far back, and can always start
        else:
            break
        is_its_turn = index == turn
        is_among = is_among or is_its_turn
        if not w.open[index] and (is_its_turn or may_pass(w, r, index, load, loads_ahead, early)):
            can_start = earliest(w, r, index, none_reserved if is_its_turn else reserved)
            planned = w.from_cycle[index] + late
            wanted = max(can_start, planned)
            if wanted < best or (wanted == best and index < best_index):
                best, best_index = wanted, index
            if can_start <= max(w.free[load], planned):
                break
        reserve(r, index, reserved)
    return best, best_index


@part_of_kernel
def dequeue(w, engine, index):
    """Take an operation out of its engine's queue; those before it move up."""
    at = w.heads[engine]
    while w.queue[at] != index:
        at += 1
    while at > w.heads[engine]:
        w.queue[at] = w.queue[at - 1]
        at -= 1
    w.heads[engine] += 1


@part_of_kernel
def open_those_after(w, begins, after, index, cycle):
    for at in range(begins[index], begins[index + 1]):
        later = after[at]
        w.open[later] -= 1
        w.ready[later] = max(w.ready[later], cycle)


@part_of_kernel
def occupy(w, engine, index, start, end):
    """Have an engine busy with an operation: until it has taken it, and for as long as no context is free."""
    w.free[engine] = start + w.busy[index]
    if w.contexts[engine]:
        oldest = w.newest[engine] % w.contexts[engine]
        w.free[engine] = max(w.free[engine], w.ends[engine, oldest])
        w.ends[engine, oldest] = end
        w.newest[engine] += 1


@kept_on_disk
def find_order(w, r, load, loads_ahead, early, reserved, none_reserved, order):
    """Fill `order` with all operations by the cycle of their start; when the last of them completes, or NEVER if none
    can start before all have.

    `early` [operations] and `reserved` [memories] are room to work in, `none_reserved` [memories] is 0.
    """
    last, late, early_count = 0, 0, 0
    for count in range(len(order)):
        start, index = NEVER, -1
        for engine in range(len(w.free)):
            if engine == load:
                found, which = next_load(w, r, load, late, loads_ahead, early_count, reserved, none_reserved)
            else:
                found, which = next_of(w, r, engine, loads_ahead, early_count, none_reserved)
            if found < start or (found == start and which < index):
                start, index = found, which
        if start >= NEVER:
            return NEVER
        order[count] = index
        engine, end = w.engine[index], start + w.complete[index]
        last = max(last, end)
        dequeue(w, engine, index)
        occupy(w, engine, index, start, end)
        take(r, index, start, end)
        if engine == load and loads_ahead < len(order):
            early[early_count] = index
            kept = 0
            for at in range(early_count + 1):
                if early[at] > r.turn[0]:
                    early[kept] = early[at]
                    kept += 1
            early_count = kept
        # A fill comes after nothing: it starts as soon as there are words for it.
        if engine != load and w.comes_after[index]:
            late = start - w.starts[index]
        open_those_after(w, w.after_end_begins, w.after_end, index, end)
        open_those_after(w, w.after_start_begins, w.after_start, index, start)
    return last
