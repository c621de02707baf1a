"""How much room each memory has for tiles, and how much is missing if no tile fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.errors import TooSmall
from tilewright.compiler.nest.space import describe
from tilewright.compiler.remedy import larger_memory
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.shape import NestShape, Sizes
from tilewright.compiler.vectors import longest_buffer
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory


@dataclass(frozen=True, slots=True)
class Room:
    """What tiles may take of a memory: `free` words in all, at most `longest` in one piece of aligned groups.

    `is_in_bank`: a piece lies in one bank.
    """

    free: int
    longest: int
    alignment: int = 1
    is_in_bank: bool = False

    @property
    def most(self) -> int:
        """The most that one tile may take if a second one need not fit beside it."""
        return min(self.free, self.longest)


def longest_piece(memory: Memory, alignment: int, is_in_bank: bool) -> int:
    """The longest piece of aligned groups of a memory, in one bank or across them."""
    return memory.stretch_words if is_in_bank else longest_buffer(memory, alignment)


def limited(machine: Machine, options: TilingOptions) -> dict[str, Memory]:
    """The memories to plan with: of at most so many words as the options say, in as many banks."""
    memories = dict(machine.memories)
    for name, words in options.limits.items():
        memory = memories[name]
        if words < memory.depth:
            memories[name] = replace(memory, depth=max(1, words // memory.banks) * memory.banks)
    return memories


def too_small(shape: NestShape, machine: Machine, room: Mapping[str, Room], words: Mapping[str, Sizes]) -> TooSmall:
    """The error for the candidate that lacks the fewest bytes; memories that every candidate lacks come first."""
    most = {name: room[name].most for name in words}
    lacking = {name: np.maximum(needed - most[name], 0) for name, needed in words.items()}
    total = sum(lack * machine.memories[name].word_bytes for name, lack in lacking.items())
    best = int(np.argmin(total))
    missing = [name for name, lack in lacking.items() if lack[best]]
    missing.sort(key=lambda name: int(lacking[name].min()) == 0)
    wants = {name: int(words[name][best]) for name in missing}
    depths = {name: _depth_for(machine.memories[name], room[name], wanted) for name, wanted in wants.items()}
    needs = [
        f"{wanted * machine.memories[name].word_bytes} bytes of {name}, "
        f"{most[name] * machine.memories[name].word_bytes} are free"
        for name, wanted in wants.items()
    ]
    changes = " ".join(f"--set {larger_memory(machine, name, depth)}" for name, depth in depths.items())
    fact = f"its smallest tile needs {', and '.join(needs)}"
    error = TooSmall(describe(shape.cover.nest), fact, depths, f"try {changes}")
    error.nodes = shape.cover.nest.nodes
    return error


def _depth_for(memory: Memory, room: Room, wanted: int) -> int:
    """The smallest depth, in equal banks, that leaves a tile `wanted` words beside the tensors already there."""
    lacking = max(0, wanted - room.free, wanted - memory.depth)
    depth = memory.depth + -(-lacking // memory.banks) * memory.banks
    while (
        room.free + depth - memory.depth < wanted
        or longest_piece(replace(memory, depth=depth), room.alignment, room.is_in_bank) < wanted
    ):
        depth += memory.banks
    return depth
