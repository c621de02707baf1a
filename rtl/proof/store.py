"""The store engine: every word is read once from its address, in order, and every byte enabled once in its beat."""

from __future__ import annotations

from functools import partial

import z3

from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import STORE_WORDS
from tilewright.rtl.proof.bytes import byte, cursor_goals
from tilewright.rtl.proof.engine import INDUCTIVE, Walking, claims_of_whole
from tilewright.rtl.proof.nest import in_one_bank, walker_claims
from tilewright.rtl.proof.netlist import Part, netlist
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.responses import retire_goals
from tilewright.rtl.proof.result import Goal, Subject
from tilewright.rtl.runs import chip_operand, dram_word_bytes
from tilewright.rtl.store import StoreEngine

CUT = ("bursts", "former.burst_queue", "former.window")
"""Proved on their own (rtl/proof/bursts.py, queues.py, bytes.py); here, they may do anything."""

BUS = f"{INDUCTIVE}, answers to bursts only"


def store_engine(machine: Machine) -> Subject:
    unit = _Engine(StoreEngine(machine))
    claims = {
        "store: reads every word once, in order": unit.read_goals,
        "store: has room for what it reads": unit.room_goals,
        "store: forms every beat once, in order": unit.beat_goals,
    }
    return Subject(
        netlist(unit.engine, without=CUT, forgetful=("reader.words",)),
        [
            *walker_claims(unit.engine.reader.walker, "store words", "reader.walker."),
            *claims_of_whole(claims),
            *claims_of_whole({"store: retires only what it started": retire_goals}, BUS),
        ],
    )


