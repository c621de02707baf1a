"""What `isa.check.hazards` asks of every instruction and every access, compiled: clocks, and who touched words before.

Engines are numbers, as the machine counts them.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel

FULL = -1
"""Instead of the number of hazards: there are more than there is room for."""

READ, WRITTEN = 0, 1
"""The rows of an engine: which of its instructions last read words, and which wrote them."""


@kept_on_disk
def find_clocks(engine, waits, instructions, counts, clocks, missing):
    """Fill `clocks` [instructions, engines] from `waits` of the same shape, and `missing` with the waits that say more
    than comes before, taken for as much as there is.

    `counts` [engines] is 0 at first; `instructions` [engines, instructions] gets those of each engine in order.
    """
    engines = len(counts)
    for index in range(len(engine)):
        own = engine[index]
        if counts[own]:
            for e in range(engines):
                clocks[index, e] = clocks[instructions[own, counts[own] - 1], e]
        for e in range(engines):
            count = waits[index, e]
            if count > counts[e]:
                missing[index, e] = True
                count = counts[e]
            if count > clocks[index, e]:
                seen = instructions[e, count - 1]
                for other in range(engines):
                    clocks[index, other] = max(clocks[index, other], clocks[seen, other])
                clocks[index, e] = max(clocks[index, e], count)
        instructions[own, counts[own]] = index
        counts[own] += 1


@part_of_kernel
def latest(touched, row, begins, ends, range_begins, access):
    """The greatest count of a row in the pieces of an access."""
    found = 0
    for at in range(range_begins[access], range_begins[access + 1]):
        for piece in range(row + begins[at], row + ends[at]):
            found = max(found, touched[piece])
    return found


@part_of_kernel
def first_beyond(touched, row, begins, ends, range_begins, access, known):
    """The first piece of an access whose count in a row is beyond what is known."""
    for at in range(range_begins[access], range_begins[access + 1]):
        for piece in range(begins[at], ends[at]):
            if touched[row + piece] > known:
                return piece
    return -1


@part_of_kernel
def note(touched, row, begins, ends, range_begins, access, count):
    for at in range(range_begins[access], range_begins[access + 1]):
        for piece in range(row + begins[at], row + ends[at]):
            touched[piece] = count


@kept_on_disk
def find_unordered(
    engine, counts, clocks, access_begins, place, is_write, keeps_order, range_begins, begins, ends, rows, unwritten,
    touched, found,
):  # fmt: skip
    """Fill `found` with a row for each way in which an access may come too early, and say how many; FULL if too many.

    A row of `found`: access, READ or WRITTEN, engine and its instructions that must be completed first, first piece;
    for words that nobody has written, the engine is one more than there are. `counts` [engines] is 0 at first; `place`
    is -1 for accesses that come when they like; `keeps_order`: behind what its own engine has written. `rows` [places,
    engines, 2] and `unwritten` [places] say where in `touched` rows begin, -1 for none.
    """
    engines, hazards = rows.shape[1], 0
    for index in range(len(engine)):
        own = engine[index]
        counts[own] += 1
        for access in range(access_begins[index], access_begins[index + 1]):
            if place[access] < 0:
                continue
            writes = is_write[access]
            for kind in range(READ if writes else WRITTEN, WRITTEN + 1):
                for e in range(engines):
                    row = rows[place[access], e, kind]
                    if row < 0 or (e == own and (writes or keeps_order[access])):
                        continue
                    count = latest(touched, row, begins, ends, range_begins, access)
                    if count > clocks[index, e]:
                        if hazards == len(found):
                            return FULL
                        piece = first_beyond(touched, row, begins, ends, range_begins, access, clocks[index, e])
                        found[hazards, 0], found[hazards, 1], found[hazards, 2] = access, kind, e
                        found[hazards, 3], found[hazards, 4] = count, piece
                        hazards += 1
            row = unwritten[place[access]]
            if writes:
                note(touched, row, begins, ends, range_begins, access, 0)
            elif latest(touched, row, begins, ends, range_begins, access):
                if hazards == len(found):
                    return FULL
                piece = first_beyond(touched, row, begins, ends, range_begins, access, 0)
                found[hazards, 0], found[hazards, 1], found[hazards, 2] = access, WRITTEN, engines
                found[hazards, 3], found[hazards, 4] = 1, piece
                hazards += 1
            row = rows[place[access], own, WRITTEN if writes else READ]
            note(touched, row, begins, ends, range_begins, access, counts[own])
    return hazards
