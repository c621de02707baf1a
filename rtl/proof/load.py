"""The load engine: every word of an instruction is formed from its bytes, and written once to its address, in order."""

from __future__ import annotations

from functools import partial

import z3

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.dma import chip_operand, moved_word_bytes
from tilewright.rtl.load import LoadEngine, is_packed
from tilewright.rtl.nest_ahead import NestAhead
from tilewright.rtl.proof.bytes import cursor_goals
from tilewright.rtl.proof.dma import DmaEngine, address_side_goals
from tilewright.rtl.proof.engine import Walking, claims_of_whole, owed_goals
from tilewright.rtl.proof.kept import keeps_fields, restored
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.nest import in_one_bank
from tilewright.rtl.proof.nest_ahead import checks, chip_walker_claims, places_in_order
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import number, one_if
from tilewright.rtl.proof.result import Goal, Subject

CUT = ("bursts", "burst_queue", "packer.window")
"""Proved on their own (rtl/proof/bursts.py, queues.py, bytes.py); here, they may do anything."""


def load_engine(machine: Machine, engine: Engine) -> Subject:
    unit = _LoadEngine(LoadEngine(machine, engine))
    claims = {
        "load: takes every beat once, in order": unit.beat_goals,
        "load: forms every word once, in order": unit.word_goals,
        "load: writes every word once": unit.write_goals,
        "load: has room for what it asks for": unit.room_goals,
        "load: retires only what it started": unit.retire_goals,
    }
    walker = chip_walker_claims(unit.engine.packer.walker, "load words", "packer.walker.")
    return Subject(
        netlist(unit.engine, without=CUT, forgetful=("packer.beats", "packing_queue")),
        [*walker, *claims_of_whole(claims)],
    )


