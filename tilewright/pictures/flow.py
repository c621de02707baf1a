"""What every processing element of the array does in each cycle of one mma instruction.

The times are those of docs/microarchitecture.md, section mma, with the latencies of isa/timing.py. They hold while no
other engine takes the ports of the memories; `array_flow` makes sure that the run's own times are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.host.segments import ProgramRun
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights, tile_loops
from tilewright.isa.timing import MMA_WEIGHT_LEAD, memory_read, mma_read, mma_update, mma_write

Indices = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DrawnVector:
    """One vector on its way: it issues in a cycle, with the indices of the loops, and adds to words of `acc`."""

    issued: int
    tile: int
    indices: Indices
    elements: tuple[int, ...]
    accumulator: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Weights `[row, column]`; the first row is read in cycle `first_read`, the others follow."""

    first_read: int
    indices: Indices
    weights: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArrayFlow:
    """All vectors and tiles of one instruction, in order, on an array of `rows` × `cols`."""

    rows: int
    cols: int
    vectors: tuple[DrawnVector, ...]
    tiles: tuple[Tile, ...]
    read_after: int  # from a vector's issue to the read of the accumulators, and to the write
    write_after: int
    word_after: int  # from the read of a word to the cycle in which it enters the array

    def multiplies(self, vector: DrawnVector, row: int, column: int) -> int:
        """The cycle in which the element at this place multiplies its part of the vector."""
        return vector.issued + self.read_after - (self.rows - row) - (self.cols - column) + 1 + self.word_after

    def holds(self, tile: Tile, row: int, column: int) -> int:
        """The first cycle in which the element at this place has the tile's weight beside the one that it uses."""
        return tile.first_read + MMA_WEIGHT_LEAD + self.word_after + row + column

    def leaves(self, vector: DrawnVector, column: int) -> int:
        """The cycle in which the sum of a column stands below the last row."""
        return self.multiplies(vector, self.rows - 1, column) + 1

    def arrives(self, vector: DrawnVector) -> int:
        """The first cycle in which the vector's sums are in `acc`."""
        return vector.issued + self.write_after + 1


def array_flow(run: ProgramRun, index: int, memories: Mapping[str, NDArray[np.int64]]) -> ArrayFlow:
    """The flow of a run's mma instruction; `memories` are the words [word, element] of what it reads.

    Raises InputError if the instruction did not run undisturbed.
    """
    machine, instruction = run.program.machine, run.program.instructions[index]
    tiles, vectors = _times(machine, instruction, int(run.counters.started[index]) + 1, memories)
    array = instruction.engine.array
    after = mma_read(array), mma_write(array), memory_read(array.pipeline)
    flow = ArrayFlow(array.rows, array.cols, vectors, tiles, *after)
    retired = int(run.counters.retired[index])
    if flow.arrives(vectors[-1]) != retired:
        raise InputError(f"instruction {index} is retired in cycle {retired}: other engines held it up")
    return flow


def _times(
    machine: Machine, instruction: Instruction, first: int, memories: Mapping[str, NDArray[np.int64]]
) -> tuple[tuple[Tile, ...], tuple[DrawnVector, ...]]:
    """Tiles and vectors in order; `first` is the first cycle in which a weight row may be read."""
    format = instruction.format
    a, w = systolic_activations(format), systolic_weights(format)
    loops = [loop.name for loop in format.loops]
    outer, inner = loops[: tile_loops(format)], loops[tile_loops(format) :]
    tiles: list[Tile] = []
    vectors: list[DrawnVector] = []
    begun = 0
    for of_tile in _indices(instruction, outer):
        read = first if not tiles else max(begun + 1, tiles[-1].first_read + instruction.engine.array.rows)
        pause = _pause(mma_update(instruction.engine.array), vectors, len(tiles))
        issued = begun = max(read + MMA_WEIGHT_LEAD, pause)
        word = _word(instruction, w, of_tile)
        tiles.append(Tile(read, of_tile, memories[w.memory][word : word + instruction.engine.array.rows]))
        for of_vector in _indices(instruction, inner):
            indices = {**of_tile, **of_vector}
            elements = memories[a.memory][_word(instruction, a, indices)].tolist()
            target = _word(instruction, format.destination, indices)
            vectors.append(DrawnVector(issued, len(tiles) - 1, indices, tuple(elements), target))
            issued += 1
    return tuple(tiles), tuple(vectors)


def _pause(update: int, vectors: Sequence[DrawnVector], tiles: int) -> int:
    """The first cycle in which the next tile's first vector may issue, as far as the last one's sums go."""
    if not vectors:
        return 0
    return vectors[-1].issued + 1 + max(0, update - len(vectors) // tiles)


def _indices(instruction: Instruction, loops: Sequence[str]) -> Iterator[Indices]:
    for values in product(*(range(instruction.trips[name]) for name in loops)):
        yield dict(zip(loops, values, strict=True))


def _word(instruction: Instruction, operand: Operand, indices: Indices) -> int:
    strides = instruction.strides(operand)
    return instruction.base(operand.name) + sum(strides[name] * value for name, value in indices.items())
