"""The steps of the scheduler, compiled: operation by operation, which can start next, and what that changes.

`emission.schedule` says what the columns of `w` (work) are, `emission.room` those of `r`.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.kernels.marks import NEVER, NOT_YET
from tilewright.compiler.emission.kernels.room import fits, take
from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel

LOADS_COMPARED = 32
"""How many of the loads that are needed next may be chosen from, when the first of them cannot start yet."""


@part_of_kernel
def may_pass(w, r, index):
    """Whether an operation may start whose turn it is not."""
    if w.is_load[w.engine[index]] and w.early_count[0] >= w.loads_ahead:
        return False
    return index < w.passable[r.turn[0]]


@part_of_kernel
def earliest(w, r, index, reserved):
    """The first cycle in which an operation can start whose time has come; NEVER if that is not known yet."""
    room = fits(r, index, r.named, r.begins[index], r.begins[index + 1], reserved)
    return NEVER if room == NOT_YET else max(w.free[w.engine[index]], w.ready[index], room)


@part_of_kernel
def find_next(w, r, engine):
    """When an engine that keeps its order can start its next operation, and which; NEVER if that is not known."""
    w.next_start[engine] = NEVER
    if w.heads[engine] < w.queue_begins[engine + 1]:
        index = w.next_operation[engine] = w.queue[w.heads[engine]]
        if not w.open[index] and (index == r.turn[0] or may_pass(w, r, index)):
            w.next_start[engine] = earliest(w, r, index, w.none_reserved)


@part_of_kernel
def reserve(r, index, reserved):
    """Leave words for what an operation that waits brings on chip."""
    for at in range(r.begins[index], r.begins[index + 1]):
        if r.end[r.named[at]] == NOT_YET:
            reserved[r.memory[r.named[at]]] += r.size[r.named[at]]


@part_of_kernel
def find_next_load(w, r, engine):
    """The next load in the planned order; one that must wait is passed, but its words are left free."""
    turn, is_among = r.turn[0], False
    w.next_start[engine] = NEVER
    w.reserved[:] = 0
    stop = min(w.heads[engine] + LOADS_COMPARED, w.queue_begins[engine + 1])
    for at in range(w.heads[engine], stop + 1):
        if at < stop:
            index = w.queue[at]
        elif not is_among and turn < len(w.engine) and w.engine[turn] == engine:
            index = turn  # it stands too far back, and can always start
        else:
            break
        is_its_turn = index == turn
        is_among = is_among or is_its_turn
        if not w.open[index] and (is_its_turn or may_pass(w, r, index)):
            can_start = earliest(w, r, index, w.none_reserved if is_its_turn else w.reserved)
            planned = w.from_cycle[index] + w.late[0]
            wanted, best = max(can_start, planned), w.next_start[engine]
            if wanted < best or (wanted == best < NEVER and index < w.next_operation[engine]):
                w.next_start[engine], w.next_operation[engine] = wanted, index
            if can_start <= max(w.free[engine], planned):
                break
        reserve(r, index, w.reserved)


@part_of_kernel
def first_engine(w):
    """The engine that can start before the others; of two at once, the one whose operation comes first."""
    first = 0
    for engine in range(len(w.free)):
        start, best = w.next_start[engine], w.next_start[first]
        if start < best or (start == best and w.next_operation[engine] < w.next_operation[first]):
            first = engine
    return first


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
    """One less of what later operations come after is open."""
    for at in range(begins[index], begins[index + 1]):
        later = after[at]
        w.open[later] -= 1
        w.ready[later] = max(w.ready[later], cycle)


@part_of_kernel
def occupy(w, engine, index, start, end):
    """Have an engine busy with an operation: until it has taken it, and for as long as no context is free.

    Engines that read through the same AXI port wait until its beats are through.
    """
    w.free[engine] = start + w.busy[index]
    if w.is_load[engine]:
        for other in range(len(w.free)):
            if w.is_load[other] and other != engine and w.port[other] == w.port[engine]:
                w.free[other] = max(w.free[other], start + w.beats[index])
    if w.contexts[engine]:
        oldest = w.newest[engine] % w.contexts[engine]
        w.free[engine] = max(w.free[engine], w.ends[engine, oldest])
        w.ends[engine, oldest] = end
        w.newest[engine] += 1


@part_of_kernel
def note_early(w, r, index):
    """Count a load among those that have started before their turn, as long as it has not come."""
    w.early[w.early_count[0]] = index
    kept = 0
    for at in range(w.early_count[0] + 1):
        if w.early[at] > r.turn[0]:
            w.early[kept] = w.early[at]
            kept += 1
    w.early_count[0] = kept


@kept_on_disk
def find_order(w, r, order):
    """Fill `order` with all operations by the cycle of their start; when the last of them completes, or NEVER if none
    can start before all have.
    """
    last = w.late[0]
    for count in range(len(order)):
        for engine in range(len(w.free)):
            if w.is_load[engine]:
                find_next_load(w, r, engine)
            else:
                find_next(w, r, engine)
        engine = first_engine(w)
        start, index = w.next_start[engine], w.next_operation[engine]
        if start == NEVER:
            return NEVER
        order[count] = index
        end = start + w.complete[index]
        last = max(last, end)
        dequeue(w, engine, index)
        occupy(w, engine, index, start, end)
        take(r, index, start, end)
        if w.is_load[engine] and w.loads_ahead < len(order):
            note_early(w, r, index)
        # A fill comes after nothing: it starts as soon as there are words for it.
        if not w.is_load[engine] and w.comes_after[index]:
            w.late[0] = start - w.starts[index]
        open_those_after(w, w.after_end_begins, w.after_end, index, end)
        open_those_after(w, w.after_start_begins, w.after_start, index, start)
    return last
