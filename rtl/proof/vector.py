"""A vector engine keeps of what it reads what is taken: the word, its part, or the element of a tile's row."""

from __future__ import annotations

import z3

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector import multiplied_by_element, vector_walk
from tilewright.isa.timing import memory_read
from tilewright.rtl.datapath_widths import result_bits
from tilewright.rtl.parts import JoinedParts
from tilewright.rtl.proof.logic import all_of
from tilewright.rtl.proof.netlist import NetlistRun, netlist
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.vector import VectorEngine

GRANTED = 0
"""The cycle in which a read is granted."""


def _came(machine: Machine) -> int:
    """The cycle in which its word comes; in the next one, it is in the register that the datapath takes it from."""
    return GRANTED + memory_read(machine.pipeline)


def kept_elements(machine: Machine, engine: Engine) -> Subject:
    """What is kept of words; only for engines that do not keep all of each."""
    hardware = netlist(VectorEngine(machine, engine), without=("datapath", "queue", "joined"))
    kept = "of a word, its part" if engine.vector.parts > 1 else "of a vector, the element of the row"
    claim = f"{engine}: {kept}"
    return Subject(hardware, [Claim(claim, "all inputs", lambda run: _goals(machine, engine, run))])


def joined_parts(machine: Machine, engine: Engine) -> Subject:
    """Results of parts that come one after the other, whenever they do, become the word of them in order."""
    parts, bits = engine.vector.parts, result_bits(machine, engine)

    def goals(run: NetlistRun) -> list[Goal]:
        came = [run.at("part", part) for part in range(parts)]
        word = run.at("word", parts - 1)
        arrive = [run.holds("arrives", part) for part in range(parts - 1)]
        is_same = run.holds("is_same", parts - 1)
        waits = run.at("earlier", 0) == run.at("earlier", 1)
        return [
            Goal("the word", [*arrive, z3.Not(is_same)], word == z3.Concat(*reversed(came))),
            Goal("a word of equal parts", [is_same], word == z3.Concat(*[came[-1]] * parts)),
            Goal("waiting", [z3.Not(run.holds("arrives", 0))], waits),
        ]

    return Subject(netlist(JoinedParts(parts, bits)), [Claim(f"{engine}: words of parts", "all inputs", goals)])


def _goals(machine: Machine, engine: Engine, run: NetlistRun) -> list[Goal]:
    formats = machine.formats_of(engine)
    return [
        goal
        for position, format in enumerate(formats)
        for slot in range(len(format.streams))
        for goal in _of_source(machine, run, position, format, slot)
    ]


def _of_source(machine: Machine, run: NetlistRun, position: int, format: InstructionFormat, slot: int) -> list[Goal]:
    """What is kept of a word, by the row at which its read was granted."""
    operand = format.streams[slot]
    memory, port = machine.memories[operand.memory], f"source{slot}_{operand.memory}"
    given = [
        run.holds(f"{port}__granted", GRANTED),
        run.holds(f"{port}__valid", GRANTED),
        run.at("walker.walk", GRANTED) == position,
    ]
    came, kept = run.at(f"{port}__data", _came(machine)), run.at(f"word_{slot}", _came(machine) + 1)
    if operand is not multiplied_by_element(format) and format.engine.vector.parts > 1:
        return _parts_of_words(machine, run, format, slot, given)
    if operand is not multiplied_by_element(format):
        size = 8 * memory.word_bytes * vector_walk(format).streams[slot].block
        whole = z3.Extract(size - 1, 0, kept) == z3.Extract(size - 1, 0, came)
        return [Goal(f"the word of {format.mnemonic}.{operand.name}", given, whole)]
    goals, bits, rows = [], memory.element.bits, vector_walk(format).rows
    for row in range(rows):
        of_row = [run.at("walker.row", GRANTED) == rows - 1 - row] if rows > 1 else []
        element = z3.Extract((row + 1) * bits - 1, row * bits, came)
        name = f"element {row} of {format.mnemonic}.{operand.name}"
        goals.append(Goal(name, [*given, *of_row], z3.Extract(bits - 1, 0, kept) == element))
    return goals


def _parts_of_words(
    machine: Machine, run: NetlistRun, format: InstructionFormat, slot: int, given: list[z3.BoolRef]
) -> list[Goal]:
    """Of each word that came, the elements of the part that the iteration is of, one word after the other."""
    operand, vector = vector_walk(format).streams[slot], format.engine.vector
    memory, bits = machine.memories[operand.memory], vector.lanes * machine.memories[operand.memory].element.bits
    port, comes = f"source{slot}_{operand.memory}", _came(machine)
    came, kept = run.at(f"{port}__data", comes), run.at(f"word_{slot}", comes + 1)
    goals = []
    for part in range(vector.parts):
        of_part = run.at("walker.part", GRANTED) == vector.parts - 1 - part
        equal = [
            z3.Extract((word + 1) * bits - 1, word * bits, kept) == z3.Extract(first + bits - 1, first, came)
            for word in range(operand.block)
            for first in [8 * memory.word_bytes * word + part * bits]
        ]
        name = f"part {part} of {format.mnemonic}.{operand.name}"
        goals.append(Goal(name, [*given, of_part], all_of(*equal)))
    return goals
