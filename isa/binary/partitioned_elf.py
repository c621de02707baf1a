"""Partitioned networks as ELF64 files, and the one place that reads either kind of binary.

The file, in order: ELF header, checksums (at a fixed place), notes, a section for each segment (`.npu.0` holds the
whole ELF file of a program, `.host.1` a serialised ONNX model), section names, section headers. The notes hold the
machine, the tool's version and, as JSON, what each segment is: kind, section, inputs, outputs, host nodes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import assert_never, cast

from tilewright.isa.binary import elf
from tilewright.isa.binary.elf_writer import (
    CHECKSUMS,
    DIGEST_BYTES,
    DIGEST_IN_NOTE,
    EXECUTABLE_FILE,
    HEADER,
    IDENT,
    MACHINE_NUMBER,
    NOTE,
    NOTE_CHECKSUMS,
    NOTE_HASH,
    NOTE_TEXT,
    NOTE_TOOL,
    NOTES,
    PROGBITS,
    SECTION,
    STRTAB,
    ElfSection,
    file_digest,
    machine_notes,
    note,
    section_header,
    to_bytes,
    tool_version,
)
from tilewright.isa.binary.segments import described, network_described, section_names
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets
from tilewright.isa.program.demands import require_within
from tilewright.isa.program.partitioned import (
    HostSegment,
    NpuSegment,
    Partitioned,
    Segment,
)
from tilewright.isa.program.program import Program

FORMAT = 2
"""Number of the layout that this file describes, in e_flags, where a program has the FORMAT of elf_writer.py."""

NOTE_SEGMENTS = 0x545707
"""Type of the note that says what the segments are; the other types are those of programs."""

NAMES = ".shstrtab"
DIGEST_OFFSET = HEADER.size + DIGEST_IN_NOTE
"""Where the checksum of the whole file is, itself taken as zeros; those of the sections after it follow."""

FLAGS = struct.Struct("<I")
FLAGS_OFFSET = 48


def save_any(binary: Program | Partitioned, path: str | Path) -> None:
    """Write a binary of either kind; the file appears complete or not at all. Raises IsaError."""
    elf.save_image(any_to_bytes(binary), path)


def any_to_bytes(binary: Program | Partitioned) -> bytes:
    """The bytes of a binary of either kind. Raises IsaError."""
    return to_bytes(binary) if isinstance(binary, Program) else partitioned_to_bytes(binary)


def load_any(
    path: str | Path, machine: Machine | None = None, budgets: Budgets = DEFAULT_BUDGETS
) -> Program | Partitioned:
    """The binary of a file of either kind. Raises IsaError as `isa.binary.elf.load` does."""
    image = elf.read_image(path)
    if is_partitioned(image):
        return partitioned_from_bytes(image, str(path), machine, budgets)
    return elf.from_bytes(image, str(path), machine, budgets)


def is_partitioned(image: bytes) -> bool:
    """Whether a file says that it is of this format."""
    return len(image) >= HEADER.size and FLAGS.unpack_from(image, FLAGS_OFFSET)[0] == FORMAT


# -- writing -----------------------------------------------------------------------------------------------------------


def partitioned_to_bytes(network: Partitioned, tool: str | None = None) -> bytes:
    """The file's bytes; the same network gives the same bytes."""
    sections = _sections(network, tool_version() if tool is None else tool)
    offsets, position = [], HEADER.size
    for section in sections:
        offsets.append(position)
        position = -(-(position + len(section.content)) // 16) * 16
    table = position
    image = bytearray(table + (len(sections) + 1) * SECTION.size)
    image[: HEADER.size] = _header(table, len(sections) + 1)
    for section, offset in zip(sections, offsets, strict=True):
        image[offset : offset + len(section.content)] = section.content
    names = sections[-1].content
    image[table + SECTION.size :] = b"".join(
        section_header(section, offset, names) for section, offset in zip(sections, offsets, strict=True)
    )
    image[DIGEST_OFFSET : DIGEST_OFFSET + DIGEST_BYTES] = file_digest(image, DIGEST_OFFSET)
    return bytes(image)


def _sections(network: Partitioned, tool: str) -> list[ElfSection]:
    contents = {
        name: _content(segment, tool)
        for name, segment in zip(section_names(network.segments), network.segments, strict=True)
    }
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (CHECKSUMS, NOTES, *contents, NAMES))
    notes = machine_notes(network.machine, tool) + note(NOTE_SEGMENTS, described(network))
    body = [
        ElfSection(NOTES, NOTE, 0, notes, alignment=4),
        *(ElfSection(name, PROGBITS, 0, content, alignment=16) for name, content in contents.items()),
        ElfSection(NAMES, STRTAB, 0, names),
    ]
    digests = bytes(DIGEST_BYTES) + b"".join(hashlib.sha256(section.content).digest() for section in body)
    return [ElfSection(CHECKSUMS, NOTE, 0, note(NOTE_CHECKSUMS, digests), alignment=4), *body]


