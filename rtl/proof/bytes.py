"""Bytes between beats and words: a burst's bytes beat by beat, and the window that turns one width into another."""

from __future__ import annotations

import z3

from tilewright.isa.timing import BURST_BEATS
from tilewright.rtl.beats import Window
from tilewright.rtl.proof.engine import claims_of_whole
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number
from tilewright.rtl.proof.result import Goal, Subject

REDUCED_WINDOWS = ((8, 1, 4), (8, 8, 1))
"""Windows that are proved, as those of load and store on a bus of 8 bytes; larger ones are tested with random bytes."""


def byte(bits: z3.BitVecRef, position: int) -> z3.BitVecRef:
    return z3.Extract(8 * position + 7, 8 * position, bits)


def window(beat_bytes: int, put_step: int = 1, take_step: int = 1) -> Subject:
    """Its user takes no more bytes than it has, and puts no more than there is room for, in multiples of the steps."""

    def goals(nets: SubmoduleNets) -> list[Goal]:
        return _window_goals(nets, beat_bytes, put_step, take_step)

    unit = Window(beat_bytes, put_step, take_step)
    steps = f"put by {put_step}, taken by {take_step}"
    claim = f"window of {unit.capacity} bytes, {steps}: first in, first out"
    return Subject(netlist(unit), claims_of_whole({claim: goals}))


def _window_goals(nets: SubmoduleNets, beat_bytes: int, put_step: int, take_step: int) -> list[Goal]:
    """The bytes that are held are those of the ring from the head on, oldest first; the tail is behind the last."""
    capacity = 2 * beat_bytes
    names = ("count", "head", "tail", "put_first", "data_first")
    count, head, tail, put_first, data_first = (nets.natural(name) for name in names)
    takes, puts, may_put = nets.holds("takes"), nets.holds("puts"), nets.natural("put")
    take, put = z3.If(takes, nets.natural("take"), number(0)), z3.If(puts, may_put, number(0))
    count_after, head_after, tail_after = (nets.natural(name, 1) for name in ("count", "head", "tail"))
    place, joins = z3.BitVec("place", count.size()), nets.at("put_data")

    def at(bits: z3.BitVecRef, index: z3.BitVecRef) -> z3.BitVecRef:
        """The byte at an index."""
        found = byte(bits, 0)
        for i in range(1, bits.size() // 8):
            found = z3.If(index == i, byte(bits, i), found)
        return found

    def ring(cycle: int) -> z3.BitVecRef:
        places = [f"{half}_{i}" for half in ("low", "high") for i in range(beat_bytes)]
        return z3.Concat(*(nets.at(name, cycle) for name in reversed(places)))

    def held(cycle: int, from_head: z3.BitVecRef) -> z3.BitVecRef:
        """A byte that is held, counted from the oldest."""
        return at(ring(cycle), (nets.natural("head", cycle) + from_head) & (capacity - 1))

    def is_whole(*values: z3.BitVecRef, step: int) -> z3.BoolRef:
        return all_of(*(value & (step - 1) == 0 for value in values))

    def is_ring(count: z3.BitVecRef, head: z3.BitVecRef, tail: z3.BitVecRef) -> z3.BoolRef:
        joined = tail == (head + count) & (capacity - 1)
        steps = all_of(is_whole(head, step=take_step), is_whole(tail, step=put_step))
        return all_of(z3.ULE(count, capacity), joined, steps)

    kept = count - take
    given = [
        is_ring(count, head, tail),
        z3.ULE(take, count),
        z3.Implies(puts, nets.holds("fits")),
        z3.ULE(put_first + may_put, beat_bytes),
        z3.ULE(take, beat_bytes),
        is_whole(may_put, put_first, step=put_step),
        is_whole(take, data_first, step=take_step),
    ]
    shown = [z3.ULT(place, count), z3.ULT(data_first + place, beat_bytes)]
    zero = [nets.run.starts_from_reset()]
    return [
        Goal("empty after reset", zero, all_of(count == 0, head == 0, tail == 0)),
        Goal("fits", given, nets.holds("fits") == z3.ULE(kept + may_put, capacity)),
        Goal("count", given, count_after == kept + put),
        Goal("ring", given, is_ring(count_after, head_after, tail_after)),
        Goal("kept", [*given, z3.ULT(place, kept)], held(1, place) == held(0, place + take)),
        Goal("joined", [*given, z3.ULT(place, put)], held(1, kept + place) == at(joins, put_first + place)),
        Goal("shown", [*given, *shown], at(nets.at("data"), data_first + place) == held(0, place)),
    ]


def burst_size(burst: SubmoduleNets, bus_bytes: int) -> z3.BitVecRef:
    """Bytes of a burst as the data side has it, from its first byte in the first beat to its last in the last."""
    first_byte, last_byte, last_beat = (burst.natural(name) for name in ("first_byte", "last_byte", "last_beat"))
    return last_beat * bus_bytes + last_byte + 1 - first_byte


def cursor_goals(cursor: SubmoduleNets, bus_bytes: int, steps: z3.BoolRef) -> list[Goal]:
    """A burst's bytes in order: the first beat's from its first byte on, the others' from byte 0, no byte twice.

    Assumed of a burst: it has bytes, and it stays while its beats are counted.
    """
    burst_bytes, first_byte = burst_size(cursor.part("burst"), bus_bytes), cursor.natural("burst.first_byte")
    size, first, last = cursor.natural("bytes"), cursor.natural("first_byte"), cursor.holds("is_last")

    def done(cycle: int) -> z3.BitVecRef:
        """Bytes of the burst in the beats before the next one."""
        beat = cursor.natural("beat", cycle)
        return z3.If(beat == 0, number(0), beat * bus_bytes - first_byte)

    given = [
        z3.ULT(number(0), burst_bytes),
        z3.ULE(burst_bytes, BURST_BEATS * bus_bytes),
        z3.ULE(cursor.natural("beat"), cursor.natural("burst.last_beat")),
    ]
    begins = first == z3.If(done(0) == 0, first_byte, number(0))
    room = number(bus_bytes) - first
    left = burst_bytes - done(0)
    counted = z3.If(steps, z3.If(last, number(0), done(0) + size), done(0))
    return [
        Goal("reset", [cursor.run.starts_from_reset()], cursor.natural("beat") == 0),
        Goal("first byte", given, begins),
        Goal("bytes", given, all_of(size == z3.If(z3.ULE(left, room), left, room), z3.ULE(number(1), size))),
        Goal("last", given, last == (done(0) + size == burst_bytes)),
        Goal("done", given, done(1) == counted),
    ]