class _Engine:
    def __init__(self, engine: StoreEngine) -> None:
        self.engine = engine
        self.machine = engine.machine
        self.formats = engine.formats

    def is_format(self, nets: Part, name: str, position: int, cycle: int = 0) -> z3.BoolRef:
        return nets.at(name, cycle) == position if len(self.formats) > 1 else z3.BoolVal(True)

    def is_from(self, nets: Part, name: str, memory: str) -> z3.BoolRef:
        """The instruction whose format is in a net reads this memory."""
        positions = [position for position, format in enumerate(self.formats) if chip_operand(format).memory == memory]
        return z3.Or(*(self.is_format(nets, name, position) for position in positions))

    # -- reads -------------------------------------------------------------------------------------------------------

    def read_goals(self, nets: Part) -> list[Goal]:
        """The word at the walker's address, of its instruction's memory, until it is granted; then the next one."""
        reader = nets.part("reader")
        walker = reader.part("walker")
        granted, goals = z3.BoolVal(False), []
        for name in self.engine.memories:
            port, memory = f"read_{name}", self.machine.memories[name]
            asks, address = nets.holds(f"{port}__valid"), nets.natural(f"{port}__address")
            granted = z3.Or(granted, z3.And(asks, nets.holds(f"{port}__granted")))
            of_memory = z3.And(reader.holds("is_active"), self.is_from(nets, "reader.walker.walk", name))
            goals += [
                Goal(f"address of {name}", [asks], z3.And(address == walker.signed("address_word"), of_memory)),
                Goal(f"inside {name}", [asks], in_one_bank(walker.signed("address_word"), memory, 1)),
                Goal(
                    f"data of {name}", [self.is_from(nets, "reader.format_granted", name)], self.data_comes(nets, name)
                ),
            ]
        format_kept = nets.at("reader.format_granted", 1) == nets.at("reader.walker.walk")
        walking = Walking(
            nets.moves("instruction"),
            nets.at("instruction__payload.bits"),
            granted,
            walker,
            partial(reader.holds, "is_active"),
        )
        fault = reader.holds("fault")
        return [
            *goals,
            Goal("format", [granted], format_kept if len(self.formats) > 1 else z3.BoolVal(True)),
            Goal("data follow", [], reader.holds("words.input__valid", 1) == granted),
            Goal("fault", [fault], z3.And(reader.holds("is_active"), walker.holds("fault"), z3.Not(granted))),
            *walking.goals([]),
        ]

    def data_comes(self, nets: Part, name: str) -> z3.BoolRef:
        """The word of a read, with its format, goes into the queue of words in the cycle after its grant."""
        data, word = nets.at(f"read_{name}__data"), nets.at("reader.words.input__payload.data")
        kept = z3.Extract(min(data.size(), word.size()) - 1, 0, word) == data
        if len(self.formats) == 1:
            return kept
        return z3.And(kept, nets.at("reader.words.input__payload.format") == nets.at("reader.format_granted"))

    def room_goals(self, nets: Part) -> list[Goal]:
        """Words read or being read and not moved on are those in the queue and the one that comes in this cycle."""
        words = nets.part("reader.words")

        def counts(cycle: int) -> z3.BoolRef:
            held = nets.natural("reader.held", cycle)
            coming = one_if(words.holds("input__valid", cycle))
            return z3.And(held == words.natural("level", cycle) + coming, z3.ULE(held, STORE_WORDS))

        return [
            Goal("reset", [nets.run.starts_from_reset()], counts(0)),
            Goal("counts", [counts(0)], counts(1)),
            Goal("room for a word", [counts(0), words.holds("input__valid")], words.holds("input__ready")),
        ]

    # -- beats -------------------------------------------------------------------------------------------------------

    def beat_goals(self, nets: Part) -> list[Goal]:
        """A word joins the window when it has room; a beat takes its bytes, at their places, in one cycle."""
        former, bus = nets.part("former"), self.machine.dram.bus_bytes
        cursor, window, halted = former.part("cursor"), former.part("window"), nets.holds("halt")
        forms, moves = former.holds("forms"), nets.moves("reader.words.output")
        first, size = cursor.natural("first_byte"), cursor.natural("bytes")
        free = z3.Or(z3.Not(nets.holds("wvalid")), nets.holds("wready"))
        given = [z3.ULE(first + size, bus), free, forms]
        takes = z3.And(forms, z3.Not(halted))
        stays = z3.And(*(nets.at(name, 1) == nets.at(name) for name in ("wvalid", "wdata", "wstrb", "wlast")))
        return cursor_goals(cursor, bus, forms) + [
            *(self.word_goal(nets, position, moves) for position in range(len(self.formats))),
            Goal("nothing put", [z3.Not(moves)], window.natural("put") == 0),
            Goal("take bytes", [], window.natural("take") == z3.If(takes, size, number(0))),
            Goal("enough", [takes], z3.ULE(size, window.natural("count"))),
            Goal("of a burst", [forms], z3.And(former.holds("burst_queue.output__valid"), free)),
            Goal(
                "taken burst", [], former.holds("burst_queue.output__ready") == z3.And(forms, cursor.holds("is_last"))
            ),
            Goal("formed", [free], nets.holds("wvalid", 1) == forms),
            Goal("last", given, nets.holds("wlast", 1) == cursor.holds("is_last")),
            Goal("bytes in place", [*given, z3.Not(halted)], z3.And(*self.placed(nets, first, size))),
            Goal("no byte once halted", [*given, halted], nets.at("wstrb", 1) == 0),
            Goal("a beat stays until it is taken", [nets.holds("wvalid"), z3.Not(nets.holds("wready"))], stays),
        ]

    def word_goal(self, nets: Part, position: int, moves: z3.BoolRef) -> Goal:
        """All bytes of a word, with zeros above, and no more than there is room for."""
        format, window = self.formats[position], nets.part("former.window")
        size = dram_word_bytes(self.machine, format)
        word, joins = nets.at("reader.words.output__payload.data"), window.at("put_data")
        given = [moves, self.is_format(nets, "reader.words.output__payload.format", position)]
        low = z3.Extract(8 * size - 1, 0, joins) == z3.Extract(8 * size - 1, 0, word)
        above = z3.LShR(joins, 8 * size) == 0
        room = z3.ULE(number(size), window.natural("room"))
        return Goal(f"word of {format.mnemonic}", given, z3.And(window.natural("put") == size, room, low, above))

    def placed(self, nets: Part, first: z3.BitVecRef, size: z3.BitVecRef) -> list[z3.BoolRef]:
        """Byte first + i of a beat is byte i of the window and is enabled, for i below `size`; no other is."""
        data, strobe, claims = nets.at("wdata", 1), nets.at("wstrb", 1), []
        oldest = nets.at("former.window.data")
        for place in range(self.machine.dram.bus_bytes):
            enabled = z3.And(z3.ULE(first, place), z3.ULT(number(place), first + size))
            claims.append((z3.Extract(place, place, strobe) == 1) == enabled)
            for start in range(place + 1):
                same = byte(data, place) == byte(oldest, place - start)
                claims.append(z3.Implies(z3.And(enabled, first == start), same))
        return claims
