"""The matrix engine: each weight row, each vector and each accumulator block is asked for once, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import z3

from tilewright.isa.language.numeric import FloatType, IntegerType
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE, InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import is_transposing, systolic_weights
from tilewright.isa.timing import MMA_WEIGHT_LEAD, mma_read, mma_sum, mma_write
from tilewright.rtl.arrays import array_names, factor_types, plain_type, weight_elements
from tilewright.rtl.mma import MmaEngine
from tilewright.rtl.proof.engine import Walking, claims_of_whole, owed_goals
from tilewright.rtl.proof.in_flight import in_flight, in_flight_goals
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.meaning import as_integer, steps
from tilewright.rtl.proof.nest import bank_of, in_one_bank, walker_claims
from tilewright.rtl.proof.nest_ahead import checks, chip_walker_claims, in_order, walks
from tilewright.rtl.proof.netlist import SubmoduleNets, netlist
from tilewright.rtl.proof.numbers import natural, number, one_if
from tilewright.rtl.proof.result import Goal, Subject


def mma_engine(machine: Machine, engine: Engine) -> Subject:
    """The engine without its array: what is claimed holds whatever the array's sums are."""
    unit = _MatrixEngine(MmaEngine(machine, engine))
    claims = {
        "mma: reads every weight row once, in order": unit.weight_goals,
        "mma: asks for every vector once, in order": unit.vector_goals,
        "mma: a tile's weights come before its vectors": unit.tile_goals,
        "mma: adds to and writes the sums of each vector": unit.sum_goals,
        "mma: retires only what it started": unit.retire_goals,
    }
    if len(weight_elements(machine, engine)) > 1:
        claims["mma: weights are elements of the type that the instruction says"] = unit.element_goals
    if unit.sums_memory.has_one_port:
        claims["mma: never reads and writes sums of one bank at once"] = unit.apart_goals
    if unit.engine.can_transpose:
        claims["mma: transposes the tiles of the instructions that say so"] = unit.orientation_goals
    return Subject(
        netlist(unit.engine, without=array_names(machine, engine)),
        [
            *walker_claims(unit.engine.tiles.walker, "mma w", "tiles.walker."),
            *chip_walker_claims(unit.engine.vectors.walker, "mma a and c", "vectors.walker."),
            *claims_of_whole(claims),
        ],
    )


