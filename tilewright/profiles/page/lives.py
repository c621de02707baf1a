"""Which layer's words lie where in a memory, and when: what the map of the memories shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.isa.check.footprint import Access, footprint
from tilewright.segments import ProgramRun
from tilewright.simulator.profile import instructions_of_layers, layers_of


@dataclass(slots=True)
class Life:
    """Words from `first` up to `end` that one instruction wrote, from the cycle `born` to their last read's, `dead`."""

    layer: int
    first: int
    end: int
    born: int
    dead: int


def lives(run: ProgramRun) -> dict[str, list[Life]]:
    """By memory, every write whose words are read later. A write with gaps is shown from its first word to its last."""
    machine = run.program.machine
    layer_of = np.zeros(len(run.program.instructions), np.int64)
    for position, indices in enumerate(instructions_of_layers(run.program, layers_of(run.program))):
        layer_of[indices] = position
    found: dict[str, list[Life]] = {name: [] for name in machine.memories}
    owners = {name: np.full(memory.depth, -1, np.int64) for name, memory in machine.memories.items()}
    for index, instruction in enumerate(run.program.instructions):
        retired = int(run.counters.retired[index])
        for access in footprint(instruction, machine):
            if access.is_dram:
                continue
            own, owner = found[access.place], owners[access.place]
            if access.is_write:
                own.append(Life(int(layer_of[index]), access.first, access.end, retired, retired))
                for first, end in access.ranges:
                    owner[first:end] = len(own) - 1
                continue
            for number in _owners(owner, access):
                own[number].dead = max(own[number].dead, retired)
    return {name: [life for life in own if life.dead > life.born] for name, own in found.items()}


def _owners(owner: np.ndarray, access: Access) -> list[int]:
    read = np.concatenate([owner[first:end] for first, end in access.ranges])
    return [int(number) for number in np.unique(read) if number >= 0]
