"""Instruction formats: from a loop nest and a statement to fields at bit positions, and instructions as values.

An instruction, from bit 0: the opcode, one wait count per engine, the loops' trip counts (stored minus one), per
operand its region (DRAM only), base and strides, the immediates, the flags. Nobody chooses a position by hand. It takes
as many whole words of WORD_BYTES as that needs; the opcode, which tells how many, is in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from operator import itemgetter

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.language.statement import Statement
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.memory import DRAM, Element

OPCODE = "opcode"
OPCODE_BITS = 8
WORD_BYTES = 4
"""The length of every instruction is a multiple of this."""

ACCUMULATE = "accumulate"
"""The only flag: add the statement's sum to the destination's old value."""


class FieldKind(Enum):
    OPCODE = "opcode"
    WAIT = "wait"  # completed instructions of an engine that must be seen before the start
    TRIP = "trip"  # trip count of a loop, at least 1; stored minus one
    REGION = "region"  # number of a DRAM region
    BASE = "base"  # words on chip, bytes in DRAM
    STRIDE = "stride"  # words on chip, bytes in DRAM; signed
    IMMEDIATE = "immediate"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class InstructionField:
    """One field of an encoded instruction: `type.bits` bits from `low_bit`, holding value - `stored_minus`."""

    name: str  # opcode, wait.load, trip.k, a.region, a.base, a.k (stride of operand a over loop k), zero, accumulate
    kind: FieldKind
    type: IntegerType
    low_bit: int
    stored_minus: int = 0

    @property
    def low(self) -> int:
        return self.type.interval.low + self.stored_minus

    @property
    def high(self) -> int:
        return self.type.interval.high + self.stored_minus

    @property
    def default(self) -> int:
        """The value of a field that an assembly line does not mention: 1 for a trip count, otherwise 0."""
        return self.stored_minus


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of the nest: its trip count is 1 … 2**bits."""

    name: str
    bits: int
    is_reduce: bool


@dataclass(frozen=True)
class Operand:
    """A source or destination of the statement: per iteration, `block` consecutive words of a memory.

    The first word of the block is at `base + Σ index·stride` over `loops`; the operand stays put over all others.
    A DRAM operand moves, per iteration, the bytes of one word of the on-chip operand at its other end.
    """

    name: str
    memory: str
    loops: tuple[str, ...]  # in nest order
    block: int
    element: Element  # of a word; for DRAM, that of the on-chip operand

    @cached_property
    def loop_fields(self) -> tuple[tuple[str, str], ...]:
        """The fields of trip count and stride for each of its loops."""
        return tuple((f"trip.{loop}", f"{self.name}.{loop}") for loop in self.loops)


