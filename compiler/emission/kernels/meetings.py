"""Which earlier operations touch a word of each operation, compiled: the pairs that `dependences` is made of.

`first` [accesses] counts words from the start of a space. `run_begins`, `starts` and `stops` are the runs of each form
(`tile.accesses.WordForms`).
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel

FULL = -1
"""Instead of the number of pairs: there are more than there is room for."""


@part_of_kernel
def have_common_word(run_begins, starts, stops, one, other, distance):
    """Whether two forms have a word in common, of which the other begins so many words behind the one."""
    mine, theirs = run_begins[one], run_begins[other]
    while mine < run_begins[one + 1] and theirs < run_begins[other + 1]:
        if stops[mine] <= starts[theirs] + distance:
            mine += 1
        elif stops[theirs] + distance <= starts[mine]:
            theirs += 1
        else:
            return True
    return False


@part_of_kernel
def meet(first, form, run_begins, starts, stops, known, one, other):
    """Whether two accesses to a space have a word in common; `known` keeps the latest answers about forms."""
    mine, theirs, distance = form[one], form[other], first[other] - first[one]
    if distance >= stops[run_begins[mine + 1] - 1] or -distance >= stops[run_begins[theirs + 1] - 1]:
        return False
    if run_begins[mine + 1] - run_begins[mine] == 1 and run_begins[theirs + 1] - run_begins[theirs] == 1:
        return True
    at = (mine * 31 + theirs * 1009 + distance) % len(known)
    if known[at, 0] != mine or known[at, 1] != theirs or known[at, 2] != distance:
        known[at, 0], known[at, 1], known[at, 2] = mine, theirs, distance
        known[at, 3] = have_common_word(run_begins, starts, stops, mine, theirs, distance)
    return known[at, 3] != 0


@part_of_kernel
def is_covered(first, form, run_begins, stops, access, by):
    """Whether one access has all words of another, as far as their bounds say it, or because they are the same."""
    mine, theirs = form[by], form[access]
    if run_begins[mine + 1] - run_begins[mine] > 1:
        return first[access] == first[by] and mine == theirs
    end, last = first[by] + stops[run_begins[mine + 1] - 1], first[access] + stops[run_begins[theirs + 1] - 1]
    return first[access] >= first[by] and last <= end


@kept_on_disk
def find_meetings(
    begins, engine, owner, space, first, form, is_write, run_begins, starts, stops, slots, live, counts, known, found
):
    """Fill `found` with a number for each pair of operations, and say how many there are; FULL if they are too many.

    The number is twice (operation · operations + earlier operation), and one more where the earlier one must only have
    started. A pair comes as often as accesses of the two meet. An access that a later write covers meets nothing any
    more, since whatever would meets the write. `space` is -1 for accesses that are nobody's concern. `slots`: for the
    reads and then the writes of each space, where in `live` they stand; `counts`: how many of them do (0 at first).
    """
    count, pairs = len(engine), 0
    for operation in range(count):
        for access in range(begins[operation], begins[operation + 1]):
            if space[access] < 0:
                continue
            for kind in range(0 if is_write[access] else 1, 2):
                row = 2 * space[access] + kind
                for at in range(slots[row], slots[row] + counts[row]):
                    other = live[at]
                    if not meet(first, form, run_begins, starts, stops, known, access, other):
                        continue
                    if pairs == len(found):
                        return FULL
                    earlier = owner[other]
                    keeps_order = is_write[access] and engine[earlier] == engine[operation]
                    found[pairs] = 2 * (operation * count + earlier) + keeps_order
                    pairs += 1
        for access in range(begins[operation], begins[operation + 1]):
            if space[access] < 0:
                continue
            if is_write[access]:
                for row in range(2 * space[access], 2 * space[access] + 2):
                    kept = slots[row]
                    for at in range(slots[row], slots[row] + counts[row]):
                        if not is_covered(first, form, run_begins, stops, live[at], access):
                            live[kept] = live[at]
                            kept += 1
                    counts[row] = kept - slots[row]
            mine = 2 * space[access] + is_write[access]
            live[slots[mine] + counts[mine]] = access
            counts[mine] += 1
    return pairs
