"""Where the tensors of a compiled network lie in memory, so that their elements can be found in its words.

A tensor [N, C, H, W] is [N, lane blocks, H, W] words of `lanes` channels each; a *position* numbers these words in
C order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.arithmetic import vector_blocks
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.transfer import find_transfers, home_of
from tilewright.compiler.tiling.layout import DramLayout, Layout
from tilewright.compiler.tiling.residency import everything_on_chip
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.program.blocks import from_blocks, in_blocks
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.small_floats import small_float_of
from tilewright.isa.program.state import MachineState
from tilewright.simulator.nest import walk_of
from tilewright.values.compiled import Compiled

NOWHERE = -1


@dataclass(frozen=True)
class Place:
    """A buffer that holds a whole tensor. `positions[i]` is the position of its i-th word, or NOWHERE for padding.

    `first` is the address of its first word: in words of `memory`, or in bytes of DRAM if `is_dram`.
    """

    tensor: str
    memory: Memory
    is_dram: bool
    first: int
    positions: NDArray[np.int64]

    @property
    def unit(self) -> int:
        """How far apart two words are."""
        return self.memory.word_bytes if self.is_dram else 1

    def apart(self, found: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        """How many steps values are apart; of floats, how many numbers of the type further one is than the other."""
        element = self.memory.element.type
        if isinstance(element, FloatType):
            return np.abs(small_float_of(element).ranks(found) - small_float_of(element).ranks(wanted))
        return np.abs(found - wanted)

    def written(self, instruction: Instruction, region_base: int) -> NDArray[np.int64]:
        """The positions of the tensor's words that an instruction writes; `region_base` is added in DRAM."""
        destination = instruction.format.destination
        starts = walk_of(instruction, destination, region_base if self.is_dram else 0).addresses().reshape(-1, 1)
        block = 1 if self.is_dram else destination.block
        index = np.unique((starts - self.first) // self.unit + np.arange(block))
        index = index[(index >= 0) & (index < len(self.positions))]
        found = self.positions[index]
        return np.asarray(found[found != NOWHERE])

    def address(self, position: int) -> int:
        """The address of a word of the tensor."""
        return self.first + int(np.flatnonzero(self.positions == position)[0]) * self.unit

    def words(self, state: MachineState) -> NDArray[Any]:
        """The buffer's words as they are stored, [words, lanes]: a view of the state."""
        size = len(self.positions) * self.unit
        if self.is_dram:
            held = state.dram[self.first : self.first + size].reshape(-1, self.memory.word_bytes)
        else:
            held = state.memories[self.memory.name][self.first : self.first + size]
        assert self.memory.element.type is not None
        return held.view(self.memory.element.type.dtype)

    def numbers(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The integers that stored elements are: those of floats in steps of their type."""
        kind = self.memory.element.type
        return small_float_of(kind).steps_of_codes(stored) if isinstance(kind, FloatType) else stored

    def stored(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `numbers`."""
        kind = self.memory.element.type
        return small_float_of(kind).codes(numbers) if isinstance(kind, FloatType) else numbers


def places(compiled: Compiled) -> dict[str, Place]:
    """By buffer, the places of all tensors that a nest computes."""
    nests, machine = compiled.selection.program, compiled.program.machine
    on_chip = everything_on_chip(nests, machine, vector_blocks(machine)).layouts
    found = {}
    for tensor in dict.fromkeys(nest.result.tensor for nest in nests.nests):
        for name, layout in _candidates(tensor, nests, machine, on_chip.get(tensor)):
            place = _place(compiled, tensor, name, layout)
            if place is not None:
                found[name] = place
    return found


def _candidates(
    tensor: str, nests: NestProgram, machine: Machine, on_chip: Layout | None
) -> list[tuple[str, Layout | DramLayout]]:
    """The buffers that may hold a tensor, by the names that the tiler gives them."""
    memory = machine.memories[home_of(find_transfers(machine), nests, tensor)]
    in_dram = DramLayout(nests.buffers[tensor].shape, machine.lanes, memory.word_bytes)
    whole: list[tuple[str, Layout | DramLayout]] = [] if on_chip is None else [(tensor, on_chip)]
    return [*whole, *((f"{tensor}.{region}", in_dram) for region in ("workspace", "outputs"))]


def _place(compiled: Compiled, tensor: str, name: str, layout: Layout | DramLayout) -> Place | None:
    """The place of a buffer; None if there is no such buffer, or if it is another one of the same name."""
    machine, nests = compiled.program.machine, compiled.selection.program
    buffer = compiled.ordered.tiles.buffers.get(name)
    is_dram = isinstance(layout, DramLayout)
    if buffer is None or (buffer.place in machine.memories) is is_dram:
        return None
    if buffer.size != (layout.bytes if isinstance(layout, DramLayout) else layout.words):
        return None
    memory = machine.memories[home_of(find_transfers(machine), nests, tensor) if is_dram else buffer.place]
    first = compiled.ordered.placement.addresses[name]
    if is_dram:
        first += place_regions(compiled.program.limits)[buffer.place]
    return Place(
        tensor,
        memory,
        is_dram,
        first,
        _positions(nests.buffers[tensor].shape, machine.lanes, layout, buffer.size),
    )


def _positions(shape: tuple[int, ...], lanes: int, layout: Any, size: int) -> NDArray[np.int64]:
    """The position of each of a buffer's words, by the layout's own addresses."""
    batches, channels, height, width = shape
    axes = (np.arange(n) for n in (batches, -(-channels // lanes), height, width))
    batch, block, row, column = np.meshgrid(*axes, indexing="ij", sparse=True)
    addresses = np.ravel(layout.address(batch, block, row, column))
    unit = layout.word_bytes if isinstance(layout, DramLayout) else 1
    positions = np.full(size // unit, NOWHERE, np.int64)
    positions[addresses // unit] = np.arange(addresses.size)
    return positions


def in_words(values: NDArray[Any], lanes: int) -> NDArray[Any]:
    """A tensor [N, C, H, W] as its words, [positions, lanes]; the lanes beyond C hold zeros."""
    return in_blocks(values, lanes).reshape(-1, lanes)


def from_words(words: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The tensor [N, C, H, W] of its words."""
    batches, channels, height, width = shape
    return from_blocks(words.reshape(batches, -1, height, width, words.shape[-1]), channels)
