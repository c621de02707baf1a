"""The store engine: every word is read once from its address, in order, and every byte enabled once in its beat."""

from __future__ import annotations

from functools import partial

import z3

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import chip_operand, moved_word_bytes
from tilewright.isa.timing import memory_read
from tilewright.rtl.nest_ahead import NestAhead
from tilewright.rtl.proof.bytes import byte, cursor_goals
from tilewright.rtl.proof.dma import DmaEngine, address_side_goals
from tilewright.rtl.proof.engine import INDUCTIVE, Walking, claims_of_whole
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.nest import in_one_bank
from tilewright.rtl.proof.nest_ahead import checks, chip_walker_claims, in_order
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.responses import retire_goals
from tilewright.rtl.proof.result import Goal, Subject
from tilewright.rtl.store import StoreEngine

CUT = ("bursts", "former.burst_queue", "former.window")
"""Proved on their own (rtl/proof/bursts.py, queues.py, bytes.py); here, they may do anything."""

BUS = f"{INDUCTIVE}, answers to bursts only"


def store_engine(machine: Machine, engine: Engine) -> Subject:
    unit = _StoreEngine(StoreEngine(machine, engine))
    claims = {
        "store: reads every word once, in order": unit.read_goals,
        "store: has room for what it reads": unit.room_goals,
        "store: forms every beat once, in order": unit.beat_goals,
    }
    return Subject(
        netlist(unit.engine, without=CUT, forgetful=("reader.parts",)),
        [
            *chip_walker_claims(unit.engine.reader.walker, "store words", "reader.walker."),
            *claims_of_whole(claims),
            *claims_of_whole({"store: retires only what it started": partial(retire_goals, unit.flight.contexts)}, BUS),
        ],
    )


