"""Selections that look alike: a network in parts repeats its layers, and what a search finds for one holds for all.

Parts look alike that differ only in names, in the elements of constants and in numbers such as scales: none of these
changes what a plan takes, or the order of its operations. Tiles of weights that hold only zeros are left out, so where
such tiles are counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.search.tuning import Tuning
from tilewright.compiler.select.bindings import Binding, Parameters
from tilewright.compiler.select.cover import Selection, Step
from tilewright.compiler.tiling.planned import Planned
from tilewright.isa.program.program import Tensor


@dataclass(frozen=True, slots=True)
class Look:
    """What a selection looks like, as a hash, and the names of its own that stand in the places of another one's."""

    key: str
    tensors: tuple[str, ...]
    nests: tuple[str, ...]


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a selection, and the `arrangement` of its program, if others of the same look can use it."""

    tuning: Tuning
    arrangement: Callable[[], Arrangement | None] = _nothing


class Alike:
    """What was found for selections of one network, for others that look alike.

    `planned`: what plans found of their nests, for others that are alike; `Options` take it.
    """

    def __init__(self) -> None:
        self.planned = Planned()
        self._found: dict[str, tuple[Look, Found]] = {}
        self._new: list[tuple[Callable[[], Look], Found]] = []

    def recall(self, look: Callable[[], Look]) -> Found | None:
        """What was found for a selection of the same look, with the names of this one; None if there was none.

        A network in one part asks before anything was found, so looks are worked out only when there is another part.
        """
        if not self._found and not self._new:
            return None
        for find, new in self._new:
            known = find()
            self._found.setdefault(known.key, (known, new))
        self._new.clear()
        own = look()
        if own.key not in self._found:
            return None
        other, found = self._found[own.key]
        tuning = found.tuning
        tensors = dict(zip(other.tensors, own.tensors, strict=True))
        nests = dict(zip(other.nests, own.nests, strict=True))
        tiling = replace(
            tuning.tiling,
            off_chip=frozenset(tensors[name] for name in tuning.tiling.off_chip),
            tiles={nests[name]: tile for name, tile in tuning.tiling.tiles.items()},
        )
        return replace(found, tuning=Tuning(tiling, tuning.ahead))

    def remember(self, look: Callable[[], Look], found: Found) -> None:
        """Keep what was found for a selection, unless something is known of one like it."""
        self._new.append((look, found))


def look_of(selection: Selection, options: Options) -> Look:
    """What a selection looks like to a search with these options."""
    machine, nests = selection.machine, selection.program
    tensors, names = tuple(_tensors(nests)), tuple(nest.name for nest in nests.nests)
    numbers = {tensor: number for number, tensor in enumerate(tensors)}
    wanted = (options.tiling, options.ahead, options.effort)
    digest = hashlib.sha256(
        repr((machine.hash, machine.memories, machine.engines, list(machine.formats), wanted)).encode()
    )
    digest.update(repr([numbers[buffer] for buffer in nests.buffers]).encode())  # what is equal comes in their order
    for tensor in tensors:
        digest.update(_facts(nests, tensor, numbers, machine.vector.lanes).encode())
    for ends in (nests.inputs, nests.outputs):
        digest.update(repr([(numbers[tensor.name], _layout(tensor)) for tensor in ends]).encode())
    for cover in selection.covers:
        steps = [_step(step) for step in cover.steps]
        digest.update(repr((*_nest(cover.nest, numbers), steps)).encode())
    return Look(digest.hexdigest(), tensors, names)


def _tensors(nests: NestProgram) -> Iterator[str]:
    """All tensors, in the order in which nests name them."""
    named = [access.tensor for nest in nests.nests for access in (*nest.reads.values(), nest.result)]
    yield from dict.fromkeys([*named, *(tensor.name for tensor in (*nests.inputs, *nests.outputs)), *nests.buffers])


def _facts(nests: NestProgram, tensor: str, numbers: Mapping[str, int], lanes: int) -> str:
    if tensor in nests.buffers:
        buffer = nests.buffers[tensor]
        parts = [(numbers[part.tensor], part.first) for part in buffer.parts]
        return f"{buffer.shape} {buffer.type} {parts};"
    values = nests.constants[tensor]
    return f"{values.shape} {values.dtype} {nests.constant_types[tensor]} {_zero_tiles(values, lanes)};"


def _zero_tiles(values: NDArray[Any], lanes: int) -> str:
    """Where a matrix of [results, summed, …] has tiles of zeros alone, in tiles of lanes by lanes."""
    if values.ndim < 2:
        return ""
    held = values != 0
    for axis in (0, 1):
        held = np.logical_or.reduceat(held, range(0, held.shape[axis], lanes), axis=axis)
    return "" if held.all() else np.packbits(held).tobytes().hex()


def _layout(tensor: Tensor) -> object:
    """How the host stores a tensor, whatever its integers mean."""
    return tensor.stored, tensor.lanes, tensor.offset, tensor.windows, tensor.integers


def _nest(nest: Nest, numbers: Mapping[str, int]) -> tuple[object, ...]:
    reads = [(name, *_access(access, numbers)) for name, access in nest.reads.items()]
    return nest.loops, reads, _access(nest.result, numbers)


def _access(access: Access, numbers: Mapping[str, int]) -> tuple[object, ...]:
    return numbers[access.tensor], access.index, access.outside is None


def _step(step: Step) -> tuple[object, ...]:
    inputs = [(operand, _binding(bound)) for operand, bound in sorted(step.inputs.items())]
    beside = [correction.is_vector for correction in step.corrections], step.adding and step.adding.mnemonic
    return step.format.mnemonic, inputs, step.words, step.is_uniform, step.reduces, step.word_loop, beside


def _binding(bound: Binding) -> object:
    if not isinstance(bound, Parameters):
        return bound
    fields = [(name, value if isinstance(value, str) else None) for name, value in sorted(bound.fields.items())]
    return fields, sorted(bound.free)
