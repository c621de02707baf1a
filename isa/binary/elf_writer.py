"""A program as the bytes of an ELF64 file (System V gABI, chapters 4 and 5), little endian, always the same bytes.

The file, in order: ELF header, program headers, checksums (at a fixed place), notes, .text, .rodata, symbols, strings,
section headers. Addresses are those of `place_regions` from 0 on: each DRAM region is a segment.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate

import numpy as np

from tilewright.isa.binary.description import describe
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES, Program, place_regions

MACHINE_NUMBER = 0x5754
"""e_machine: the letters TW. Registered numbers are small, so this one is free; e_flags holds FORMAT."""

FORMAT = 5
"""Number of the layout that this file describes; readers refuse any other."""

PACKED_FORMAT = 6
"""The same layout, of a program whose machine has elements that share bytes: each had one of its own before."""

OWNER = b"Tilewright\0"

NOTE_HASH, NOTE_TEXT, NOTE_TOOL, NOTE_DESCRIPTION, NOTE_PROVENANCE, NOTE_CHECKSUMS = range(0x545701, 0x545707)
"""Types of our notes: the machine's hash, its YAML, the tool's version, JSON, layer of each instruction, checksums.

They begin beyond the types that readers know by name for other owners."""

TEXT, RODATA, NOTES = ".text", ".rodata", ".note.tilewright"
CHECKSUMS = ".note.tilewright.sha256"
SIZES = {"workspace": ".bss.workspace", "inputs": ".bss.inputs", "outputs": ".bss.outputs"}
"""The section whose size is that of a region which has no content in the file."""

ORDER = (CHECKSUMS, NOTES, TEXT, RODATA, *SIZES.values(), ".symtab", ".strtab", ".shstrtab")
"""Every section but the null one, in file order."""

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

EXECUTABLE_FILE = 2  # ET_EXEC
LOAD_SEGMENT, NOTE_SEGMENT = 1, 4  # PT_LOAD, PT_NOTE
PROGBITS, SYMTAB, STRTAB, NOTE, NOBITS = 1, 2, 3, 7, 8  # SHT_…
WRITE, ALLOC, EXECUTE = 1, 2, 4  # SHF_…; a segment's flags PF_… are execute 1, write 2, read 4
GLOBAL_FUNCTION = 1 << 4 | 2  # STB_GLOBAL, STT_FUNC

IDENT = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little endian, version 1

HASHED = (NOTES, TEXT, RODATA, ".symtab", ".strtab", ".shstrtab")
"""Sections with a checksum of their own, in the order of the checksums."""

DIGEST_BYTES = hashlib.sha256().digest_size
NOTE_HEADER = struct.Struct("<III")
DIGEST_IN_NOTE = NOTE_HEADER.size + -(-len(OWNER) // 4) * 4
"""Where the first checksum is in the note that holds them, which is the first thing after the headers."""

SEGMENTS = len(REGIONS) + 1
CHECKSUMS_OFFSET = HEADER.size + SEGMENTS * SEGMENT.size
FILE_DIGEST_OFFSET = CHECKSUMS_OFFSET + DIGEST_IN_NOTE
"""Where the checksum of the whole file is, itself taken as zeros; those of the HASHED sections follow."""


def tool_version() -> str:
    """The version of the installed Tilewright."""
    try:
        return version("tilewright")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section of an ELF file before it has its place."""

    name: str
    kind: int
    flags: int
    content: bytes
    address: int = 0
    size: int | None = None  # of a section without content
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_bytes: int = 0

    @property
    def bytes(self) -> int:
        return len(self.content) if self.size is None else self.size


