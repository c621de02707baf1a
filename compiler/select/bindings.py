"""What the leaves of an instruction's statement are bound to: values that they stand for, and reads of a nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tilewright.compiler.arithmetic import vector_blocks
from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.nest.space import (
    NO_LOOP,
    NestSpace,
    coefficient,
    is_lane_walk,
    is_matrix_of_a_tensor,
    is_matrix_of_constants,
    is_vector,
    summed_loop,
)
from tilewright.compiler.select.transfer import Transfers, home_of
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import FloatType, IntegerType, Interval
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.small_floats import small_float_of
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights

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


# -- how they are found: by memory and form of access ------------------------------------------------------------------


class Binder:
    """Binds operands to the reads of one nest."""

    def __init__(
        self, machine: Machine, program: NestProgram, transfers: Transfers, nest: Nest, space: NestSpace
    ) -> None:
        self._machine = machine
        self._program = program
        self._transfers = transfers
        self._nest = nest
        self._space = space
        self._limits: dict[str, Interval] = {}  # of the values of constants, by name

    # -- what is known of tensors and constants ------------------------------------------------------------------------

    def home(self, tensor: str) -> str:
        """The memory where a tensor lives on chip."""
        return home_of(self._transfers, self._program, tensor)

    def is_tensor_in(self, expr: Expr, memory: str) -> bool:
        """Whether an expression is a read of a tensor of that memory; constants of channels are parameters."""
        if expr.op is not Op.SOURCE or expr.name not in self._nest.reads:
            return False
        return self._lives_in(self._nest.reads[expr.name].tensor, memory)

    def constant_range(self, expr: Expr) -> Interval | None:
        """The interval of a constant's actual values; None if an expression is not constant."""
        if expr.op is Op.CONST:
            return expr.range
        access = self._nest.reads.get(expr.name) if expr.op is Op.SOURCE else None
        if access is None or access.tensor not in self._program.constants:
            return None
        if access.tensor not in self._limits:
            values = self._program.constants[access.tensor]
            self._limits[access.tensor] = Interval(int(values.min()), int(values.max()))
        return self._limits[access.tensor]

    def constant_value(self, expr: Expr) -> int | None:
        """The one value of a constant; None if it has several."""
        known = self.constant_range(expr)
        return known.low if known is not None and known.low == known.high else None

    def _lives_in(self, tensor: str, memory: str) -> bool:
        """Whether a tensor's words are loaded into a memory: a computed one's into its home, a constant's into any."""
        if tensor in self._program.buffers:
            return self.home(tensor) == memory
        words = self._machine.memories[memory]
        is_same = words.element.type == self._program.constant_types[tensor] and words.width == self._machine.lanes
        return is_same and self._program.constants[tensor].ndim == 4 and memory in self._transfers.loads

    # -- operands ------------------------------------------------------------------------------------------------------

    def tensor(self, read: str, walked: str) -> TensorRead | None:
        """A tensor whose channels the loop `walked` goes over, and nothing else does."""
        return TensorRead(read) if is_lane_walk(self._nest.reads[read], walked, self._machine.lanes) else None

    def word_loop(self, format: InstructionFormat, bound: Mapping[str, object]) -> str | None:
        """The reduce loop whose iterations are the words of an instruction's blocks; NO_LOOP if it takes no blocks.

        It goes from pixel to pixel along the rows of the tensors that are read by blocks, and moves nothing else. None
        if there is no such loop.
        """
        blocks = {name: bound[name] for name in format.statement.blocks}
        if not blocks:
            return NO_LOOP
        if vector_blocks(self._machine) > 1:
            return None  # the next word is of the same pixel
        reads = [read.read for read in blocks.values() if isinstance(read, TensorRead)]
        if len(reads) < len(blocks):
            return None
        still = [b.read for name, b in bound.items() if name not in blocks and isinstance(b, TensorRead)]
        words = {format.operand(name).block for name in blocks}
        for loop in self._space.reduce:
            others = [other for other in self._space.reduce if other != loop and self._space.trips[other] > 1]
            if others and not format.reduce_loops:
                continue
            moves_blocks = all(_is_along_rows(self._nest.reads[read], loop) for read in reads)
            moves_others = any(coefficient(index, loop) for read in still for index in self._nest.reads[read].index)
            if {self._space.trips[loop]} == words and moves_blocks and not moves_others:
                return loop
        return None

    def table(self, operand: Operand, read: str, walked: str) -> TableBinding | None:
        """A table of as many entries as the operand looks up in, one for all channels or one for each."""
        access = self._nest.reads[read]
        has_entries = self._program.constants[access.tensor].shape[-1] == operand.block
        return TableBinding(read) if has_entries and _is_of_channels(access, walked) else None

    def parameters(self, operand: Operand, match: Match, walked: str) -> Parameters | None:
        """The constants in the fields of a structured operand: one for all, for each channel or for each pixel."""
        fields: dict[str, str | int] = {}
        free = set()
        for field in operand.element.fields:
            expr = match.fields.get((operand.name, field.name))
            if expr is None:
                fields[field.name] = min(max(0, field.type.interval.low), field.type.interval.high)
                free.add(field.name)
            elif expr.op is Op.CONST:
                fields[field.name] = expr.value
            elif _is_of_channels(self._nest.reads[expr.name], walked) or self._is_of_pixels(expr.name, walked):
                fields[field.name] = expr.name
            else:
                return None
        return Parameters(fields, frozenset(free))

    def _is_of_pixels(self, read: str, walked: str) -> bool:
        """Whether a constant [N, C, H, W] moves with the result: it has one value for each pixel, or channel of it."""
        access, space = self._nest.reads[read], self._space
        if walked != space.lane or access.tensor not in self._program.constants:
            return False
        loops = (space.batch, space.lane, space.row, space.column)
        return len(access.index) == len(loops) and all(
            index.terms in ((), ((loop, 1),)) and not index.constant
            for index, loop in zip(access.index, loops, strict=True)
        )

    def product(self, format: InstructionFormat, match: Match) -> dict[str, Binding] | None:
        """The operands of a dot product: vectors of channels, and a matrix that is constant or computed."""
        vector, weights = systolic_activations(format), systolic_weights(format)
        vectors, tiles = match.operands[vector.name], match.operands[weights.name]
        if vectors.op is not Op.SOURCE or tiles.op is not Op.SOURCE:
            return None
        access, matrix = self._nest.reads[vectors.name], self._nest.reads[tiles.name]
        lanes = self._machine.lanes
        if not self._lives_in(access.tensor, vector.memory):
            return None
        if not is_vector(access, self._space, vector.block * lanes):
            return None
        summed = summed_loop(access)
        assert summed is not None
        is_transposed = is_transposing(format)
        if matrix.tensor in self._program.constants:
            if is_transposed or not is_matrix_of_constants(matrix, summed, self._space):
                return None
            values, held = self.constant_range(tiles), weights.element.type
            if values is None or held is None or not self._holds(held, matrix.tensor, values):
                return None
            return {vector.name: TensorRead(vectors.name), weights.name: ConstantMatrix(tiles.name)}
        if not self._are_rows_of_tiles(matrix.tensor, weights):
            return None
        if not is_matrix_of_a_tensor(matrix, summed, self._space, lanes, is_transposed):
            return None
        if is_transposed and self._space.trips[summed] % lanes and access.tensor not in self._program.constants:
            return None  # lanes beyond the channels hold anything, on both sides; a constant holds zeros there
        return {vector.name: TensorRead(vectors.name), weights.name: ComputedMatrix(tiles.name)}

    def _holds(self, held: IntegerType, constant: str, values: Interval) -> bool:
        """Whether a type has all values of a constant, which lie in an interval."""
        if not isinstance(held, FloatType):
            return held.interval.contains(values)
        return small_float_of(held).holds(self._program.constants[constant].astype(np.int64))

    def _are_rows_of_tiles(self, tensor: str, weights: Operand) -> bool:
        """Whether the words of a tensor in DRAM are as long as rows of weight tiles, with the same elements."""
        rows = self._machine.memories[weights.memory]
        words = self._machine.memories[self.home(tensor)]
        return weights.element == words.element and rows.width == words.width == self._machine.lanes