class _MatrixEngine:
    def __init__(self, engine: MmaEngine) -> None:
        self.engine = engine
        self.machine = engine.machine
        self.memories = engine.machine.memories
        self.sums_memory = self.memories[engine.sums.memory]

    # -- weights -----------------------------------------------------------------------------------------------------

    def row(self, nets: SubmoduleNets, cycle: int) -> z3.BitVecRef:
        return nets.natural("tiles.row", cycle) if nets.has("tiles.row") else number(0)

    def rows_in_range(self, nets: SubmoduleNets, cycle: int) -> z3.BoolRef:
        row = self.row(nets, cycle)
        waits = z3.Implies(z3.Not(nets.holds("tiles.is_active", cycle)), row == 0)
        return all_of(z3.ULT(row, self.engine.engine.array.rows), waits)

    def weight_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """Rows 0, 1, … of the tile at the walker's address, then the walker's next; over with the last one's last."""
        tiles, row = nets.part("tiles"), self.row(nets, 0)
        memory = self.memories[self.engine.weights.memory]
        wanted = tiles.part("walker").signed("address_w") + row
        reads, is_last_row = nets.holds("w__valid"), row == self.engine.engine.array.rows - 1
        counted = z3.If(is_last_row, number(0), row + 1)
        is_bad = all_of(tiles.holds("is_active"), z3.Not(in_one_bank(wanted, memory, 1)))
        given = [self.rows_in_range(nets, 0)]
        walking = self.walking(nets, "tiles", all_of(reads, is_last_row))
        return [
            Goal("reset", [nets.run.starts_from_reset()], self.rows_in_range(nets, 0)),
            Goal("rows", given, self.rows_in_range(nets, 1)),
            Goal("address", [*given, reads], nets.natural("w__address") == wanted),
            Goal("inside", [*given, reads], all_of(tiles.holds("is_active"), in_one_bank(wanted, memory, 1))),
            Goal("next row", given, self.row(nets, 1) == z3.If(reads, counted, row)),
            Goal("fault", [*given, tiles.holds("fault")], all_of(is_bad, tiles.signed("fault_address") == wanted)),
            *walking.goals([]),
        ]

    def walking(self, nets: SubmoduleNets, unit: str, steps: z3.BoolRef) -> Walking:
        bits = nets.at("instruction__payload.bits")
        part = nets.part(unit)
        return Walking(nets.moves("instruction"), bits, steps, part.part("walker"), partial(part.holds, "is_active"))

    # -- vectors -----------------------------------------------------------------------------------------------------

    def vector_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """The walker's block of activations until it is granted, then the next one; nothing of a bad iteration."""
        vectors, a = nets.part("vectors"), self.engine.activations
        walker, asks = vectors.part("walker"), nets.holds("a__valid")
        good = all_of(
            in_one_bank(walker.signed("address_a"), self.memories[a.memory], a.block),
            self.in_bank_of_sums(walker, walker.signed("address_c")),
        )
        issues = all_of(asks, nets.holds("a__granted"))
        known, given = self.knows_format(nets, 0), self.checks(nets)
        return [
            Goal("reset", [nets.run.starts_from_reset()], known),
            Goal("a format of its own", [known], self.knows_format(nets, 1)),
            Goal("address", [known, asks, *given], nets.natural("a__address") == walker.signed("address_a")),
            Goal("inside", [known, asks, *given], all_of(vectors.holds("is_active"), good)),
            Goal("issue", [], vectors.holds("issues") == issues),
            Goal("fault", [known, *given, vectors.holds("fault")], all_of(vectors.holds("is_active"), z3.Not(good))),
            *self.walking(nets, "vectors", issues).goals([]),
            *in_order(self.engine.vectors.walker, walker, partial(vectors.holds, "is_active")),
        ]

    def checks(self, nets: SubmoduleNets) -> list[z3.BoolRef]:
        return checks(self.engine.vectors.walker, nets.part("vectors").part("walker"))

    def tile_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """At most one tile is begun whose first vector has not issued; that issues when the weights are on their way.

        Assumed: an instruction starts when the one before has issued as many first vectors as it began tiles.
        """
        vectors, tiles = nets.part("vectors"), nets.part("tiles")
        steps = range(1, MMA_WEIGHT_LEAD)
        begins = all_of(nets.holds("w__valid"), self.row(nets, 0) == 0)
        first = all_of(vectors.holds("issues"), vectors.part("walker").holds("is_first_tile"))

        def begun(cycle: int) -> z3.BitVecRef:
            total = one_if(vectors.holds("has_weights", cycle))
            for step in steps:
                total = total + one_if(vectors.holds(f"tile_begins_{step}", cycle))
            return total

        def at_most_one(cycle: int) -> z3.BoolRef:
            return begun(cycle) + one_if(tiles.holds("may_begin", cycle)) <= 1

        clean_start = z3.Implies(nets.moves("instruction"), begun(0) + one_if(begins) == one_if(first))
        given = [at_most_one(0), clean_start, self.rows_in_range(nets, 0)]
        entered = vectors.holds("tile_begins_1", 1) == begins
        passed = [vectors.holds(f"tile_begins_{s + 1}", 1) == vectors.holds(f"tile_begins_{s}") for s in steps[:-1]]
        return [
            Goal("reset", [nets.run.starts_from_reset()], at_most_one(0)),
            Goal("at most one tile ahead", given, at_most_one(1)),
            Goal("count", given, begun(1) + one_if(first) == begun(0) + one_if(begins)),
            Goal("lead", given, all_of(entered, *passed)),
            Goal("has weights", [*given, first], vectors.holds("has_weights")),
        ]

    def orientation_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """The reader knows it of the instruction whose rows it reads, and the array gets it with each tile's row 0."""
        started, kept, read = nets.moves("instruction"), "tiles.transposes", self.engine.read
        begins = all_of(nets.holds("w__valid"), self.row(nets, 0) == 0)
        last_row = self.row(nets, 0) == self.engine.engine.array.rows - 1
        done = any_of(z3.Not(nets.holds("tiles.is_active")), all_of(nets.holds("w__valid"), last_row))
        return [
            *(
                Goal(
                    f"orientation of {format.mnemonic}",
                    [started, self.field(format, OPCODE, nets) == format.opcode],
                    nets.holds(kept, 1) == is_transposing(format),
                )
                for format in self.engine.formats
            ),
            Goal("kept", [z3.Not(started)], nets.at(kept, 1) == nets.at(kept)),
            Goal("no rows left at a start", [started], done),
            Goal("row 0", [], nets.holds("array.loads", read) == begins),
            Goal("with row 0", [begins], nets.at("array.transposes", read) == nets.at(kept)),
        ]

    # -- sums --------------------------------------------------------------------------------------------------------

    @property
    def chain(self) -> list[str]:
        """The registers behind an issue, cycle by cycle, up to the write."""
        read, write = mma_read(self.engine.engine.array), mma_write(self.engine.engine.array)
        return [*(f"at_{c}" for c in range(1, read + 1)), *(f"at_write_{c}" for c in range(1, write - read + 1))]

    def address(self, nets: SubmoduleNets, register: str, cycle: int = 0) -> z3.BitVecRef:
        return natural(z3.Extract(self.address_bits - 1, 0, nets.at(register, cycle)))

    @property
    def address_bits(self) -> int:
        return self.memories[self.engine.sums.memory].address_bits

    def flag(self, nets: SubmoduleNets, register: str, number_: int, cycle: int = 0) -> z3.BoolRef:
        """Behind the address: 0, whether the vector is its instruction's last; 1, whether it adds."""
        bit = self.address_bits + number_
        return z3.Extract(bit, bit, nets.at(register, cycle)) == 1

    def sum_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """What a vector does to its sums is decided when it issues, and passed on cycle by cycle to read and write."""
        vectors = nets.part("vectors")
        issues, first, writing = vectors.holds("issues"), self.chain[0], self.chain[-1]
        reading = self.chain[mma_read(self.engine.engine.array) - 1]
        entered = all_of(
            self.address(nets, first, 1) == vectors.part("walker").signed("address_c"),
            self.in_bank_of_sums(vectors.part("walker"), self.address(nets, first, 1)),
            self.writes_its_words(nets, first),
            self.flag(nets, first, 0, 1) == vectors.part("walker").holds("last"),
            self.flag(nets, first, 1, 1) == vectors.holds("adds"),
        )
        works = z3.Not(nets.holds("halt"))
        is_read = all_of(nets.holds(f"is_{reading}"), self.flag(nets, reading, 1), works)
        is_written = all_of(nets.holds(f"is_{writing}"), works)
        return [
            Goal("issue", [], nets.holds(f"is_{first}", 1) == issues),
            Goal("what issues", [issues, self.knows_format(nets, 0), *self.checks(nets)], entered),
            *in_flight_goals(self.machine, nets, self.chain),
            Goal("passed on", [self.in_flight(nets)], self.passed_on(nets)),
            Goal("read", [], nets.holds("c_read__valid") == is_read),
            Goal("read address", [], nets.natural("c_read__address") == self.address(nets, reading)),
            Goal("write", [], nets.holds("c_write__valid") == is_written),
            Goal("write address", [], nets.natural("c_write__address") == self.address(nets, writing)),
            *self.mask_goals(nets, writing),
            Goal("adds", [], vectors.holds("adds") == self.adds(vectors)),
            *(self.accumulate_goal(format, nets) for format in self.engine.formats),
        ]

    def apart_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """A vector that adds is not so far behind another that it reads the bank in which that one writes."""
        vectors, chain = nets.part("vectors"), self.chain
        known = partial(self.knows_taken_banks, nets)
        apart = partial(self.are_apart, nets)
        reads_and_writes = all_of(nets.holds("c_read__valid"), nets.holds("c_write__valid"))
        read, written = (self.bank(nets.natural(f"{port}__address")) for port in ("c_read", "c_write"))
        is_in_memory = self.in_bank_of_sums(vectors.part("walker"), vectors.part("walker").signed("address_c"))
        given = [
            known(0),
            self.in_flight(nets),
            self.knows_format(nets, 0),
            z3.Implies(vectors.holds("issues"), is_in_memory),
        ]
        pairs = list(zip(chain, chain[mma_sum(self.engine.engine.array) :], strict=False))
        return [
            Goal("reset", [nets.run.starts_from_reset()], all_of(known(0), *(apart(*pair, 0) for pair in pairs))),
            Goal("banks of earlier vectors", given, known(1)),
            Goal("apart", [*given, *(apart(*pair, 0) for pair in pairs)], all_of(*(apart(*pair, 1) for pair in pairs))),
            Goal("at once", [*(apart(*pair, 0) for pair in pairs), reads_and_writes], read != written),
        ]

    def bank(self, address: z3.BitVecRef) -> z3.BitVecRef:
        return bank_of(address, self.sums_memory)

    def knows_taken_banks(self, nets: SubmoduleNets, cycle: int) -> z3.BoolRef:
        """The registers of the vectors that issued last have what is on its way behind them."""
        claims = []
        for count, at in enumerate(self.chain[: mma_sum(self.engine.engine.array)], 1):
            has_issued, bank = nets.holds(f"is_{at}", cycle), f"vectors.bank_of_sums_{count}"
            claims.append(nets.holds(f"vectors.has_issued_{count}", cycle) == has_issued)
            if nets.has(bank):
                known = nets.natural(bank, cycle) == self.bank(self.address(nets, at, cycle))
                claims.append(z3.Implies(has_issued, known))
        return all_of(*claims)

    def are_apart(self, nets: SubmoduleNets, later: str, earlier: str, cycle: int) -> z3.BoolRef:
        """Not both on their way, the later one to add, to sums in one bank."""
        both = [nets.holds(f"is_{later}", cycle), nets.holds(f"is_{earlier}", cycle), self.flag(nets, later, 1, cycle)]
        later_bank, earlier_bank = (self.bank(self.address(nets, at, cycle)) for at in (later, earlier))
        return z3.Not(all_of(*both, later_bank == earlier_bank))

    def of_each(self, walker: SubmoduleNets, claim: Callable[[InstructionFormat], z3.BoolRef]) -> z3.BoolRef:
        """What is claimed of the instruction that a walker has: each format has a number there, if it has several."""
        if len(self.engine.formats) == 1:
            return claim(self.engine.formats[0])
        numbers = enumerate(self.engine.formats)
        return all_of(*(z3.Implies(walker.natural("walk") == position, claim(each)) for position, each in numbers))

    def knows_format(self, nets: SubmoduleNets, cycle: int) -> z3.BoolRef:
        """The number that the walker of vectors has for its instruction is that of a format."""
        count, walker = len(self.engine.formats), nets.part("vectors").part("walker")
        if count == 1:
            return z3.BoolVal(True)
        return all_of(*(z3.ULT(walk, count) for walk in walks(self.engine.vectors.walker, walker, cycle)))

    def in_bank_of_sums(self, walker: SubmoduleNets, address: z3.BitVecRef) -> z3.BoolRef:
        """Some bank holds all sums of the instruction's block."""
        memory = self.memories[self.engine.sums.memory]
        return self.of_each(walker, lambda format: in_one_bank(address, memory, format.destination.block))

    def words(self, nets: SubmoduleNets, register: str, cycle: int = 0) -> z3.BitVecRef:
        """Behind address and flags: which words of the widest block are written."""
        low = self.address_bits + 2
        return natural(z3.Extract(low + self.engine.sums.block - 1, low, nets.at(register, cycle)))

    def writes_its_words(self, nets: SubmoduleNets, register: str) -> z3.BoolRef:
        """A vector that issues writes the words of its instruction's block."""
        if not self.engine.has_mask:
            return z3.BoolVal(True)
        words, walker = self.words(nets, register, 1), nets.part("vectors").part("walker")
        return self.of_each(walker, lambda format: words == (1 << format.destination.block) - 1)

    def mask_goals(self, nets: SubmoduleNets, register: str) -> list[Goal]:
        if not self.engine.has_mask:
            return []
        return [Goal("words", [], nets.natural("c_write__words") == self.words(nets, register))]

    def element_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """When a row comes, each column of each array has its element of the word, as its type says."""
        walker, word = nets.part("tiles").part("walker"), nets.at("w__data", self.engine.read)
        cols, goals = self.engine.engine.array.cols, []
        for position, name in enumerate(array_names(self.machine, self.engine.engine)):
            whole = nets.at(f"{name}.weights", self.engine.read)
            size = whole.size() // cols
            for what in ("loads", "is_first", "vector"):
                goals.append(Goal(f"{name}, {what}", [], nets.at(f"{name}.{what}") == nets.at(f"array.{what}")))
            weight = factor_types(self.machine, self.engine.engine)[position][1]
            for column in range(cols):
                held = z3.Extract((column + 1) * size - 1, column * size, whole)
                wanted = partial(self.is_element, word, position * cols + column, held, weight)
                goals.append(Goal(f"{name}, column {column}", [], self.of_each(walker, wanted)))
        return goals

    def is_element(
        self, word: z3.BitVecRef, position: int, held: z3.BitVecRef, weight: IntegerType, format: InstructionFormat
    ) -> z3.BoolRef:
        """Anything will do where the word of an instruction has no such element."""
        element = systolic_weights(format).element
        low = position * element.bits
        if low >= word.size():
            return z3.BoolVal(True)
        kind = plain_type(element)
        found = z3.Extract(low + kind.bits - 1, low, word)
        if isinstance(kind, FloatType) and isinstance(weight, FloatType):
            return steps(as_integer(held, False), weight) == steps(as_integer(found, False), kind)
        extend = z3.SignExt if kind.is_signed else z3.ZeroExt
        return held == extend(held.size() - kind.bits, found)

    def passed_on(self, nets: SubmoduleNets) -> z3.BoolRef:
        claims = []
        for before, after in zip(self.chain, self.chain[1:], strict=False):
            is_there = nets.holds(f"is_{before}")
            claims.append(nets.holds(f"is_{after}", 1) == is_there)
            claims.append(z3.Implies(is_there, nets.at(after, 1) == nets.at(before)))
        return all_of(*claims)

    def in_flight(self, nets: SubmoduleNets) -> z3.BoolRef:
        return in_flight(self.machine, nets, self.chain, 0)

    def adds(self, vectors: SubmoduleNets) -> z3.BoolRef:
        return any_of(self.accumulates(vectors), z3.Not(vectors.part("walker").holds("is_first_reduce")))

    def accumulates(self, vectors: SubmoduleNets, cycle: int = 0) -> z3.BoolRef:
        return vectors.holds("accumulates", cycle) if vectors.has("accumulates") else z3.BoolVal(False)

    def accumulate_goal(self, format: InstructionFormat, nets: SubmoduleNets) -> Goal:
        given = [nets.moves("instruction"), self.field(format, OPCODE, nets) == format.opcode]
        wanted = self.field(format, ACCUMULATE, nets) == 1 if format.has_accumulate else z3.BoolVal(False)
        return Goal(f"accumulate of {format.mnemonic}", given, self.accumulates(nets.part("vectors"), 1) == wanted)

    def field(self, format: InstructionFormat, name: str, nets: SubmoduleNets) -> z3.BitVecRef:
        """Of the instruction that is given to the engine."""
        place = format.field(name)
        bits = nets.at("instruction__payload.bits")
        return z3.Extract(place.low_bit + place.type.bits - 1, place.low_bit, bits)

    def retire_goals(self, nets: SubmoduleNets) -> list[Goal]:
        """An instruction is in hand while its vectors issue, then while its last one is on its way to the write."""

        def in_hand(cycle: int) -> list[z3.BoolRef]:
            last = [all_of(nets.holds(f"is_{at}", cycle), self.flag(nets, at, 0, cycle)) for at in self.chain]
            return [nets.holds("vectors.is_active", cycle), *last]

        issued_last = nets.holds("vectors.issues_last")
        return [
            *owed_goals(nets, in_hand, [self.in_flight(nets)]),
            Goal("last", [issued_last], nets.holds("vectors.is_active")),
        ]