def to_bytes(program: Program, tool: str | None = None) -> bytes:
    """The ELF file of a program. Raises IsaError for a region that is too large, or a layer that no symbol can name."""
    check_sizes(program)
    sections = _sections(program, tool_version() if tool is None else tool)
    offsets = _offsets(sections)
    end = offsets[-1] + sections[-1].bytes
    table = -(-end // 8) * 8
    image = bytearray(table + (len(sections) + 1) * SECTION.size)
    image[: HEADER.size] = _header(table, len(sections) + 1, format_of(program.machine))
    image[HEADER.size : CHECKSUMS_OFFSET] = _segments(sections, offsets)
    names = sections[-1].content
    image[table + SECTION.size :] = b"".join(
        section_header(section, offset, names) for section, offset in zip(sections, offsets, strict=True)
    )
    for section, offset in zip(sections, offsets, strict=True):
        image[offset : offset + len(section.content)] = section.content
    digest = file_digest(image, FILE_DIGEST_OFFSET)
    image[FILE_DIGEST_OFFSET : FILE_DIGEST_OFFSET + DIGEST_BYTES] = digest
    return bytes(image)


def file_digest(image: bytes | bytearray, offset: int) -> bytes:
    """SHA-256 of a file in which the place of this very checksum, at `offset`, counts as zeros."""
    digest = hashlib.sha256(image[:offset])
    digest.update(bytes(DIGEST_BYTES))
    digest.update(image[offset + DIGEST_BYTES :])
    return digest.digest()


def check_sizes(program: Program) -> None:
    """Raises IsaError when a region is negative or larger than a DRAM offset of the machine reaches."""
    most = 1 << program.machine.dram.offset_bits
    for region, size in program.limits.items():
        if not 0 <= size <= most:
            raise IsaError(
                f"the {region} region has {size} bytes; the {program.machine.dram.offset_bits}-bit offsets of "
                f"{program.machine.name} reach {most}"
            )


def _sections(program: Program, tool: str) -> list[ElfSection]:
    """The sections of ORDER with their contents."""
    bases, limits = place_regions(program.limits), program.limits
    symbols, strings = _symbols(program, bases["program"])
    body = [
        ElfSection(NOTES, NOTE, 0, _notes(program, tool), alignment=4),
        ElfSection(TEXT, PROGBITS, ALLOC | EXECUTE, program.text, bases["program"], alignment=REGION_ALIGNMENT_BYTES),
        ElfSection(RODATA, PROGBITS, ALLOC, program.weights, bases["weights"], alignment=REGION_ALIGNMENT_BYTES),
        *(
            ElfSection(
                name, NOBITS, ALLOC | WRITE, b"", bases[region], limits[region], alignment=REGION_ALIGNMENT_BYTES
            )
            for region, name in SIZES.items()
        ),
        ElfSection(
            ".symtab", SYMTAB, 0, symbols, link=_number(".strtab"), info=1, alignment=8, entry_bytes=SYMBOL.size
        ),
        ElfSection(".strtab", STRTAB, 0, strings),
    ]
    names = b"\0" + b"".join(name.encode() + b"\0" for name in ORDER)
    body.append(ElfSection(".shstrtab", STRTAB, 0, names))
    by_name = {section.name: section.content for section in body}
    digests = bytes(DIGEST_BYTES) + b"".join(hashlib.sha256(by_name[name]).digest() for name in HASHED)
    sections = [ElfSection(CHECKSUMS, NOTE, 0, note(NOTE_CHECKSUMS, digests), alignment=4), *body]
    assert tuple(section.name for section in sections) == ORDER
    return sections


def _number(section: str) -> int:
    """The index of a section in the section header table."""
    return ORDER.index(section) + 1


def _offsets(sections: Sequence[ElfSection]) -> list[int]:
    """File offset of each section; content is on 16-byte boundaries, after the fixed place of the checksums."""
    offsets, position = [], CHECKSUMS_OFFSET
    for section in sections:
        offsets.append(position)
        position = -(-(position + len(section.content)) // 16) * 16
    return offsets


def format_of(machine: Machine) -> int:
    """The number in the file of a machine's program."""
    return PACKED_FORMAT if any(each.element.in_a_byte > 1 for each in machine.memories.values()) else FORMAT


def _header(table: int, sections: int, file_format: int) -> bytes:
    return HEADER.pack(
        IDENT,
        EXECUTABLE_FILE,
        MACHINE_NUMBER,
        1,  # e_version
        0,  # e_entry: the program region begins at address 0
        HEADER.size,  # e_phoff
        table,  # e_shoff
        file_format,  # e_flags
        HEADER.size,
        SEGMENT.size,
        SEGMENTS,
        SECTION.size,
        sections,
        sections - 1,  # e_shstrndx
    )


def _segments(sections: Sequence[ElfSection], offsets: Sequence[int]) -> bytes:
    headers = []
    for section, offset in zip(sections, offsets, strict=True):
        if section.flags & ALLOC:
            flags = 4 | (2 if section.flags & WRITE else 0) | (1 if section.flags & EXECUTE else 0)
            headers.append(
                SEGMENT.pack(
                    LOAD_SEGMENT,
                    flags,
                    offset,
                    section.address,
                    section.address,
                    len(section.content),
                    section.bytes,
                    1,
                )
            )
        if section.name == NOTES:
            size = len(section.content)
            headers.append(SEGMENT.pack(NOTE_SEGMENT, 4, offset, 0, 0, size, size, 4))
    assert len(headers) == SEGMENTS
    return b"".join(headers)


def section_header(section: ElfSection, offset: int, names: bytes) -> bytes:
    """An entry of the section header table; `names` is the content of .shstrtab."""
    return SECTION.pack(
        names.index(b"\0" + section.name.encode() + b"\0") + 1,
        section.kind,
        section.flags,
        section.address,
        offset,
        section.bytes,
        section.link,
        section.info,
        section.alignment,
        section.entry_bytes,
    )


def _symbols(program: Program, base: int) -> tuple[bytes, bytes]:
    """The symbol table and its strings: one function a layer, from its first instruction to the next layer's."""
    table, strings = [SYMBOL.pack(0, 0, 0, 0, 0, 0)], bytearray(b"\0")
    firsts = [*(layer.first_instruction for layer in program.layers), len(program.instructions)]
    places = [0, *accumulate(instruction.format.bytes for instruction in program.instructions)]
    for layer, end in zip(program.layers, firsts[1:], strict=True):
        if "\0" in layer.name or not 0 <= layer.first_instruction <= end:
            raise IsaError(f"layer {layer.name!r} cannot be a symbol: instructions {layer.first_instruction} to {end}")
        first, size = places[layer.first_instruction], places[end] - places[layer.first_instruction]
        table.append(SYMBOL.pack(len(strings), GLOBAL_FUNCTION, 0, _number(TEXT), base + first, size))
        strings += layer.name.encode() + b"\0"
    return b"".join(table), bytes(strings)


def machine_notes(machine: Machine, tool: str) -> bytes:
    """The notes that every binary begins with: for which machine it is, and what wrote it."""
    return b"".join(
        note(kind, content.encode())
        for kind, content in ((NOTE_HASH, machine.hash), (NOTE_TEXT, machine.text), (NOTE_TOOL, tool))
    )


def _notes(program: Program, tool: str) -> bytes:
    return (
        machine_notes(program.machine, tool)
        + note(NOTE_DESCRIPTION, describe(program))
        + note(NOTE_PROVENANCE, _provenance(program))
    )


def _provenance(program: Program) -> bytes:
    """The layer of each instruction as uint32, or nothing; layers name their ONNX nodes in the description."""
    for index, layer in enumerate(program.provenance):
        if not 0 <= layer < len(program.layers):
            raise IsaError(f"instruction {index} serves layer {layer}; the program has {len(program.layers)} layers")
    return np.array(program.provenance, "<u4").tobytes()


def note(kind: int, content: bytes) -> bytes:
    """A note of ours."""
    return NOTE_HEADER.pack(len(OWNER), len(content), kind) + _padded(OWNER) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)
