"""Memories: what a word holds, how many there are, how they are banked; and the DRAM behind the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import IntegerType

DRAM = "dram"
"""The name of the off-chip memory in operands and engine reach lists."""

BYTE_BITS = 8

REGIONS = ("program", "weights", "workspace", "inputs", "outputs")
"""The DRAM regions whose base and limit the host sets; a DRAM address is a region's number and a byte offset."""


@dataclass(frozen=True, slots=True)
class Field:
    """One named part of a structured element: bits `low_bit` up to `low_bit + type.bits`."""

    name: str
    type: IntegerType
    low_bit: int


@dataclass(frozen=True, slots=True)
class Element:
    """What one lane of a word holds: one integer (`fields` is empty) or a structure of named integers.

    In memory an element takes `bits`, a power of two, little endian: an integer narrower than a byte shares its byte
    with its neighbours, the first of them lowest. A structure takes at least a byte; its fields are packed from bit 0
    in file order. Padding bits are zero and are kept as they are by DMA.
    """

    type: IntegerType | None
    fields: tuple[Field, ...]
    bits: int

    def field(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise IsaError(f"element has no field {name!r}; it has: {', '.join(f.name for f in self.fields) or 'none'}")

    @property
    def bytes(self) -> int:
        """Bytes of an element of whole bytes."""
        assert self.bits % BYTE_BITS == 0, "it shares its byte"
        return self.bits // BYTE_BITS

    @property
    def in_a_byte(self) -> int:
        """How many elements share a byte: 1 of those that take whole bytes."""
        return max(1, BYTE_BITS // self.bits)

    @property
    def types(self) -> dict[str, IntegerType]:
        """Of each field by its name; of an integer its own, by the empty name."""
        return {"": self.type} if self.type is not None else {field.name: field.type for field in self.fields}


def storage_bits(bits: int) -> int:
    """Bits that an integer of `bits` takes in memory: the next power of two. 54 → 64, 3 → 4."""
    return 1 << (bits - 1).bit_length()


def integer_element(integer_type: IntegerType) -> Element:
    return Element(integer_type, (), storage_bits(integer_type.bits))


BYTE = integer_element(IntegerType(BYTE_BITS, False))
"""What DRAM holds, whatever it means."""


def structured_element(types: Mapping[str, IntegerType]) -> Element:
    fields, low_bit = [], 0
    for name, field_type in types.items():
        fields.append(Field(name, field_type, low_bit))
        low_bit += field_type.bits
    return Element(None, tuple(fields), max(BYTE_BITS, storage_bits(low_bit)))


class Interleave(StrEnum):
    """Which bank holds a word: consecutive words lie in consecutive banks, or a bank holds consecutive words."""

    WORDS = "words"
    NONE = "none"


MOST_MEMORY_PORTS = 2
"""Ports that a bank has if the machine's file does not say: one that reads and one that writes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """An on-chip memory of `depth` words in `banks` banks.

    A bank has one read and one write port, or one port that does either. A port moves up to the widest block that an
    engine's single access asks for: consecutive words from any address. With banks interleaved by words, it moves one.
    """

    name: str
    element: Element
    width: int  # elements in a word
    depth: int  # words
    banks: int
    ports: int = MOST_MEMORY_PORTS
    interleave: Interleave = Interleave.NONE

    @property
    def word_bytes(self) -> int:
        return self.width * self.element.bits // BYTE_BITS

    @property
    def bytes(self) -> int:
        return self.depth * self.word_bytes

    @property
    def bank_depth(self) -> int:
        """Words in a bank; word `w` is in bank `w // bank_depth`, or `w % banks` if words are interleaved."""
        return self.depth // self.banks

    @property
    def has_one_port(self) -> bool:
        """Whether a bank either reads or writes in a cycle."""
        return self.ports == 1

    @property
    def is_interleaved(self) -> bool:
        return self.interleave is Interleave.WORDS

    @property
    def stretch_words(self) -> int:
        """Consecutive words that a block must not leave: those of a bank, or all where words are interleaved."""
        return self.depth if self.is_interleaved else self.bank_depth

    @property
    def stretches(self) -> int:
        """How many of these the memory has: its banks, or one. Placing a buffer chooses between them."""
        return self.depth // self.stretch_words

    @property
    def address_bits(self) -> int:
        return max(1, (self.depth - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Dram:
    """The memory behind the AXI4 bus, and what the DMA engines assume of it."""

    bus_bytes: int  # bytes moved by one beat, a power of two
    latency_cycles: int  # from a read address accepted to its first beat, on an idle memory
    outstanding_beats: int  # beats of read data that the load engine asks for ahead
    offset_bits: int  # width of a byte offset into a region
    ports: int = 1  # of AXI, each a bus of its own; fetch is on the first, a DMA engine on the one that it says
