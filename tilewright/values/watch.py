"""Runs a program instruction by instruction, sees what it writes to each tensor, and may put other values there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import footprint
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.state import MachineState
from tilewright.simulator.values import PreparedProgram
from tilewright.values.compiled import Compiled
from tilewright.values.places import NOWHERE, Place, in_words, places


@dataclass(frozen=True)
class Write:
    """An instruction's last words of a tensor: `values[i]` is the word at `positions[i]`, before it is corrected."""

    instruction: int
    place: Place
    positions: NDArray[np.int64]
    values: NDArray[Any]


class Watch:
    """A program with what its instructions write to tensors, ready to run on any number of DRAM images."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.places = places(compiled)
        self._bases = place_regions(compiled.program.limits)
        self._prepared = PreparedProgram(compiled.program, self._bases)
        self._written = self._last_writes()

    def writes(self, image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]] | None = None) -> Iterator[Write]:
        """Every write in program order. Tensors in `right`, [N, C, H, W], get these values as soon as they are written.

        Only the last instruction that writes a word counts: those before it may leave parts of a sum there.
        """
        for _, _, write in self._steps(image, right or {}):
            if write is not None:
                yield write

    def before(
        self, image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]], instruction: int
    ) -> tuple[MachineState, Mapping[str, NDArray[np.int64]]]:
        """The state in which an instruction begins, and by memory the instruction that wrote each word, or NOWHERE."""
        machine = self.compiled.program.machine
        owners = {name: np.full(memory.depth, NOWHERE, np.int64) for name, memory in machine.memories.items()}
        for index, state, _ in self._steps(image, right):
            if index == instruction - 1:
                self._own(index, owners)
                return state, owners
            if index >= 0:
                self._own(index, owners)
        raise IndexError(instruction)

    def _own(self, index: int, owners: Mapping[str, NDArray[np.int64]]) -> None:
        for access in footprint(self.compiled.program.instructions[index], self.compiled.program.machine):
            if access.is_write and not access.is_dram:
                owners[access.place][access.words] = index

    def _steps(
        self, image: NDArray[np.uint8], right: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[int, MachineState, Write | None]]:
        """(instruction, the state after it, what it wrote), beginning with -1 for the state after reset."""
        lanes = self.compiled.program.machine.lanes
        words = {name: in_words(values, lanes) for name, values in right.items()}
        is_element = {name: in_words(np.ones(values.shape, bool), lanes) for name, values in right.items()}
        for index, state in enumerate(self._prepared.step_by_step(image), -1):
            write = self._write(index, state) if index in self._written else None
            yield index, state, write
            if write is not None and write.place.tensor in right:
                name, at = write.place.tensor, write.positions
                held, slots = write.place.words(state), self._written[index][1]
                held[slots] = np.where(is_element[name][at], write.place.stored(words[name][at]), held[slots])

    def _write(self, index: int, state: MachineState) -> Write:
        place, slots = self._written[index]
        return Write(index, place, place.positions[slots], place.numbers(place.words(state)[slots].copy()))

    def _last_writes(self) -> dict[int, tuple[Place, NDArray[np.int64]]]:
        """By instruction, the words of a place that no later one writes, as indices into the place's words."""
        last = {name: np.full(len(place.positions), NOWHERE, np.int64) for name, place in self.places.items()}
        slot_of = {}
        for name, place in self.places.items():
            slots = np.full(int(place.positions.max()) + 1, NOWHERE, np.int64)
            held = np.flatnonzero(place.positions != NOWHERE)
            slots[place.positions[held]] = held
            slot_of[name] = slots
        touched: dict[int, str] = {}
        program, tiles = self.compiled.program, self.compiled.ordered.tiles
        for index, (instruction, operation) in enumerate(zip(program.instructions, tiles.operations, strict=True)):
            destination = instruction.format.destination
            name = operation.bases[destination.name].buffer
            if name not in self.places:
                continue
            place = self.places[name]
            base = self._bases[REGIONS[instruction[f"{destination.name}.region"]]] if place.is_dram else 0
            last[name][slot_of[name][place.written(instruction, base)]] = index
            touched[index] = name
        return {
            index: (self.places[name], slots)
            for index, name in touched.items()
            if (slots := np.flatnonzero(last[name] == index)).size
        }