class _LoadEngine(DmaEngine):
    def __init__(self, engine: LoadEngine) -> None:
        super().__init__(engine, "packer", "is_packing")
        self.engine = engine

    def part_bytes(self, nets: SubmoduleNets) -> z3.BitVecRef:
        """Of the part that is formed next: a beat's, or what is left of the word."""
        total, bus = number(0), self.machine.dram.bus_bytes
        for position, format in enumerate(self.formats):
            left = number(moved_word_bytes(format, self.machine)) - self.place(nets) * bus
            size = z3.If(z3.ULT(left, bus), left, number(bus))
            total = z3.If(self.is_format(nets, "packer.walker.walk", position), size, total)
        return total

    def is_end(self, nets: SubmoduleNets) -> z3.BoolRef:
        """The part that is formed next is its word's last."""
        ends = [
            all_of(self.is_format(nets, "packer.walker.walk", position), self.place(nets) == self.parts(position) - 1)
            for position in range(len(self.formats))
        ]
        return any_of(*ends)

    def is_known(self, nets: SubmoduleNets) -> z3.BoolRef:
        """A walker's format is one that it was started with."""
        return any_of(*(self.is_format(nets, "packer.walker.walk", position) for position in range(len(self.formats))))

    # -- beats -------------------------------------------------------------------------------------------------------

    def beat_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """A good beat is taken when its bytes have room; they join the window, and the burst ends with its last."""
        packer, bus = nets.part("packer"), self.machine.dram.bus_bytes
        takes, cursor = packer.holds("takes_beat"), packer.part("cursor")
        first, size = cursor.natural("first_byte"), cursor.natural("bytes")
        joined = all_of(
            packer.at("window.put_data") == packer.at("beats.output__payload.data"),
            packer.natural("window.put_first") == first,
        )
        return cursor_goals(cursor, bus, takes) + [
            Goal("put", [], all_of(packer.holds("window.puts") == takes, packer.natural("window.put") == size)),
            Goal("room", [takes], packer.holds("window.fits")),
            Goal("joined", [takes], joined),
            Goal("taken beat", [], nets.moves("packer.beats.output") == takes),
            Goal("taken burst", [], nets.holds("burst_queue.output__ready") == all_of(takes, cursor.holds("is_last"))),
            Goal(
                "good",
                [takes],
                all_of(packer.at("beats.output__payload.error") == 0, nets.holds("burst_queue.output__valid")),
            ),
        ]

    # -- words -------------------------------------------------------------------------------------------------------

    def word_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """The oldest bytes are the next part of the word at the walker's address, once there are enough of them."""
        packer = nets.part("packer")
        walker, moves, is_end = packer.part("walker"), nets.moves("packer.part"), self.is_end(nets)
        payload = packer.part("part__payload")
        window, formed = packer.at("window.data"), packer.at("part__payload.data")
        given = [self.is_known(nets), self.is_inside(nets), *checks(self.engine.packer.walker, walker)]
        has_bytes = z3.UGE(packer.natural("window.count"), self.part_bytes(nets))
        following = z3.If(moves, z3.If(is_end, number(0), self.place(nets) + 1), self.place(nets))
        walking = Walking(
            nets.moves("packing_queue.output"),
            restored(nets.at("packing_queue.output__payload.bits"), self.engine.kept),
            all_of(moves, is_end),
            walker,
            partial(packer.holds, "is_packing"),
        )
        return [
            Goal("address", [moves, *given], payload.natural("address") == walker.signed("address_word")),
            *(self.inside_goal(nets, position, moves) for position in range(len(self.formats))),
            Goal("first part", [nets.run.starts_from_reset()], self.place(nets) == 0),
            Goal("a part of the word", given, self.is_inside(nets, 1)),
            Goal("parts in order", given, self.place(nets, 1) == following),
            Goal("place", [moves], self.place(nets, name="part__payload.place") == self.place(nets)),
            Goal("ends the word", [moves, *given], payload.holds("ends_word") == is_end),
            Goal("last", [moves], payload.holds("is_last") == walker.holds("last")),
            Goal("data", [moves], all_of(packer.natural("window.data_first") == 0, window == formed)),
            Goal("enough", [moves, *given], has_bytes),
            Goal("take", [], packer.holds("window.takes") == moves),
            Goal("take bytes", given, packer.natural("window.take") == self.part_bytes(nets)),
            Goal("queue", [], nets.moves("packing_queue.output") == walker.holds("start")),
            *self.walking_goals(nets, walking, given),
        ]

    def walking_goals(self, nets: SubmoduleNets, walking: Walking, given: list[z3.BoolRef]) -> list[Goal]:
        """What walks ahead takes instructions by itself: the packer need not know of them, but of their words."""
        if not isinstance(self.engine.packer.walker, NestAhead):
            return walking.goals(given)
        walker, steps = walking.walker, walking.steps
        takes = all_of(walker.holds("start") == walking.starts, walker.at("bits") == walking.bits)
        return [
            Goal("take", given, z3.Implies(walking.starts, takes)),
            Goal("index", [], walker.at("started_index") == nets.at("packing_queue.output__payload.index")),
            Goal("step", given, walker.holds("step") == steps),
            Goal("only what is there", given, z3.Implies(steps, walker.holds("valid"))),
            Goal("only when ready", given, z3.Implies(walking.starts, walker.holds("ready"))),
        ]

    def inside_goal(self, nets: SubmoduleNets, position: int, moves: z3.BoolRef) -> Goal:
        format = self.formats[position]
        memory = self.machine.memories[chip_operand(format).memory]
        address = nets.natural("packer.part__payload.address")
        is_format = self.is_format(nets, "packer.walker.walk", position)
        kept = self.is_format(nets, "packer.part__payload.format", position)
        given = checks(self.engine.packer.walker, nets.part("packer.walker"))
        inside = all_of(kept, in_one_bank(address, memory, 1))
        return Goal(f"inside of {format.mnemonic}", [*given, moves, is_format], inside)

    # -- writes ------------------------------------------------------------------------------------------------------

    def write_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """The writer joins the parts of a word, holds it until its memory takes it, and asks no other memory."""
        held, is_held = nets.part("writer.held"), nets.holds("writer.is_held")
        word, word_next = nets.at("writer.word"), nets.at("writer.word", 1)
        comes = nets.moves("packer.part")
        granted = z3.BoolVal(False)
        goals = []
        for position, format in enumerate(self.formats):
            port = f"write_{chip_operand(format).memory}"
            asks = all_of(is_held, self.is_format(nets, "writer.held.format", position))
            if sum(chip_operand(other).memory == chip_operand(format).memory for other in self.formats) > 1:
                asks = all_of(is_held, self.goes_to(nets, chip_operand(format).memory))
            works = all_of(asks, z3.Not(nets.holds("halt")))
            granted = any_of(granted, all_of(works, nets.holds(f"{port}__granted")))
            data, address = nets.at(f"{port}__data"), nets.at(f"{port}__address")
            same = all_of(
                data == z3.Extract(data.size() - 1, 0, word),
                address == z3.Extract(address.size() - 1, 0, held.at("address")),
            )
            goals.append(Goal(f"asks of {format.mnemonic}", [], nets.holds(f"{port}__valid") == works))
            goals.append(Goal(f"word of {format.mnemonic}", [works], same))
        given = [z3.Implies(is_held, self.goes_somewhere(nets))]
        kept = all_of(word_next == word, *(held.at(name, 1) == held.at(name) for name in ("address", "is_last")))
        came = all_of(*(held.at(name, 1) == nets.at(f"packer.part__payload.{name}") for name in ("address", "is_last")))
        retires = all_of(granted, held.holds("is_last"))
        ends = all_of(comes, nets.holds("packer.part__payload.ends_word"))
        return [
            *goals,
            Goal("held", given, nets.holds("writer.is_held", 1) == any_of(ends, all_of(is_held, z3.Not(granted)))),
            Goal("kept", [z3.Not(comes)], kept),
            Goal("came", [comes], came),
            *self.joined_goals(nets, comes, word, word_next),
            Goal("no word over another", [comes, *given], any_of(z3.Not(is_held), granted)),
            Goal("retires with the last write", given, nets.holds("retire") == retires),
        ]

    def joined_goals(
        self, nets: SubmoduleNets, comes: z3.BoolRef, word: z3.BitVecRef, word_next: z3.BitVecRef
    ) -> list[Goal]:
        """A part is written at its place in the word; the other parts stay."""
        bits, goals = 8 * self.machine.dram.bus_bytes, []
        place, data = self.place(nets, name="part__payload.place"), nets.at("packer.part__payload.data")
        for part in range(word.size() // bits):
            old, new = (z3.Extract(bits * part + bits - 1, bits * part, each) for each in (word, word_next))
            goals.append(Goal(f"part {part}", [comes], new == z3.If(place == part, data, old)))
        return goals

    def goes_to(self, nets: SubmoduleNets, memory: str) -> z3.BoolRef:
        positions = [position for position, format in enumerate(self.formats) if chip_operand(format).memory == memory]
        return any_of(*(self.is_format(nets, "writer.held.format", position) for position in positions))

    def goes_somewhere(self, nets: SubmoduleNets) -> z3.BoolRef:
        return any_of(*(self.goes_to(nets, memory) for memory in self.engine.memories))

    def packing(self, nets: SubmoduleNets, cycle: int) -> list[z3.BoolRef]:
        """Where instructions are whose words are formed: one, or those in the places of what walks ahead."""
        if not isinstance(self.engine.packer.walker, NestAhead):
            return [nets.holds("packer.is_packing", cycle)]
        walker = nets.part("packer.walker")
        current = all_of(walker.holds("valid", cycle), walker.holds("last", cycle))
        second = all_of(walker.holds("has_second", cycle), walker.holds("second.last", cycle))
        return [walker.holds("is_walking", cycle), current, second]

    # -- what is in hand ---------------------------------------------------------------------------------------------

    def room_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Beats asked for are in the packer's queue or on their way, and no more than the machine's limit.

        A beat is taken from the bus when the queue has room for it, and none is lost before the run ends. Assumed: no
        beat comes that was not asked for; a beat is taken of a burst only.
        """
        most = self.machine.dram.outstanding_beats

        def asked_at(cycle: int) -> z3.BitVecRef:
            return number(most) - nets.natural("free", cycle)

        def counts(cycle: int) -> z3.BoolRef:
            asked, held = asked_at(cycle), nets.natural("packer.beats.level", cycle)
            return all_of(z3.ULE(held, asked), z3.ULE(asked, most))

        asked, held = asked_at(0), nets.natural("packer.beats.level")
        comes, running = nets.holds("beat__valid"), z3.Not(nets.holds("halt"))
        given = [counts(0), z3.Implies(comes, z3.ULT(held, asked))]
        asks = nets.moves("request")
        grown = z3.If(asks, nets.natural("bursts.beats"), number(0))
        return [
            Goal("reset", [nets.run.starts_from_reset()], counts(0)),
            Goal("counts", given, counts(1)),
            Goal("asked", given, asked_at(1) + one_if(nets.holds("packer.takes_beat")) == asked + grown),
            Goal("a beat is queued", [running], nets.moves("packer.beats.input") == nets.moves("beat")),
            Goal("beats come to an end", [z3.Not(running)], nets.holds("beat__ready")),
            Goal("a burst is queued", [], nets.moves("burst_queue.input") == asks),
            Goal("step", [], nets.holds("step") == asks),
            *address_side_goals(nets),
        ]

    def retire_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """An instruction waits for the packer, or its words are formed, or its last one waits for its write."""

        def in_hand(cycle: int) -> list[z3.BoolRef | z3.BitVecRef]:
            last = all_of(nets.holds("writer.is_held", cycle), nets.holds("writer.held.is_last", cycle))
            return [nets.natural("packing_queue.level", cycle), *self.packing(nets, cycle), last]

        def counted(cycle: int) -> z3.BoolRef:
            waiting, *others = in_hand(cycle)
            total = sum(map(one_if, others), waiting)
            started = nets.natural("started", cycle)
            bounded = all_of(started == total, z3.ULE(started, self.engine.engine.dma.contexts))
            return all_of(bounded, *places_in_order(self.engine.packer.walker, nets.part("packer.walker"), cycle))

        starts = nets.moves("instruction")
        taken, entry = nets.at("instruction__payload.bits"), nets.at("packing_queue.input__payload.bits")
        queued = all_of(
            nets.moves("packing_queue.input"),
            keeps_fields(self.formats, taken, restored(entry, self.engine.kept), is_packed),
            nets.at("packing_queue.input__payload.index") == nets.at("instruction__payload.index"),
        )
        return [
            Goal("reset", [nets.run.starts_from_reset()], counted(0)),
            Goal("counted", [counted(0), z3.Not(nets.holds("halt"))], counted(1)),
            Goal("room for an instruction", [counted(0), starts], queued),
            *owed_goals(nets, in_hand, [counted(0)]),
        ]
