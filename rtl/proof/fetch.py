"""Fetch and the read channel: each beat of the program is asked for once, in order, and each client gets its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import z3

from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES, program_unit_bytes
from tilewright.rtl.bus import FETCH, ReadChannel, read_channel_name, read_clients
from tilewright.rtl.fetch import Fetch
from tilewright.rtl.proof.engine import INDUCTIVE, claims_of_whole
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import natural, number, one_if
from tilewright.rtl.proof.result import Goal, Subject

BEATS = f"{INDUCTIVE}, only beats asked for come"


def fetch(machine: Machine) -> Subject:
    claims: dict[str, Callable[[SubmoduleNets], list[Goal]]] = {
        "fetch: asks for every beat once, in order": partial(_ask_goals, machine),
        "fetch: has room for what it asks for": partial(_room_goals, machine),
    }
    return Subject(netlist(Fetch(machine), forgetful=("buffer",)), claims_of_whole(claims, BEATS))


def _ask_goals(machine: Machine, nets: SubmoduleNets) -> list[Goal]:
    """A program begins on a burst boundary, and every beat that has some of its bytes is asked for, and no other.

    Assumed: base and limit stay during a run, which begins in the cycle after a halt with none asked for.
    """
    bus = machine.dram.bus_bytes
    shift = (bus - 1).bit_length()
    asked, asked_next = nets.natural("asked"), nets.natural("asked", 1)
    base, limit = nets.natural("base"), nets.natural("limit")
    beats = natural(z3.LShR(nets.at("limit"), shift)) + one_if(limit & (bus - 1) != 0)
    asks = nets.moves("request")
    size = nets.natural("request__payload.last_beat") + 1
    address = z3.Extract(63, 0, base + asked * bus)
    halted, stay = nets.holds("halt"), all_of(*(nets.at(name, 1) == nets.at(name) for name in ("base", "limit")))

    def counts(cycle: int) -> z3.BoolRef:
        """All bursts asked for so far are whole ones, but for the program's last; the next one is known."""
        asked, burst = nets.natural("asked", cycle), nets.natural("burst", cycle)
        left = beats - asked
        counted = nets.natural("beats_left", cycle) == left
        known = burst == z3.If(z3.ULT(left, BURST_BEATS), left, number(BURST_BEATS))
        whole = any_of(asked == beats, z3.URem(asked, BURST_BEATS) == 0)
        return all_of(z3.ULE(asked, beats), whole, known, counted)

    reserved = number(machine.fetch_beats) - nets.natural("free")  # beats asked for and not given
    owed = [z3.ULE(number(1), reserved), z3.ULE(reserved, asked)]  # as `_room_goals` counts them, where one is given
    bytes_left = limit - (asked - reserved) * bus  # from the first one of the beat that is given
    units = z3.LShR(z3.If(z3.ULT(bytes_left, bus), bytes_left, number(bus)), (program_unit_bytes(bus) - 1).bit_length())
    given = [counts(0)]
    first = nets.natural("request__payload.address")
    last = first + size * bus - 1
    page = -BURST_BOUNDARY_BYTES
    on_boundary = nets.at("base") & (BURST_BOUNDARY_BYTES - 1) == 0
    whole = BURST_BOUNDARY_BYTES % (BURST_BEATS * bus) == 0
    goals = [
        Goal("reset", [nets.run.starts_from_reset()], asked == 0),
        Goal("begins", [asked == 0, halted, stay], counts(1)),
        Goal("counts", [*given, z3.Not(halted), stay], counts(1)),
        Goal("address", [asks, on_boundary], nets.at("request__payload.address") == address),
        Goal("size", [*given, asks], all_of(z3.ULE(number(1), size), z3.ULE(asked + size, beats))),
        Goal("longest", [*given, asks], any_of(size == BURST_BEATS, asked + size == beats)),
        Goal("next", given, asked_next == asked + z3.If(asks, size, number(0))),
        Goal("all", [*given, nets.holds("is_finished")], asked == beats),
        Goal("units", [*given, *owed, nets.moves("output")], nets.natural("output__payload.units") == units),
    ]
    if whole:
        goals.append(Goal("boundary", [*given, asks, on_boundary], first & page == last & page))
    return goals


