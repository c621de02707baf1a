"""What an operand of an instruction can read: a closed set of bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access

POINTS = (BATCH, ROW, COLUMN)
"""The dimensions of pixels, outermost first."""


@dataclass(frozen=True, slots=True)
class TensorRead:
    """A tensor, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class Intermediate:
    """What an earlier step of the same cover computed."""

    step: int


@dataclass(frozen=True, slots=True)
class ConstantMatrix:
    """Tiles of a constant matrix, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class ComputedMatrix:
    """Tiles of a matrix that is computed, through the nest's read of that name.

    A word of the tensor is a row of a tile, over the result's channels; or, for an instruction that transposes tiles,
    over the summed channels.
    """

    read: str


@dataclass(frozen=True)
class Parameters:
    """Packed constants of each channel, or of each pixel: for each field, the nest's read of that name or one number.

    What is in the fields that are `free` does not matter.
    """

    fields: Mapping[str, str | int]
    free: frozenset[str] = frozenset()

    def joined(self, other: Parameters) -> Parameters | None:
        """Constants that serve both; None where one of their fields differs."""
        fields = {name: other.fields[name] if name in self.free else own for name, own in self.fields.items()}
        if any(own != fields[name] and name not in other.free for name, own in other.fields.items()):
            return None
        return Parameters(fields, self.free & other.free)

    def is_the_same_for_all(self, reads: Mapping[str, Access]) -> bool:
        """Whether all channels have the same, so that one word is enough."""
        named = (value for name, value in self.fields.items() if name not in self.free and isinstance(value, str))
        return not any(index.terms for name in named for index in reads[name].index)

    def points(self, reads: Mapping[str, Access]) -> frozenset[int]:
        """The dimensions of [N, C, H, W] along which they differ from pixel to pixel."""
        named = [reads[value].index for value in self.fields.values() if isinstance(value, str)]
        return frozenset(d for index in named if len(index) > len(POINTS) for d in POINTS if index[d].terms)


@dataclass(frozen=True, slots=True)
class TableBinding:
    """A constant in which the instruction looks up, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class Idle:
    """The operand's value does not matter, so it reads the same words as the operand named here."""

    like: str


Binding = TensorRead | Intermediate | ConstantMatrix | ComputedMatrix | Parameters | TableBinding | Idle
