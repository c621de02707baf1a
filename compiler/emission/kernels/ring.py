"""Where `emission.ring` places buffers, compiled: for each the best address, until one finds none.

Buffers are numbers: their positions in the order of their first operations. `first` and `last` operation, `size`,
`step` (alignment) and `is_in_bank` are columns of them; `start` is their address, or NOWHERE.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.packing import NOWHERE, REUSE_DISTANCE, first_legal
from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel

DONE = -1
"""All buffers have a place."""

LOOKAHEAD = 8
"""An address is checked against this many of the largest buffers that are still to come."""

STEP = 16
"""Operations that make no difference to how long words have been free."""

legal = part_of_kernel(first_legal)


@part_of_kernel
def insert(live, count, start, size, last, position):
    """Put a buffer among those that live, which are in the order of start, stop and last operation."""
    at = count
    while at > 0 and comes_after(live[at - 1], position, start, size, last):
        live[at] = live[at - 1]
        at -= 1
    live[at] = position


@part_of_kernel
def comes_after(one, other, start, size, last):
    """Whether a buffer stands behind another in that order."""
    if start[one] != start[other]:
        return start[one] > start[other]
    if size[one] != size[other]:
        return size[one] > size[other]
    return last[one] > last[other]


@part_of_kernel
def find_candidates(size, step, in_bank, live, taken, start, sizes, words, bank_words, wanted, candidates):
    """Legal addresses worth comparing, in order: in each gap its start, the starts of banks and the banks' pointers.

    `wanted`: those of the banks, in order. The gaps are between the first `taken` of `live`.
    """
    count, gap = 0, 0
    for at in range(taken + 1):
        begin = start[live[at]] if at < taken else words
        if gap + size <= begin:
            for number in range(-1, len(wanted)):
                address = gap if number < 0 else wanted[number]
                if number >= 0 and (address <= gap or address >= begin):
                    continue
                found = legal(size, step, in_bank, address, bank_words)
                if found >= 0 and found + size <= begin and (count == 0 or candidates[count - 1] != found):
                    candidates[count] = found
                    count += 1
        if at < taken:
            gap = max(gap, begin + sizes[live[at]])
    return count


@part_of_kernel
def has_gap(coming, beside, count, start, first, last, size, step, is_in_bank, words, bank_words):
    """Whether a buffer to come fits between those that are in use then."""
    gap = 0
    for at in range(count + 1):
        if at < count and last[beside[at]] < first[coming]:
            continue
        begin = start[beside[at]] if at < count else words
        if gap + size[coming] <= begin:
            found = legal(size[coming], step[coming], is_in_bank[coming], gap, bank_words)
            if found >= 0 and found + size[coming] <= begin:
                return True
        if at < count:
            gap = max(gap, begin + size[beside[at]])
    return False


@part_of_kernel
def find_coming(position, first, last, size, coming):
    """The largest of the buffers that come into use while one is in use; of equal ones, those that come first."""
    count = 0
    for other in range(position + 1, len(first)):
        if first[other] > last[position]:
            break
        if count < LOOKAHEAD:
            coming[count] = other
            count += 1
            continue
        least = 0
        for at in range(1, LOOKAHEAD):
            if size[coming[at]] <= size[coming[least]]:
                least = at
        if size[other] > size[coming[least]]:
            for at in range(least, LOOKAHEAD - 1):
                coming[at] = coming[at + 1]
            coming[LOOKAHEAD - 1] = other
    return count


@part_of_kernel
def weigh_banks(position, contention_begins, others, cycles, start, size, bank_words, weights):
    """Add per bank for how many cycles buffers with a place ask for the same port as this one at the same time."""
    for at in range(contention_begins[position], contention_begins[position + 1]):
        other = others[at]
        if start[other] == NOWHERE:
            continue
        begin, end = start[other] // bank_words, (start[other] + max(size[other], 1) - 1) // bank_words + 1
        for bank in range(begin, end):
            weights[bank] += cycles[at] // (end - begin)


@part_of_kernel
def cost_of(address, size, first, freed_at, bank_words):
    """How much too early words are taken there, in coarse steps, and how many banks they are in."""
    freed = freed_at[address]
    for word in range(address, address + size):
        freed = max(freed, freed_at[word])
    banks = (address + max(size, 1) - 1) // bank_words - address // bank_words + 1
    return max(0, REUSE_DISTANCE - (first - freed)) // STEP + banks


@part_of_kernel
def order_of_equal(costs, candidates, begin, end, pointer, words):
    """Bring the best of some candidates to the front: least cost, then first in the ring, then lowest address."""
    best = begin
    for at in range(begin + 1, end):
        mine, other = (candidates[at] - pointer + words) % words, (candidates[best] - pointer + words) % words
        if costs[at] != costs[best]:
            is_better = costs[at] < costs[best]
        elif mine != other:
            is_better = mine < other
        else:
            is_better = candidates[at] < candidates[best]
        if is_better:
            best = at
    costs[begin], costs[best] = costs[best], costs[begin]
    candidates[begin], candidates[best] = candidates[best], candidates[begin]


@part_of_kernel
def group_of_least(contention, candidates, begin, count):
    """Bring the candidates of least contention to the front, in their order; where they end."""
    least = contention[begin]
    for at in range(begin + 1, count):
        least = min(least, contention[at])
    end = begin
    for at in range(begin, count):
        if contention[at] == least:
            value, address = contention[at], candidates[at]
            for to in range(at, end, -1):
                contention[to], candidates[to] = contention[to - 1], candidates[to - 1]
            contention[end], candidates[end] = value, address
            end += 1
    return end


@part_of_kernel
def find_inside(position, first, last, live, living, inside):
    """Forget buffers that end before this one begins; how many still live, and how many of them beside this one."""
    kept, taken = 0, 0
    for at in range(living):
        other = live[at]
        if last[other] >= first[position]:
            live[kept] = other
            kept += 1
            if first[other] <= last[position]:
                inside[taken] = other
                taken += 1
    return kept, taken


@part_of_kernel
def find_wanted(bank_pointers, bank_words, wanted):
    """The addresses behind each bank's newest buffer, and the first of each bank, in order."""
    banks = len(bank_pointers)
    for at in range(2 * banks):
        value = bank_pointers[at] if at < banks else (at - banks) * bank_words
        to = at
        while to > 0 and wanted[to - 1] > value:
            wanted[to] = wanted[to - 1]
            to -= 1
        wanted[to] = value


