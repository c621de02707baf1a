"""What the constants of a stand-in hold, in the place of a network's weights.

Of a constant, a search can feel only three things. Where a matrix has tiles of zeros, nothing is computed. Constants
with the same content lie in one place, so the places of those behind them are others. And where parameters differ from
pixel to pixel, equal ones share a word. A stand-in keeps the first two, and such parameters themselves:

    the weights of a convolution    filled with numbers, zero in the tiles of lanes by lanes that hold only zeros
    a matrix of zeros and ones      as it is: a mean or a move of channels, whose weights nobody trains
    bias, scale, shift, tables      filled with numbers; equal ones get equal numbers, parameters if all fields are;
                                    with one number if all channels have the same fields, as those of a mean have
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.select.bindings import Binding, ConstantMatrix, Parameters
from tilewright.compiler.select.cover import Cover
from tilewright.isa.language.numeric import IntegerType

MOST = 127
"""No number of a stand-in's constants is larger: any type of elements holds it, or it is less."""


@dataclass(frozen=True, slots=True)
class ConstantContent:
    """What a constant of a stand-in holds: `kept`, or numbers that follow from `number`, zero where `held` is not."""

    shape: tuple[int, ...]
    type: IntegerType
    number: int
    is_uniform: bool = False  # one number for all elements
    held: NDArray[np.bool_] | None = None  # of a matrix, in blocks of `lanes` along its first two dimensions
    lanes: int = 1
    kept: NDArray[Any] | None = None

    @property
    def told(self) -> str:
        """Equal for equal contents."""
        if self.kept is not None:
            return f"{self.shape} {self.type} {_digest(self.kept)};"
        held = "" if self.held is None or self.held.all() else np.packbits(self.held).tobytes().hex()
        return f"{self.shape} {self.type} {self.number} {self.is_uniform} {held};"

    def values(self) -> NDArray[Any]:
        """Numbers that never are those of another content, but for very short ones."""
        if self.kept is not None:
            return self.kept
        size, most = 1 if self.is_uniform else int(np.prod(self.shape)), min(MOST, self.type.interval.high)
        drawn = np.frombuffer(hashlib.shake_128(f"{self.number}".encode()).digest(size), np.uint8)
        drawn = np.full(self.shape, drawn[0]) if self.is_uniform else drawn.reshape(self.shape)
        numbers = drawn % most + 1 if most > 0 else np.full(self.shape, -1)
        values = numbers.astype(self.type.dtype)
        return values if self.held is None or self.held.all() else values * self._held_elements()

    def _held_elements(self) -> NDArray[np.bool_]:
        assert self.held is not None
        rows, columns, *_ = self.shape
        return self.held.repeat(self.lanes, axis=0)[:rows].repeat(self.lanes, axis=1)[:, :columns]


def contents_of(program: NestProgram, covers: Sequence[Cover], lanes: int) -> dict[str, ConstantContent]:
    """What the constants that nests read become, by name, in the order in which they are read."""
    return _Contents(program, covers, lanes).all()


class _Contents:
    """What the constants of a program become."""

    def __init__(self, program: NestProgram, covers: Sequence[Cover], lanes: int) -> None:
        self._program, self._lanes = program, lanes
        self._digests: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._matrices: set[str] = set()
        self._of_pixels: set[str] = set()
        self._parameters: dict[str, str] = {}  # with all of what lies in the same words
        self._uniform: set[str] = set()
        for cover in covers:
            for step in cover.steps:
                for bound in step.inputs.values():
                    self._note(cover.nest, bound)

    def all(self) -> dict[str, ConstantContent]:
        """By name, in the order in which nests read them."""
        read = [access.tensor for nest in self._program.nests for access in nest.reads.values()]
        return {name: self._content(name) for name in dict.fromkeys(read) if name in self._program.constants}

    def _note(self, nest: Nest, bound: Binding) -> None:
        if isinstance(bound, ConstantMatrix):
            self._matrices.add(nest.reads[bound.read].tensor)
        if isinstance(bound, Parameters):
            names = {field: nest.reads[of].tensor for field, of in bound.fields.items() if isinstance(of, str)}
            if bound.points(nest.reads):
                self._of_pixels |= set(names.values())
            told = [(field, names.get(field) and self._digest_of(names[field]), of) for field, of in _numbers(bound)]
            for field, name in names.items():
                self._parameters.setdefault(name, f"{field} {told}")
            if all(_is_uniform(self._program.constants[name]) for name in names.values()):
                self._uniform |= set(names.values())

    def _content(self, name: str) -> ConstantContent:
        values, of = self._program.constants[name], self._program.constant_types[name]
        number = self._numbers.setdefault(self._parameters.get(name, self._digest_of(name)), len(self._numbers))
        if name in self._of_pixels:
            return ConstantContent(values.shape, of, number, kept=values)
        if name not in self._matrices or values.ndim < 2 or not values.size:
            return ConstantContent(values.shape, of, number, name in self._uniform)
        held, pattern = _held(values, self._lanes), _pattern(values)
        return ConstantContent(values.shape, of, number, held=held, lanes=self._lanes, kept=pattern)

    def _digest_of(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = _digest(self._program.constants[name])
        return self._digests[name]


def _numbers(bound: Parameters) -> Iterator[tuple[str, int | None]]:
    """The numbers in the fields of parameters; None in those that a constant fills."""
    for field, of in sorted(bound.fields.items()):
        yield field, None if isinstance(of, str) else of


def _digest(values: NDArray[Any]) -> str:
    return hashlib.sha256(f"{values.shape} {values.dtype.str}".encode() + values.tobytes()).hexdigest()


def _is_uniform(values: NDArray[Any]) -> bool:
    return bool(values.size and (values == values.flat[0]).all())


def _pattern(values: NDArray[Any]) -> NDArray[Any] | None:
    """A matrix of which all elements that are not zero are equal; None if it is none."""
    low, high = int(values.min()), int(values.max())
    if low < 0 < high:
        return None
    only = low or high
    return values if np.isin(values, (0, only)).all() else None


def _held(values: NDArray[Any], lanes: int) -> NDArray[np.bool_]:
    """Which blocks of a matrix [results, summed, …], of lanes by lanes, hold anything but zeros."""
    held = values != 0
    for axis in (0, 1):
        held = np.logical_or.reduceat(held, range(0, held.shape[axis], lanes), axis=axis)
    return held