def _room_goals(machine: Machine, nets: SubmoduleNets) -> list[Goal]:
    """Beats reserved are those in the buffer and those on their way; the rest of the buffer is free."""

    def reserved_at(cycle: int) -> z3.BitVecRef:
        return number(machine.fetch_beats) - nets.natural("free", cycle)

    def counts(cycle: int) -> z3.BoolRef:
        reserved, held = reserved_at(cycle), nets.natural("buffer.level", cycle)
        is_burst = z3.ULE(nets.natural("burst", cycle), BURST_BEATS)
        return all_of(z3.ULE(held, reserved), z3.ULE(reserved, machine.fetch_beats), is_burst)

    reserved, held, comes = reserved_at(0), nets.natural("buffer.level"), nets.holds("beat__valid")
    given = [counts(0), z3.Implies(comes, z3.ULT(held, reserved))]
    asks, gives = nets.moves("request"), nets.moves("output")
    size = nets.natural("request__payload.last_beat") + 1
    grown = z3.If(asks, size, number(0))
    return [
        Goal("reset", [nets.run.starts_from_reset()], counts(0)),
        Goal("counts", given, counts(1)),
        Goal("reserved", given, reserved_at(1) + one_if(gives) == reserved + grown),
        Goal("room for a beat", [*given, comes], nets.holds("buffer.input__ready")),
        Goal("nothing left", [counts(0), nets.holds("is_finished")], held == 0),
        Goal("given beat", [], nets.moves("buffer.output") == gives),
    ]


def read_channel(machine: Machine, port: int) -> Subject:
    name = read_channel_name(port).replace("_", " ")
    claims = {f"{name}: bursts and beats keep their client": partial(_channel_goals, read_clients(machine, port))}
    return Subject(netlist(ReadChannel(machine, port)), claims_of_whole(claims))


MOST_OPEN = (1 << 16) - 1
"""No subordinate holds so many bursts."""


def _channel_goals(clients: Sequence[str], nets: SubmoduleNets) -> list[Goal]:
    """At most one request enters, that of the first client that asks; on the bus it stays until it is accepted.

    Beats are given to a client while a burst is open: accepted by the bus, and its last beat not taken. Beats that come
    when none is, such as those of bursts from before a reset, leave the bus and reach nobody.
    """
    open_bursts = nets.natural("open_bursts")
    is_open = open_bursts != 0
    opened = all_of(nets.holds("arvalid"), nets.holds("arready"))
    closed = all_of(nets.holds("rvalid"), nets.holds("rready"), nets.holds("rlast"), is_open)
    counted = nets.natural("open_bursts", 1) == open_bursts + one_if(opened) - one_if(closed)
    valid, free = nets.holds("arvalid"), any_of(z3.Not(nets.holds("arvalid")), nets.holds("arready"))
    goals = []
    earlier = z3.BoolVal(False)
    for position, client in enumerate(clients):
        asks, takes = nets.holds(f"{client}_request__valid"), nets.moves(f"{client}_request")
        entered = all_of(
            nets.holds("arvalid", 1),
            nets.at("araddr", 1) == nets.at(f"{client}_request__payload.address"),
            nets.natural("arlen", 1) == nets.natural(f"{client}_request__payload.last_beat"),
            nets.at("arid", 1) == position,
        )
        beat = nets.holds(f"{client}_beat__valid")
        mine = all_of(nets.holds("rvalid"), nets.at("rid") == position)
        error = nets.at(f"{client}_beat__payload.error") == z3.Extract(1, 1, nets.at("rresp"))
        same = all_of(nets.at(f"{client}_beat__payload.data") == nets.at("rdata"), error)
        goals += [
            Goal(f"turn of {client}", [], takes == all_of(asks, free, z3.Not(earlier))),
            Goal(f"request of {client}", [takes], entered),
            Goal(f"beat of {client}", [], all_of(beat == all_of(mine, is_open), z3.Implies(beat, same))),
        ]
        earlier = any_of(earlier, asks)
    stays = all_of(*(nets.at(name, 1) == nets.at(name) for name in ("arvalid", "araddr", "arlen", "arid")))
    return [
        *goals,
        Goal("bursts in flight", [z3.ULT(open_bursts, MOST_OPEN)], counted),
        Goal("nothing enters unasked", [z3.Not(earlier), free], z3.Not(nets.holds("arvalid", 1))),
        Goal("a request stays until it is accepted", [valid, z3.Not(nets.holds("arready"))], stays),
        *(
            Goal(
                f"{client} takes its beats",
                [nets.at("rid") == position],
                nets.holds("rready")
                if client == FETCH
                else nets.holds("rready") == any_of(nets.holds(f"{client}_beat__ready"), z3.Not(is_open)),
            )
            for position, client in enumerate(clients)
        ),
    ]
