"""Which layer reads what another one wrote, and where that lay in between: the network as its instructions show it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import OperandAccess, footprint
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import Program
from tilewright.simulator.profile import instructions_of_layers, layers_of

INPUT, NOBODY = -1, -2
"""In place of a layer that wrote a word: the host, as an input; nobody yet."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Words (of a memory) or bytes (of a region of DRAM) that `reader` reads and `writer` wrote, each counted once.

    Layers are positions; `writer` is INPUT for what the host gave.
    """

    writer: int
    reader: int
    place: str
    amount: int
    is_dram: bool

    @property
    def text(self) -> str:
        """`act, 124 words`"""
        return f"DRAM, {self.amount:,} bytes" if self.is_dram else f"{self.place}, {self.amount:,} words"


def flows(program: Program) -> list[Flow]:
    """What passes between layers, by writer, then reader. What a layer writes and reads itself is left out."""
    sizes = {**{name: memory.depth for name, memory in program.machine.memories.items()}, **program.limits}
    places = {name: _Place(size, INPUT if name == "inputs" else NOBODY) for name, size in sizes.items()}
    layer_of = np.zeros(len(program.instructions), np.int64)
    for position, indices in enumerate(instructions_of_layers(program, layers_of(program))):
        layer_of[indices] = position
    for index, instruction in enumerate(program.instructions):
        for access in footprint(instruction, program.machine):
            places[access.place].note(access, int(layer_of[index]))
    found = [
        Flow(writer, reader, name, amount, name in REGIONS)
        for name, place in places.items()
        for (writer, reader), amount in place.read.items()
    ]
    return sorted(found, key=lambda one: (one.writer, one.reader, one.place))


class _Place:
    """By word: the layer that wrote it, and the layer that read it last."""

    def __init__(self, size: int, writer: int) -> None:
        self._writer: NDArray[np.int64] = np.full(size, writer, np.int64)
        self._reader: NDArray[np.int64] = np.full(size, NOBODY, np.int64)
        self.read: Counter[tuple[int, int]] = Counter()

    def note(self, access: OperandAccess, layer: int) -> None:
        for first, end in access.ranges:
            words = slice(max(0, int(first)), int(end))
            if access.is_write:
                self._writer[words], self._reader[words] = layer, NOBODY
                continue
            writers = self._writer[words]
            fresh = (self._reader[words] != layer) & (writers != layer) & (writers != NOBODY)
            self._reader[words] = layer
            for writer, count in Counter(writers[fresh].tolist()).items():
                self.read[writer, layer] += count