@dataclass(frozen=True)
class InstructionFormat:
    """One instruction of a machine: its meaning (nest and statement) and its encoding (fields)."""

    mnemonic: str
    about: str
    opcode: int
    engine: Engine
    loops: tuple[Loop, ...]  # outermost first
    sources: tuple[Operand, ...]
    destination: Operand
    immediates: Mapping[str, IntegerType]
    has_accumulate: bool
    statement: Statement
    fields: tuple[InstructionField, ...]

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Sources in file order, then the destination."""
        return (*self.sources, self.destination)

    @cached_property
    def in_dram(self) -> Operand | None:
        """The operand in DRAM, if there is one."""
        return next((operand for operand in self.operands if operand.memory == DRAM), None)

    @cached_property
    def streams(self) -> tuple[Operand, ...]:
        """The sources of which every iteration takes the word (or block) at their address."""
        return tuple(operand for operand in self.sources if operand.name not in self.statement.tables)

    @cached_property
    def tables(self) -> tuple[Operand, ...]:
        """The sources that the statement looks up in: each lane reads a word of the block of its own choice."""
        return tuple(operand for operand in self.sources if operand.name in self.statement.tables)

    @cached_property
    def reduce_loops(self) -> tuple[str, ...]:
        return tuple(loop.name for loop in self.loops if loop.is_reduce)

    @cached_property
    def trip_places_of_sums(self) -> tuple[int, ...]:
        """The positions in `fields` of the trip counts of all loops that are not reduced."""
        return tuple(self.positions[f"trip.{loop.name}"] for loop in self.loops if not loop.is_reduce)

    @property
    def bits(self) -> int:
        last = self.fields[-1]
        return last.low_bit + last.type.bits

    @cached_property
    def bytes(self) -> int:
        """The length of the encoded instruction: that of its fields, in whole words."""
        return -(-self.bits // (8 * WORD_BYTES)) * WORD_BYTES

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position in `fields` of each field, by its name."""
        return {field.name: position for position, field in enumerate(self.fields)}

    @cached_property
    def held(self) -> tuple[tuple[str, int, int, int], ...]:
        """The name of each field, the least and the largest value that it holds, and its default."""
        return tuple((field.name, field.low, field.high, field.default) for field in self.fields)

    @cached_property
    def held_immediates(self) -> Mapping[str, Interval]:
        """The values that the field of each immediate holds."""
        fields = {name: self.field(name) for name in self.immediates}
        return {name: Interval(field.low, field.high) for name, field in fields.items()}

    @cached_property
    def beside_destination(self) -> frozenset[str]:
        """The sources in the memory of the destination."""
        return frozenset(operand.name for operand in self.sources if operand.memory == self.destination.memory)

    @cached_property
    def walks(self) -> Mapping[str, Callable[[tuple[int, ...]], tuple[int, ...]]]:
        """By operand, what takes from an instruction's values the stride and the trip count of each of its loops."""
        places = {
            operand.name: [self.positions[field] for trip, stride in operand.loop_fields for field in (stride, trip)]
            for operand in self.operands
        }
        return {name: itemgetter(*own) if own else itemgetter(slice(0)) for name, own in places.items()}

    @cached_property
    def meaning(self) -> Hashable:
        """What it does and which fields say it: equal for instructions that do the same on different engines."""
        fields = tuple((field.name, field.type) for field in self.fields)
        operands, immediates = (*self.sources, self.destination), tuple(self.immediates.items())
        return self.loops, operands, immediates, self.has_accumulate, self.statement, fields

    @cached_property
    def shape(self) -> Callable[[tuple[int, ...]], Hashable]:
        """What takes from an instruction's values all but bases and waits; different for different formats."""
        apart = FieldKind.BASE, FieldKind.WAIT
        return itemgetter(*(position for position, field in enumerate(self.fields) if field.kind not in apart))

    @cached_property
    def stride_places(self) -> Mapping[str, tuple[tuple[str, int | None], ...]]:
        """By operand, the position in `fields` of its stride over each loop of the nest; None where it stays put."""
        return {
            operand.name: tuple(
                (loop.name, self.positions[f"{operand.name}.{loop.name}"] if loop.name in operand.loops else None)
                for loop in self.loops
            )
            for operand in self.operands
        }

    @cached_property
    def base_places(self) -> Mapping[str, int]:
        """By operand, the position in `fields` of its base."""
        return {operand.name: self.positions[f"{operand.name}.base"] for operand in self.operands}

    @cached_property
    def wait_places(self) -> tuple[tuple[str, int], ...]:
        """By engine, in the order of the machine's, the position in `fields` of its wait count."""
        return tuple(
            (field.name.partition(".")[2], position)
            for position, field in enumerate(self.fields)
            if field.kind is FieldKind.WAIT
        )

    def operand(self, name: str) -> Operand:
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise IsaError(f"{self.mnemonic} has no operand {name!r}; it has: {', '.join(o.name for o in self.operands)}")

    def field(self, name: str) -> InstructionField:
        if name in self.positions:
            return self.fields[self.positions[name]]
        raise IsaError(f"{self.mnemonic} has no field {name!r}; it has: {', '.join(f.name for f in self.fields)}")


