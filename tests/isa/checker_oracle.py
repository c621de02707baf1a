"""What is wrong with a small program, by brute force: every word of every iteration, every pair of instructions.

Nothing here is shared with the checker but the types that it reads. Time and memory grow with the square of everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import Program

Word = tuple[str, int]  # memory or region, word or byte

SYSTOLIC = "mma"


def findings(program: Program) -> set[tuple[str, int]]:
    """(code, instruction) of everything that is wrong."""
    wrong: set[tuple[str, int]] = set()
    reads: list[set[Word]] = []
    writes: list[set[Word]] = []
    own_sums: list[set[Word]] = []
    for index, instruction in enumerate(program.instructions):
        faults = {(code, index) for code in bound_faults(program, instruction)}
        wrong |= faults
        read, written, sums = (set(), set(), set()) if faults else touched(program, instruction)
        if not faults and feeds_itself(program, instruction):
            wrong.add(("feedback", index))
        reads.append(read)
        writes.append(written)
        own_sums.append(sums)
    order = happens_before(program, wrong)
    known = {(region, byte) for region in ("program", "weights", "inputs") for byte in range(program.limits[region])}
    for later, instruction in enumerate(program.instructions):
        if (reads[later] | own_sums[later]) - known:
            wrong.add(("unwritten", later))
        known |= writes[later]
        for earlier in range(later):
            is_same = program.instructions[earlier].engine == instruction.engine
            needs_order = writes[earlier] & reads[later]
            if not is_same:
                needs_order |= writes[earlier] & (writes[later] | own_sums[later])
                needs_order |= (reads[earlier] | own_sums[earlier]) & writes[later]
            if needs_order and not order[2 * earlier + 1][2 * later]:
                wrong.add(("race", later))
    return wrong


def iterations(instruction: Instruction) -> Iterator[dict[str, int]]:
    trips = instruction.trips
    for indices in itertools.product(*(range(trip) for trip in trips.values())):
        yield dict(zip(trips, indices, strict=True))


def words_at(program: Program, instruction: Instruction, operand: Operand, at: dict[str, int]) -> list[Word]:
    """The words (bytes in DRAM) that an operand names in one iteration."""
    first = instruction[f"{operand.name}.base"]
    for loop in operand.loops:
        first += at[loop] * instruction[f"{operand.name}.{loop}"]
    if operand.memory != DRAM:
        return [(operand.memory, first + i) for i in range(operand.block)]
    on_chip = next(o for o in instruction.format.operands if o.memory != DRAM)
    number = instruction[f"{operand.name}.region"]
    region = REGIONS[number] if number < len(REGIONS) else "nowhere"
    return [(region, first + i) for i in range(program.machine.memories[on_chip.memory].word_bytes)]


def bound_faults(program: Program, instruction: Instruction) -> set[str]:
    found = set()
    for operand in instruction.format.operands:
        for at in iterations(instruction):
            words = words_at(program, instruction, operand, at)
            if operand.memory == DRAM:
                limit = program.limits.get(words[0][0], 0)
                is_constant = words[0][0] in ("program", "weights") and operand is instruction.format.destination
                if is_constant or any(not 0 <= byte < limit for _, byte in words):
                    found.add("region")
                continue
            memory = program.machine.memories[operand.memory]
            banks = {word // memory.bank_depth for _, word in words}
            is_row_by_row = instruction.engine.name == SYSTOLIC and operand.name == "w"
            if any(not 0 <= word < memory.depth for _, word in words) or (len(banks) > 1 and not is_row_by_row):
                found.add("address")
    return found


def touched(program: Program, instruction: Instruction) -> tuple[set[Word], set[Word], set[Word]]:
    """Words that the sources read, that the destination writes, and that are sums to be added to."""
    of = instruction.format
    every = list(iterations(instruction))
    read = {w for o in of.sources for at in every for w in words_at(program, instruction, o, at)}
    written = {w for at in every for w in words_at(program, instruction, of.destination, at)}
    adds = of.has_accumulate and instruction["accumulate"]
    return read, written, set(written) if adds else set()


def feeds_itself(program: Program, instruction: Instruction) -> bool:
    """A word is read in a later iteration than it is written; or two sums share a word."""
    of = instruction.format
    written: dict[Word, tuple[int, ...]] = {}
    for at in iterations(instruction):
        if any(word in written for o in of.sources for word in words_at(program, instruction, o, at)):
            return True
        is_last = all(at[loop] == instruction.trips[loop] - 1 for loop in of.reduce_loops)
        for word in words_at(program, instruction, of.destination, at):
            kept = tuple(index for loop, index in at.items() if loop not in of.reduce_loops)
            if instruction.engine.name == SYSTOLIC:
                if written.setdefault(word, kept) != kept:
                    return True
            elif is_last:
                written[word] = kept
    return False


def happens_before(program: Program, wrong: set[tuple[str, int]]) -> list[list[bool]]:
    """Reachability between the start (2·i) and the end (2·i + 1) of every instruction; notes impossible waits."""
    count = len(program.instructions)
    reach = [[False] * (2 * count) for _ in range(2 * count)]
    of_engine: dict[str, list[int]] = {}
    for index, instruction in enumerate(program.instructions):
        reach[2 * index][2 * index + 1] = True
        before = of_engine.setdefault(instruction.engine.name, [])
        if before:
            reach[2 * before[-1]][2 * index] = True
            reach[2 * before[-1] + 1][2 * index + 1] = True
        for engine, waited in instruction.waits.items():
            there = of_engine.get(engine, [])
            if waited > len(there):
                wrong.add(("wait", index))
            if there and waited:
                reach[2 * there[min(waited, len(there)) - 1] + 1][2 * index] = True
        before.append(index)
    for via in range(2 * count):
        for row in reach:
            if row[via]:
                for to, is_reached in enumerate(reach[via]):
                    row[to] = row[to] or is_reached
    return reach
