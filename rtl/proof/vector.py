"""A vector engine keeps of what it reads what its statement names: the word, or the element of a tile's row."""

from __future__ import annotations

import z3

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector_walk import multiplied_by_element, vector_walk
from tilewright.rtl.proof.netlist import Run, netlist
from tilewright.rtl.proof.result import Claim, Goal, Subject
from tilewright.rtl.vector import VectorEngine

GRANTED, CAME, KEPT = range(3)
"""Cycles: a read is granted, its word comes, it is in the register that the datapath takes it from."""


def kept_elements(machine: Machine, engine: Engine) -> Subject:
    """Of a vector that is multiplied element by element; only for engines that have instructions which do."""
    hardware = netlist(VectorEngine(machine, engine), without=("datapath", "queue"))
    claim = f"{engine}: of a vector, the element of the row"
    return Subject(hardware, [Claim(claim, "all inputs", lambda run: _goals(machine, engine, run))])


def _goals(machine: Machine, engine: Engine, run: Run) -> list[Goal]:
    formats = machine.formats_of(engine)
    return [
        goal
        for position, format in enumerate(formats)
        for slot in range(len(format.streams))
        for goal in _of_source(machine, run, position, format, slot)
    ]


def _of_source(machine: Machine, run: Run, position: int, format: InstructionFormat, slot: int) -> list[Goal]:
    """What is kept of a word, by the row at which its read was granted."""
    operand = format.streams[slot]
    memory, port = machine.memories[operand.memory], f"source{slot}_{operand.memory}"
    given = [
        run.holds(f"{port}__granted", GRANTED),
        run.holds(f"{port}__valid", GRANTED),
        run.at("walker.walk", GRANTED) == position,
    ]
    came, kept = run.at(f"{port}__data", CAME), run.at(f"word_{slot}", KEPT)
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