@part_of_kernel
def leaves_room(
    position, first, last, size, step, is_in_bank, start, inside, taken, beside, coming, count, words, bank_words
):
    """Whether each buffer to come, taken alone, finds a gap beside this one, which has a start."""
    for at in range(taken):
        beside[at] = inside[at]
    insert(beside, taken, start, size, last, position)
    for at in range(count):
        if not has_gap(coming[at], beside, taken + 1, start, first, last, size, step, is_in_bank, words, bank_words):
            return False
    return True


@part_of_kernel
def choose(
    position, first, last, size, step, is_in_bank, words, bank_words, start, freed_at, pointer, inside, taken, beside,
    candidates, count, contention, costs, coming, coming_count,
):  # fmt: skip
    """The best candidate that leaves room for buffers to come, else the best; it becomes the buffer's start."""
    begin, group, best = 0, 0, NOWHERE
    while begin < count:
        if begin == group:
            group = group_of_least(contention, candidates, begin, count)
            for at in range(begin, group):
                if group - begin > 1:
                    costs[at] = cost_of(candidates[at], size[position], first[position], freed_at, bank_words)
        order_of_equal(costs, candidates, begin, group, pointer, words)
        best = candidates[begin] if best == NOWHERE else best
        start[position] = candidates[begin]
        if leaves_room(
            position, first, last, size, step, is_in_bank, start, inside, taken, beside, coming, coming_count, words,
            bank_words,
        ):  # fmt: skip
            return
        begin += 1
    start[position] = best


@part_of_kernel
def sum_contention(weights, candidates, count, size, bank_words, contention):
    """For each candidate, the weights of the banks that the buffer would be in."""
    for at in range(count):
        contention[at] = 0
        for bank in range(candidates[at] // bank_words, (candidates[at] + max(size, 1) - 1) // bank_words + 1):
            contention[at] += weights[bank]


@kept_on_disk
def fill(
    first, last, size, step, is_in_bank, contention_begins, others, cycles, is_crowded, words, bank_words, is_waiting,
    start, freed_at, pointer, bank_pointers, live, inside, beside, wanted, candidates, contention, costs, weights,
    coming,
):  # fmt: skip
    """Place the buffers that wait, in order; the first for which there is no address, or DONE.

    A buffer goes to the best address where it meets no other: where the fewest others use the port, then where words
    have long been free and in few banks, then as it comes in the ring, unless a large one to come finds no gap then.
    `freed_at` [words + 1]: the last operation of each word's last owner. `pointer` [1] and `bank_pointers`: behind the
    newest buffer of all and of each bank. What follows is room to work in.
    """
    living, has_begun = 0, False
    for position in range(len(first)):
        if not is_waiting[position]:
            continue
        if not has_begun:
            for other in range(len(first)):
                if start[other] != NOWHERE and last[other] >= first[position]:
                    insert(live, living, start, size, last, other)
                    living += 1
            has_begun = True
        living, taken = find_inside(position, first, last, live, living, inside)
        find_wanted(bank_pointers, bank_words, wanted)
        count = find_candidates(
            size[position], step[position], is_in_bank[position], inside, taken, start, size, words, bank_words,
            wanted, candidates,
        )  # fmt: skip
        if not count:
            return position
        if count == 1:
            start[position] = candidates[0]
        else:
            weights[:] = 0
            if not is_crowded[position]:
                weigh_banks(position, contention_begins, others, cycles, start, size, bank_words, weights)
            sum_contention(weights, candidates, count, size[position], bank_words, contention)
            coming_count = find_coming(position, first, last, size, coming)
            choose(
                position, first, last, size, step, is_in_bank, words, bank_words, start, freed_at, pointer[0], inside,
                taken, beside, candidates, count, contention, costs, coming, coming_count,
            )  # fmt: skip
        is_waiting[position] = False
        end = start[position] + size[position]
        pointer[0] = bank_pointers[(end - 1) // bank_words] = end
        freed_at[start[position] : end] = last[position]
        insert(live, living, start, size, last, position)
        living += 1
    return DONE