def _is_along_rows(access: Access, loop: str) -> bool:
    """Whether a loop moves an access from pixel to pixel of a row, and nowhere else."""
    moves = [coefficient(index, loop) for index in access.index]
    return moves[COLUMN] == 1 and sum(map(abs, moves)) == 1


def _is_of_channels(access: Access, loop: str) -> bool:
    """Whether a constant has one value for each channel that a loop walks over, from any on, or one for all."""
    moving = [index for index in access.index if index.terms]
    return not moving or (len(moving) == 1 and moving[0].terms == ((loop, 1),))


NO_OPERANDS: Mapping[str, Expr] = MappingProxyType({})
NO_FIELDS: Mapping[tuple[str, str], Expr] = MappingProxyType({})
NO_IMMEDIATES: Mapping[str, int] = MappingProxyType({})


class Match(NamedTuple):
    """How an instruction computes an expression: what each leaf of its statement stands for."""

    operands: Mapping[str, Expr] = NO_OPERANDS  # plain operand → the value it reads
    fields: Mapping[tuple[str, str], Expr] = NO_FIELDS  # (operand, field) → constant of each channel
    immediates: Mapping[str, int] = NO_IMMEDIATES
    idle: frozenset[str] = frozenset()  # operands whose value is multiplied by zero
    reduced: frozenset[str] = frozenset()  # operands that are read once for each iteration of the reduce loops
    neutral: int = 0  # neutral values bound

    def with_operand(self, name: str, expr: Expr, is_reduced: bool) -> Match:
        reduced = self.reduced | {name} if is_reduced else self.reduced
        operands = {**self.operands, name: expr}
        return Match(operands, self.fields, self.immediates, self.idle, reduced, self.neutral)

    def with_field(self, key: tuple[str, str], expr: Expr) -> Match:
        fields = {**self.fields, key: expr}
        return Match(self.operands, fields, self.immediates, self.idle, self.reduced, self.neutral)

    def with_immediate(self, name: str, value: int) -> Match:
        immediates = {**self.immediates, name: value}
        return Match(self.operands, self.fields, immediates, self.idle, self.reduced, self.neutral)

    def with_idle(self, name: str) -> Match:
        return Match(self.operands, self.fields, self.immediates, self.idle | {name}, self.reduced, self.neutral)

    def with_neutral(self) -> Match:
        return Match(self.operands, self.fields, self.immediates, self.idle, self.reduced, self.neutral + 1)


UNBOUND = Match()
"""With which no leaf is bound yet."""


class _Anything(Match):
    """Stands for every way to bind the leaves: it binds none."""

    __slots__ = ()

    def with_operand(self, name: str, expr: Expr, is_reduced: bool) -> Match:
        return self

    def with_field(self, key: tuple[str, str], expr: Expr) -> Match:
        return self

    def with_immediate(self, name: str, value: int) -> Match:
        return self

    def with_idle(self, name: str) -> Match:
        return self

    def with_neutral(self) -> Match:
        return self


ANYTHING = _Anything()
