"""Bytes between beats and words: a burst's bytes beat by beat, and the window that turns one width into another."""

from __future__ import annotations

import z3

from tilewright.rtl.beats import Window
from tilewright.rtl.proof.engine import claims_of_whole
from tilewright.rtl.proof.netlist import Part, netlist
from tilewright.rtl.proof.numbers import number
from tilewright.rtl.proof.result import Goal, Subject

REDUCED_WINDOWS = ((16, 8, (8, 4)), (16, 8, None))
"""Windows that are proved, as those of load and store on a bus of 8 bytes; larger ones are tested with random bytes."""


def byte(bits: z3.BitVecRef, position: int) -> z3.BitVecRef:
    return z3.Extract(8 * position + 7, 8 * position, bits)


def window(capacity: int, most_put: int | None = None, takes: tuple[int, ...] | None = None) -> Subject:
    """Its user takes no more bytes than it has, and puts no more than there is room for, with zeros above them."""

    def goals(nets: Part) -> list[Goal]:
        return _window_goals(nets, capacity, takes)

    some = "" if takes is None else f", {' or '.join(map(str, takes))} at a time"
    return Subject(
        netlist(Window(capacity, most_put, takes)),
        claims_of_whole({f"window of {capacity} bytes{some}: first in, first out": goals}),
    )


def _window_goals(nets: Part, capacity: int, takes: tuple[int, ...] | None) -> list[Goal]:
    count, take, put, room = (nets.natural(name) for name in ("count", "take", "put", "room"))
    place = z3.BitVec("place", nets.at("data").size())
    data, after, joins = nets.at("data"), nets.at("data", 1), nets.at("put_data")
    joins = z3.ZeroExt(data.size() - joins.size(), joins)

    def at(bits: z3.BitVecRef, index: z3.BitVecRef) -> z3.BitVecRef:
        return z3.Extract(7, 0, z3.LShR(bits, index << 3))

    def sized(value: z3.BitVecRef) -> z3.BitVecRef:
        missing = place.size() - value.size()
        return z3.ZeroExt(missing, value) if missing >= 0 else z3.Extract(place.size() - 1, 0, value)

    def zero_above(bits: z3.BitVecRef, size: z3.BitVecRef) -> z3.BoolRef:
        return z3.Implies(z3.ULT(size, capacity), z3.LShR(bits, sized(size) << 3) == 0)

    kept = count - take
    given = [
        z3.ULE(count, capacity),
        z3.ULE(take, count),
        z3.ULE(put, room),
        zero_above(data, count),
        zero_above(joins, put),
        z3.BoolVal(True) if takes is None else z3.Or(take == 0, *(take == some for some in takes)),
    ]
    zero = [nets.run.starts_from_reset()]
    return [
        Goal("empty after reset", zero, z3.And(count == 0, data == 0)),
        Goal("room", given, room == number(capacity) - kept),
        Goal("count", given, z3.And(nets.natural("count", 1) == kept + put, z3.ULE(kept + put, capacity))),
        Goal("zeros", given, zero_above(after, nets.natural("count", 1))),
        Goal("kept", [*given, z3.ULT(place, sized(kept))], at(after, place) == at(data, place + sized(take))),
        Goal("joined", [*given, z3.ULT(place, sized(put))], at(after, sized(kept) + place) == at(joins, place)),
    ]


def cursor_goals(cursor: Part, bus_bytes: int, steps: z3.BoolRef) -> list[Goal]:
    """A burst's bytes in order: the first beat's from its first byte on, the others' from byte 0, no byte twice.

    Assumed of a burst: it has bytes, and it stays while its beats are counted.
    """
    burst_bytes, first_byte = cursor.natural("burst.bytes"), cursor.natural("burst.first_byte")
    done, size, first = cursor.natural("done"), cursor.natural("bytes"), cursor.natural("first_byte")
    last = cursor.holds("is_last")
    inside = z3.ULT(done, burst_bytes)
    given = [inside]
    begins = first == z3.If(done == 0, first_byte, number(0))
    room = number(bus_bytes) - first
    left = burst_bytes - done
    counted = z3.If(steps, z3.If(last, number(0), done + size), done)
    return [
        Goal("reset", [cursor.run.starts_from_reset()], done == 0),
        Goal("first byte", given, begins),
        Goal("bytes", given, z3.And(size == z3.If(z3.ULE(left, room), left, room), z3.ULE(number(1), size))),
        Goal("last", given, last == (done + size == burst_bytes)),
        Goal("done", given, cursor.natural("done", 1) == counted),
    ]