def _content(segment: Segment, tool: str) -> bytes:
    match segment:
        case NpuSegment(program=program):
            return to_bytes(program, tool)
        case HostSegment(onnx=onnx):
            return onnx
        case _:
            assert_never(segment)


def _header(table: int, sections: int) -> bytes:
    return HEADER.pack(
        IDENT, EXECUTABLE_FILE, MACHINE_NUMBER, 1, 0, 0, table, FORMAT, HEADER.size, 0, 0, SECTION.size, sections,
        sections - 1,
    )  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------------------------


def partitioned_from_bytes(
    image: bytes, name: str, machine: Machine | None = None, budgets: Budgets = DEFAULT_BUDGETS
) -> Partitioned:
    """The network of a file's bytes; messages call the file `name`. Raises IsaError as `load_any` does."""
    with elf.naming(name):
        _check_frame(image)
        _check_checksums(image)
        content = _read(image)
        described_for = elf.machine_of(content.notes, machine)
        network = network_described(content.notes[NOTE_SEGMENTS], content.segments, described_for)
        require_within(network.programs, budgets)
        if not content.is_of_before and partitioned_to_bytes(network, content.tool) != image:
            raise IsaError("headers do not agree with the content; compile the network again")
        return network


def _check_frame(image: bytes) -> None:
    ident, _, machine, _, _, _, table, _, _, _, _, entry_bytes, sections, _ = HEADER.unpack_from(image)
    if ident != IDENT or machine != MACHINE_NUMBER:
        raise IsaError(f"not a Tilewright program: an ELF file {ident.hex()} for machine {machine:#x}")
    expected = table + entry_bytes * sections
    if len(image) < expected:
        raise IsaError(f"truncated: {expected} bytes expected, {len(image)} came")
    if len(image) != expected or entry_bytes != SECTION.size or len(image) < DIGEST_OFFSET + DIGEST_BYTES * sections:
        raise IsaError(f"damaged: {expected} bytes expected by its header, {len(image)} came")


def _check_checksums(image: bytes) -> None:
    if image[DIGEST_OFFSET : DIGEST_OFFSET + DIGEST_BYTES] == file_digest(image, DIGEST_OFFSET):
        return
    try:
        damaged = _damaged_sections(image)
    except (struct.error, ValueError, IndexError):
        damaged = []
    what = f"section {', '.join(damaged)}" if damaged else "the headers"
    raise IsaError(f"damaged: wrong checksum of {what}; copy or compile the network again")


def _damaged_sections(image: bytes) -> list[str]:
    header = HEADER.unpack_from(image)
    table, count = header[6], header[12]
    headers = [SECTION.unpack_from(image, table + number * SECTION.size) for number in range(1, count)]
    contents = [elf.section_content(image, section) for section in headers]
    names = contents[-1]
    damaged = []
    for number, (section, content) in enumerate(zip(headers[1:], contents[1:], strict=True), start=1):
        start = DIGEST_OFFSET + number * DIGEST_BYTES
        if hashlib.sha256(content).digest() != image[start : start + DIGEST_BYTES]:
            damaged.append(names[section[0] : names.index(b"\0", section[0])].decode(errors="replace"))
    return damaged


@dataclass(frozen=True, slots=True)
class _PartitionedContent:
    notes: Mapping[int, bytes]  # by type
    segments: Mapping[str, bytes]  # by section

    @property
    def tool(self) -> str:
        return elf.decoded(self.notes[NOTE_TOOL], "tool version")

    @property
    def is_of_before(self) -> bool:
        """Whether a program in it has a format of before, so that it would be written with other bytes."""
        return any(elf.is_of_format_4(content) for name, content in self.segments.items() if name.startswith(".npu."))


def _read(image: bytes) -> _PartitionedContent:
    from elftools.elf.elffile import ELFFile  # a compilation writes files, and reads none
    from elftools.elf.sections import NoteSection

    try:
        sections = {section.name: section for section in ELFFile(BytesIO(image)).iter_sections()}
        if sum(int(section["sh_size"]) for section in sections.values()) > len(image):
            raise IsaError("the sections have more bytes than the file")
        if NOTES not in sections:
            raise IsaError(f"section {NOTES} is missing")
        kinds = (NOTE_HASH, NOTE_TEXT, NOTE_TOOL, NOTE_SEGMENTS)
        notes = elf.read_notes(cast(NoteSection, sections[NOTES]), kinds)
        contents = {
            name: elf.content_of(image, section)
            for name, section in sections.items()
            if name.startswith((".npu.", ".host."))
        }
    except IsaError:
        raise
    except Exception as error:  # pyelftools raises whatever its parser trips over in a malformed file
        raise IsaError(f"not a readable ELF file: {error}") from error
    return _PartitionedContent(notes, contents)