class _StoreEngine(DmaEngine):
    def __init__(self, engine: StoreEngine) -> None:
        is_there = "walker.valid" if isinstance(engine.reader.walker, NestAhead) else "is_active"
        super().__init__(engine, "reader", is_there)
        self.engine = engine
        self.flight = engine.engine.dma

    def is_from(self, nets: SubmoduleNets, name: str, memory: str) -> z3.BoolRef:
        """The instruction whose format is in a net reads this memory."""
        positions = [position for position, format in enumerate(self.formats) if chip_operand(format).memory == memory]
        return any_of(*(self.is_format(nets, name, position) for position in positions))

    # -- reads -------------------------------------------------------------------------------------------------------

    def read_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """The word at the walker's address, of its instruction's memory, until its parts are granted; then the next."""
        reader = nets.part("reader")
        walker = reader.part("walker")
        granted, goals = z3.BoolVal(False), []
        given = checks(self.engine.reader.walker, walker)
        for name in self.engine.memories:
            port, memory = f"read_{name}", self.machine.memories[name]
            asks, address = nets.holds(f"{port}__valid"), nets.natural(f"{port}__address")
            granted = any_of(granted, all_of(asks, nets.holds(f"{port}__granted")))
            of_memory = all_of(reader.holds("is_active"), self.is_from(nets, "reader.walker.walk", name))
            goals += [
                Goal(f"address of {name}", [*given, asks], all_of(address == walker.signed("address_word"), of_memory)),
                Goal(f"inside {name}", [*given, asks], in_one_bank(walker.signed("address_word"), memory, 1)),
                Goal(
                    f"data of {name}", [self.is_from(nets, "reader.format_granted", name)], self.data_comes(nets, name)
                ),
            ]
        comes = memory_read(self.machine.pipeline)
        format_kept = nets.at("reader.format_granted", comes) == nets.at("reader.walker.walk")
        place, is_end = self.place(nets), z3.BoolVal(False)
        for position in range(len(self.formats)):
            ends = place == self.parts(position) - 1
            is_end = any_of(is_end, all_of(self.is_format(nets, "reader.walker.walk", position), ends))
        following = z3.If(granted, z3.If(is_end, number(0), place + 1), place)
        walking = Walking(
            nets.moves("instruction"),
            nets.at("instruction__payload.bits"),
            all_of(granted, is_end),
            walker,
            partial(reader.holds, "is_active"),
        )
        fault = reader.holds("fault")
        return [
            *goals,
            Goal("format", [granted], format_kept if len(self.formats) > 1 else z3.BoolVal(True)),
            Goal("first part", [nets.run.starts_from_reset()], place == 0),
            Goal("a part of the word", [self.is_inside(nets)], self.is_inside(nets, 1)),
            Goal("parts in order", [self.is_inside(nets)], self.place(nets, 1) == following),
            Goal("part", [], self.place(nets, comes, "place_granted") == place),
            Goal("data follow", [], reader.holds("parts.input__valid", comes) == granted),
            Goal("fault", [fault], all_of(reader.holds("is_active"), walker.holds("fault"), z3.Not(granted))),
            *walking.goals([]),
            *in_order(self.engine.reader.walker, walker, partial(reader.holds, "is_active")),
        ]

    def data_comes(self, nets: SubmoduleNets, name: str) -> z3.BoolRef:
        """The part of a read that was granted goes into the queue when the word comes, with its size."""
        data, bus = nets.at(f"read_{name}__data"), self.machine.dram.bus_bytes
        part, size = nets.at("reader.parts.input__payload.data"), nets.natural("reader.parts.input__payload.bytes")
        claims = []
        for position, format in enumerate(self.formats):
            if chip_operand(format).memory != name:
                continue
            for place in range(self.parts(position)):
                end = min((place + 1) * bus, moved_word_bytes(format, self.machine))
                given = self.is_format(nets, "reader.format_granted", position)
                given = all_of(given, self.place(nets, name="place_granted") == place)
                cut = z3.Extract(8 * end - 1, 8 * place * bus, data)
                same = all_of(z3.Extract(cut.size() - 1, 0, part) == cut, size == end - place * bus)
                claims.append(z3.Implies(given, same))
        return all_of(*claims)

    def room_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Parts read or being read and not moved on are those in the queue and those that come now or later."""
        parts = nets.part("reader.parts")

        def counts(cycle: int) -> z3.BoolRef:
            held = nets.natural("reader.held", cycle)
            coming = one_if(parts.holds("input__valid", cycle))
            for later in range(1, memory_read(self.machine.pipeline)):
                coming = coming + one_if(nets.holds(f"reader.granted_{later}", cycle))
            return all_of(held == parts.natural("level", cycle) + coming, z3.ULE(held, self.flight.beats))

        return [
            Goal("reset", [nets.run.starts_from_reset()], counts(0)),
            Goal("counts", [counts(0)], counts(1)),
            Goal("room for a part", [counts(0), parts.holds("input__valid")], parts.holds("input__ready")),
            *address_side_goals(nets),
        ]

    # -- beats -------------------------------------------------------------------------------------------------------

    def beat_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """A part joins the window when it has room; a beat takes its bytes, at their places, in one cycle."""
        former, bus = nets.part("former"), self.machine.dram.bus_bytes
        cursor, window, halted = former.part("cursor"), former.part("window"), nets.holds("halt")
        forms, moves = former.holds("forms"), nets.moves("reader.parts.output")
        first, size = cursor.natural("first_byte"), cursor.natural("bytes")
        free = any_of(z3.Not(nets.holds("wvalid")), nets.holds("wready"))
        given = [z3.ULE(first + size, bus), free, forms]
        takes = all_of(forms, z3.Not(halted))
        stays = all_of(*(nets.at(name, 1) == nets.at(name) for name in ("wvalid", "wdata", "wstrb", "wlast")))
        return cursor_goals(cursor, bus, forms) + [
            *self.part_goals(nets, moves),
            Goal("put", [], window.holds("puts") == moves),
            Goal("take bytes", [], all_of(window.holds("takes") == takes, window.natural("take") == size)),
            Goal("enough", [takes], z3.ULE(size, window.natural("count"))),
            Goal("of a burst", [forms], all_of(former.holds("burst_queue.output__valid"), free)),
            Goal(
                "taken burst", [], former.holds("burst_queue.output__ready") == all_of(forms, cursor.holds("is_last"))
            ),
            Goal("formed", [free], nets.holds("wvalid", 1) == forms),
            Goal("last", given, nets.holds("wlast", 1) == cursor.holds("is_last")),
            Goal("bytes in place", [*given, z3.Not(halted)], all_of(*self.placed(nets, first, size))),
            Goal("no byte once halted", [*given, halted], nets.at("wstrb", 1) == 0),
            Goal("a beat stays until it is taken", [nets.holds("wvalid"), z3.Not(nets.holds("wready"))], stays),
        ]

    def part_goals(self, nets: SubmoduleNets, moves: z3.BoolRef) -> list[Goal]:
        """All bytes of a part, and no more than there is room for."""
        window, bus = nets.part("former.window"), self.machine.dram.bus_bytes
        part, joins = nets.at("reader.parts.output__payload.data"), window.at("put_data")
        size = nets.natural("reader.parts.output__payload.bytes")
        room = all_of(window.natural("put") == size, window.holds("fits"))
        goals = [Goal("part", [moves, z3.ULE(size, bus)], all_of(room, joins == part))]
        if "former.window.put_first" in nets.run.hardware.nets:  # it is not, where only whole beats are put
            goals.append(Goal("part from its first byte", [moves], window.natural("put_first") == 0))
        return goals

    def placed(self, nets: SubmoduleNets, first: z3.BitVecRef, size: z3.BitVecRef) -> list[z3.BoolRef]:
        """Bytes `first` to `first + size` of a beat are the window's oldest and are enabled; no others are."""
        data, strobe = nets.at("wdata", 1), nets.at("wstrb", 1)
        oldest = nets.at("former.window.data")
        claims = [nets.natural("former.window.data_first") == first]
        for place in range(self.machine.dram.bus_bytes):
            enabled = all_of(z3.ULE(first, place), z3.ULT(number(place), first + size))
            claims.append((z3.Extract(place, place, strobe) == 1) == enabled)
            claims.append(z3.Implies(enabled, byte(data, place) == byte(oldest, place)))
        return claims
