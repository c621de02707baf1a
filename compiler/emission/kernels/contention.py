"""Which accesses want a port at the same time, compiled; `a` is of `emission.contention`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel


@part_of_kernel
def meet(a, one, other, start, other_start):
    """In how many cycles both of two accesses that use one port take a word, if chance spreads the words; -1 if they
    use two, or at two times.

    An access that always waits for another goes on after the cycles that they have in common: until the other ends, its
    words are in the way.
    """
    if a.buffer[one] == a.buffer[other] or a.memory[one] != a.memory[other] or a.port[one] != a.port[other]:
        return -1
    begin = max(a.begin[one] + start, a.begin[other] + other_start)
    cycles = min(a.end[one] + start, a.end[other] + other_start) - begin
    if cycles <= 0:
        return -1
    length, other_length = a.end[one] - a.begin[one], a.end[other] - a.begin[other]
    if a.is_first[one]:
        return (a.end[one] + start - begin) * a.words[one] // length
    if a.is_first[other]:
        return (a.end[other] + other_start - begin) * a.words[other] // other_length
    return cycles * a.words[one] * a.words[other] // (length * other_length)


@part_of_kernel
def meet_all(a, operation, other, starts, found, pairs):
    """Note all pairs of accesses of two operations, and count them in `pairs`; whether there was room."""
    for one in range(a.begins[operation], a.begins[operation + 1]):
        for beside in range(a.begins[other], a.begins[other + 1]):
            cycles = meet(a, one, beside, starts[operation], starts[other])
            if cycles < 0:
                continue
            if pairs[0] == len(found):
                return False
            row = found[pairs[0]]
            row[0], row[1], row[2] = a.buffer[one], a.buffer[beside], cycles
            pairs[0] += 1
    return True


@kept_on_disk
def estimate_starts(a, free, there, starts):
    """Fill `starts` [operations]: in program order, when their engine is free and what they read on chip is there.

    `free` [engines] and `there` [buffers] are 0 at first.
    """
    start = 0
    for operation in range(len(a.engine)):
        engine = a.engine[operation]
        start = max(start, free[engine])
        for at in range(a.begins[operation], a.begins[operation + 1]):
            # The array adds to its own sums without a wait.
            if not a.is_write[at] and not a.is_first[at]:
                start = max(start, there[a.buffer[at]])
        free[engine] = start + a.busy[operation]
        starts[operation] = start
        for at in range(a.begins[operation], a.begins[operation + 1]):
            if a.is_write[at]:
                there[a.buffer[at]] = start + a.end[at]


@kept_on_disk
def find_contention(a, order, starts, queues, heads, tails, ends, found, pairs):
    """Fill `found` with (buffer, other buffer, cycles) for each two accesses that meet, and count them in `pairs`;
    whether there was room for all.

    `order` [operations]: them in the order of their `starts`. `queues` [engines, operations] with `heads` and `tails`:
    the operations of each engine that others may still meet. `ends` [operations] is filled; `heads`, `tails` and
    `pairs` [1] are 0 at first.
    """
    has_room = True
    for operation in order:
        engine, start = a.engine[operation], starts[operation]
        ends[operation] = start
        for at in range(a.begins[operation], a.begins[operation + 1]):
            ends[operation] = max(ends[operation], start + a.end[at])
        has_room = has_room and meet_all(a, operation, operation, starts, found, pairs)
        for other in range(len(heads)):
            while heads[other] < tails[other] and ends[queues[other, heads[other]]] <= start:
                heads[other] += 1
            if other == engine:
                continue
            for at in range(heads[other], tails[other]):
                has_room = has_room and meet_all(a, operation, queues[other, at], starts, found, pairs)
        queues[engine, tails[engine]] = operation
        tails[engine] += 1
    return has_room