@dataclass(frozen=True)
class Instruction:
    """An instruction with the value of every field. Values are as a person writes them: a trip count of 3 is 3."""

    format: InstructionFormat
    values: tuple[int, ...]  # parallel to format.fields

    def __getitem__(self, field: str) -> int:
        return self.values[self.format.positions[field]]

    @property
    def mnemonic(self) -> str:
        return self.format.mnemonic

    @property
    def engine(self) -> Engine:
        return self.format.engine

    @cached_property
    def trips(self) -> Mapping[str, int]:
        """Trip count by loop name, outermost first."""
        return {loop.name: self[f"trip.{loop.name}"] for loop in self.format.loops}

    @property
    def waits(self) -> dict[str, int]:
        """Wait count by engine name, in the order of the machine's engines."""
        values = self.values
        return {engine: values[place] for engine, place in self.format.wait_places}

    def base(self, operand: str) -> int:
        return self.values[self.format.base_places[operand]]

    def strides(self, operand: Operand) -> dict[str, int]:
        """Stride by loop name for every loop of the nest; 0 where the operand does not move."""
        values = self.values
        return {loop: 0 if place is None else values[place] for loop, place in self.format.stride_places[operand.name]}

    def replace(self, changes: Mapping[str, int]) -> Instruction:
        """The same instruction with some fields changed; raises IsaError like `make_instruction`."""
        positions, held, full = self.format.positions, self.format.held, list(self.values)
        for name, value in changes.items():
            place = positions.get(name, 0)
            if not place or not held[place][1] <= value <= held[place][2]:
                break
            full[place] = int(value)
        else:
            return Instruction(self.format, tuple(full))
        named = {field.name: value for field, value in zip(self.format.fields, self.values, strict=True)}
        named.pop(OPCODE)
        return make_instruction(self.format, {**named, **changes})  # which says what is wrong


def make_instruction(format: InstructionFormat, values: Mapping[str, int]) -> Instruction:
    """An instruction from values by field name; what is not named takes its field's default.

    Raises IsaError for an unknown name or a value that its field cannot hold.
    """
    if OPCODE in values or not values.keys() <= format.positions.keys():
        name = next(name for name in values if name == OPCODE or name not in format.positions)
        raise IsaError(
            f"{format.mnemonic} has no field {name!r}; it has: {', '.join(f.name for f in format.fields[1:])}"
        )
    full = []
    for name, low, high, default in format.held:
        value = format.opcode if name == OPCODE else int(values.get(name, default))
        if not low <= value <= high:
            raise IsaError(
                f"{format.mnemonic}: {name} = {value} does not fit its {format.field(name).type.bits} bits; "
                f"expected {low} to {high}"
            )
        full.append(value)
    return Instruction(format, tuple(full))


def encode(instruction: Instruction) -> bytes:
    """The instruction as the bytes of its format, little endian; unused high bits are zero."""
    word = 0
    for field, value in zip(instruction.format.fields, instruction.values, strict=True):
        word |= ((value - field.stored_minus) & ((1 << field.type.bits) - 1)) << field.low_bit
    return word.to_bytes(instruction.format.bytes, "little")


def decode(encoded: bytes, formats: Mapping[int, InstructionFormat]) -> Instruction:
    """The instruction that `encode` made, from its bytes, which zeros may follow; `formats` is by opcode.

    Raises IsaError for an unknown opcode, missing bytes or a set bit outside every field.
    """
    format = format_at(encoded, formats)
    if len(encoded) < format.bytes:
        raise IsaError(f"{format.mnemonic} has {format.bytes} bytes; {len(encoded)} came")
    word = int.from_bytes(encoded, "little")
    if word >> format.bits:
        raise IsaError(f"{format.mnemonic}: bits are set above its last field (bit {format.bits})")
    values = []
    for field in format.fields:
        stored = (word >> field.low_bit) & ((1 << field.type.bits) - 1)
        if field.type.is_signed and stored >> (field.type.bits - 1):
            stored -= 1 << field.type.bits
        values.append(stored + field.stored_minus)
    return Instruction(format, tuple(values))


def format_at(encoded: bytes, formats: Mapping[int, InstructionFormat]) -> InstructionFormat:
    """The format of the instruction that some bytes begin with. Raises IsaError for an unknown opcode."""
    opcode = int.from_bytes(encoded[:WORD_BYTES], "little") & ((1 << OPCODE_BITS) - 1)
    if opcode not in formats:
        raise IsaError(f"unknown opcode {opcode}; the machine has: {', '.join(map(str, sorted(formats)))}")
    return formats[opcode]
