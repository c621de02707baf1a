"""Where programs use each instruction, and how much it streams there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.isa.program.program import Program
from tilewright.isa.templates.table import works_of
from tilewright.simulator.profile import instructions_of_layers, layers_of

Places = Mapping[str, Mapping[str, int]]
"""By mnemonic and layer: the cycles that the instruction's engine is busy with it."""

Trips = Mapping[str, Mapping[str, int]]
"""By mnemonic and loop: the most iterations."""


Values = Mapping[str, Mapping[str, Sequence[int]]]
"""By mnemonic and immediate: the least and the largest value."""


def places_of(programs: Sequence[Program]) -> dict[str, dict[str, int]]:
    """The places of all instructions of a network's programs."""
    found: dict[str, dict[str, int]] = {}
    for program in programs:
        layers = layers_of(program)
        works = list(works_of(program.machine, program.instructions))
        for layer, indices in zip(layers, instructions_of_layers(program, layers), strict=True):
            for index in indices:
                of = found.setdefault(program.instructions[index].format.mnemonic, {})
                of[layer.name] = of.get(layer.name, 0) + works[index].busy
    return found


def longest_trips(programs: Sequence[Program], found: dict[str, dict[str, int]]) -> None:
    """Note the most iterations of each instruction's loops in these programs, if they are more than found before."""
    for program in programs:
        for instruction in program.instructions:
            of = found.setdefault(instruction.format.mnemonic, {})
            for loop, trip in instruction.trips.items():
                of[loop] = max(of.get(loop, 1), trip)


def held_values(programs: Sequence[Program], found: dict[str, dict[str, list[int]]]) -> None:
    """Note the least and the largest value of each instruction's immediates in these programs, and found before."""
    for program in programs:
        for instruction in program.instructions:
            of = found.setdefault(instruction.format.mnemonic, {})
            for name in instruction.format.immediates:
                value = instruction[name]
                low, high = of.get(name, (value, value))
                of[name] = [min(low, value), max(high, value)]
