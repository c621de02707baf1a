"""Waits, compiled: who touched each word last, and which of the completions that follow an instruction sees anyway.

`first` [accesses] and the runs (`starts`, `stops` [runs]; `run_begins` [forms + 1]) are in units of a place. An engine
has two rows in each place, what it read and what it wrote, of which `rows` says where they begin, or -1 for none.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel


@part_of_kernel
def last_of_row(touched, row, at, run_begins, starts, stops, form):
    """The greatest count that a row has in an access's words."""
    last = 0
    for run in range(run_begins[form], run_begins[form + 1]):
        for unit in range(row + at + starts[run], row + at + stops[run]):
            last = max(last, touched[unit])
    return last


@part_of_kernel
def note_in_row(touched, row, at, run_begins, starts, stops, form, count):
    """Set a row to a count in an access's words."""
    for run in range(run_begins[form], run_begins[form + 1]):
        for unit in range(row + at + starts[run], row + at + stops[run]):
            touched[unit] = count


@part_of_kernel
def prove(waits, proved, instructions, engine, number, operation, needed, earlier):
    """The waits that nothing else implies, and what the start of the instruction proves; `earlier`: of its engine's."""
    engines = waits.shape[1]
    for e in range(engines):
        proved[operation, e] = 0 if earlier < 0 else proved[earlier, e]
    for e in range(engines):
        if needed[e] and (earlier < 0 or needed[e] > proved[earlier, e]):
            waits[operation, e] = needed[e]
    for e in range(engines):
        if waits[operation, e]:
            by = instructions[e, waits[operation, e] - 1]
            for other in range(engines):
                proved[operation, other] = max(proved[operation, other], proved[by, other])
            proved[operation, e] = max(proved[operation, e], waits[operation, e])
    # What the completion of another that is waited for proves needs no wait of its own.
    for e in range(engines):
        needed[e] = waits[operation, e]
    for e in range(engines):
        for other in range(engines):
            if other != e and needed[e] and needed[other]:
                if proved[instructions[other, needed[other] - 1], e] >= needed[e]:
                    waits[operation, e] = 0
    number[engine] += 1


@kept_on_disk
def find_waits(
    begins, engine, place, first, form, is_read, is_write, run_begins, starts, stops, rows, touched, instructions,
    number, needed, proved, waits,
):  # fmt: skip
    """Fill `waits` [operations, engines] with the counts to wait for, 0 for none.

    `place` is -1 for accesses where nobody writes. `touched`, `number` [engines] and `waits` are 0 at first.
    `instructions` [engines, operations] gets the operations of each engine, `proved` what the start of each proves.
    """
    engines = len(number)
    for operation in range(len(engine)):
        own = engine[operation]
        for e in range(engines):
            needed[e] = 0
        for access in range(begins[operation], begins[operation + 1]):
            if place[access] < 0:
                continue
            for e in range(engines):
                # Its own engine's pipeline keeps writes behind earlier ones, so that only a read must wait for it.
                if e == own and is_write[access]:
                    continue
                for wrote in range(0 if is_write[access] else 1, 2):
                    row = rows[place[access], e, wrote]
                    if row >= 0:
                        last = last_of_row(touched, row, first[access], run_begins, starts, stops, form[access])
                        needed[e] = max(needed[e], last)
        earlier = instructions[own, number[own] - 1] if number[own] else -1
        instructions[own, number[own]] = operation
        prove(waits, proved, instructions, own, number, operation, needed, earlier)
        for access in range(begins[operation], begins[operation + 1]):
            if place[access] < 0:
                continue
            for wrote in range(2):
                if is_write[access] if wrote else is_read[access]:
                    row = rows[place[access], own, wrote]
                    note_in_row(touched, row, first[access], run_begins, starts, stops, form[access], number[own])
