"""Programs as ELF files: saved in one step, and loaded only after every byte has been checked."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from tilewright.isa.binary.description import read_description
from tilewright.isa.binary.elf_writer import (
    DIGEST_BYTES,
    FILE_DIGEST_OFFSET,
    FORMAT,
    HASHED,
    HEADER,
    IDENT,
    MACHINE_NUMBER,
    NOTE_DESCRIPTION,
    NOTE_HASH,
    NOTE_PROVENANCE,
    NOTE_TEXT,
    NOTE_TOOL,
    NOTES,
    OWNER,
    PACKED_FORMAT,
    RODATA,
    SECTION,
    SIZES,
    TEXT,
    check_sizes,
    file_digest,
    format_of,
    to_bytes,
)
from tilewright.isa.binary.format_4 import FORMAT_4, instruction_bytes
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.folders.whole_file import write_whole
from tilewright.isa.machine.encoding import WORD_BYTES, Instruction, decode, format_at
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets, OverBudget
from tilewright.isa.program.demands import require_within
from tilewright.isa.program.program import Program

if TYPE_CHECKING:  # a compilation writes files, and reads none
    from elftools.elf.sections import NoteSection
    from elftools.elf.sections import Section as ElfSection


def save(program: Program, path: str | Path) -> None:
    """Write a program's ELF file; the file appears complete or not at all."""
    save_image(to_bytes(program), path)


def load(path: str | Path, machine: Machine | None = None, budgets: Budgets = DEFAULT_BUDGETS) -> Program:
    """The program of an ELF file, with its machine rebuilt from the YAML inside.

    A file of format 4 gives its program, of which fewer bytes are kept now. Raises IsaError that says which check
    failed: not ELF, truncated, another format, a checksum (of which section), the machine's hash, a size, a
    description. If `machine` is given, a program built for another one is refused.
    Raises OverBudget for one that asks for more than its budgets.
    """
    return from_bytes(read_image(path), str(path), machine, budgets)


def save_image(image: bytes, path: str | Path) -> None:
    """Write a binary's bytes, all or none of them. Raises IsaError."""
    try:
        write_whole(path, image)
    except OSError as error:
        raise IsaError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_image(path: str | Path) -> bytes:
    """A binary's bytes, or just the first when they are not ELF's: a device may have no end. Raises IsaError."""
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
            return begin + file.read() if IDENT.startswith(begin) else begin
    except OSError as error:
        raise IsaError(f"{path}: cannot be read: {error.strerror or error}") from error


def from_bytes(image: bytes, name: str, machine: Machine | None = None, budgets: Budgets = DEFAULT_BUDGETS) -> Program:
    """The program of an ELF file's bytes; messages call the file `name`. Raises IsaError like `load`."""
    with naming(name):
        program = read_program(image, machine)
        require_within([program], budgets)
        return program


@contextmanager
def naming(name: str) -> Iterator[None]:
    """An IsaError of the body is told with the file's name before it."""
    try:
        yield
    except OverBudget as error:
        raise error.inside(name) from error
    except IsaError as error:
        raise IsaError(f"{name}: {error}") from error


def read_program(image: bytes, machine: Machine | None = None) -> Program:
    """The program of an ELF file's bytes, whatever it asks for. Raises IsaError like `load`."""
    _check_frame(image)
    _check_checksums(image)
    content = _read_content(image)
    is_before = is_of_format_4(image)
    program = _build(content, machine_of(content.notes, machine), is_before)
    file_format, wanted = HEADER.unpack_from(image)[7], format_of(program.machine)
    if file_format < wanted == PACKED_FORMAT:
        fact = f"format {file_format} has a byte for each element, and some of {program.machine.name} share bytes now"
        raise IsaError(f"{fact}; compile the program again")
    if not is_before and to_bytes(program, content.tool) != image:
        raise IsaError("headers or symbols do not agree with the content; compile the program again")
    return program


# -- is it ours, is it whole -------------------------------------------------------------------------------------------


def _check_frame(image: bytes) -> None:
    """The file is ELF, ours, of this format, and as long as its header says."""
    if not image.startswith(IDENT[:4]):
        if image and IDENT.startswith(image):
            raise IsaError(f"truncated: an ELF header has {HEADER.size} bytes, {len(image)} came")
        raise IsaError("not an ELF file: it does not begin with \\x7fELF")
    if len(image) < HEADER.size:
        raise IsaError(f"truncated: an ELF header has {HEADER.size} bytes, {len(image)} came")
    ident, _, machine, _, _, _, table, file_format, _, _, _, entry_bytes, sections, _ = HEADER.unpack_from(image)
    if ident != IDENT:
        raise IsaError(f"not a Tilewright program: its first bytes are {ident.hex()}, expected {IDENT.hex()}")
    if machine != MACHINE_NUMBER:
        raise IsaError(f"not a Tilewright program: an ELF file for machine {machine:#x}, expected {MACHINE_NUMBER:#x}")
    if file_format not in (FORMAT_4, FORMAT, PACKED_FORMAT):
        known = f"{FORMAT_4}, {FORMAT} and {PACKED_FORMAT}"
        raise IsaError(f"format {file_format}, this version reads {known}; compile the program again")
    expected = table + entry_bytes * sections
    if len(image) < expected:
        raise IsaError(f"truncated: {expected} bytes expected, {len(image)} came")
    if len(image) != expected or len(image) < FILE_DIGEST_OFFSET + DIGEST_BYTES * (1 + len(HASHED)):
        raise IsaError(f"damaged: {expected} bytes expected by its header, {len(image)} came")


def is_of_format_4(image: bytes) -> bool:
    """Whether a program's file says so: the same program is written with other bytes now."""
    return len(image) >= HEADER.size and HEADER.unpack_from(image)[7] == FORMAT_4


def _check_checksums(image: bytes) -> None:
    stored = image[FILE_DIGEST_OFFSET : FILE_DIGEST_OFFSET + DIGEST_BYTES]
    if stored == file_digest(image, FILE_DIGEST_OFFSET):
        return
    try:
        damaged = _damaged_sections(image)
    except (struct.error, ValueError):
        damaged = []
    what = f"section {', '.join(damaged)}" if damaged else "the headers"
    raise IsaError(f"damaged: wrong checksum of {what}; copy or compile the program again")


def _damaged_sections(image: bytes) -> list[str]:
    """Names of the sections that do not match their checksums; raises struct.error or ValueError on wild headers."""
    header = HEADER.unpack_from(image)
    table, count, names_at = header[6], header[12], header[13]
    headers = [SECTION.unpack_from(image, table + number * SECTION.size) for number in range(count)]
    names = section_content(image, headers[names_at]) if names_at < count else b""
    found = {names[h[0] : names.index(b"\0", h[0])].decode(errors="replace"): h for h in headers if h[0] < len(names)}
    damaged = []
    for number, name in enumerate(HASHED, start=1):
        start = FILE_DIGEST_OFFSET + number * DIGEST_BYTES
        content = section_content(image, found[name]) if name in found else b""
        if hashlib.sha256(content).digest() != image[start : start + DIGEST_BYTES]:
            damaged.append(name)
    return damaged


def section_content(image: bytes, section_header: tuple[int, ...]) -> bytes:
    """The bytes of a section, by its entry in the section header table."""
    return image[section_header[4] : section_header[4] + section_header[5]]


# -- what it holds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Content:
    text: bytes
    weights: bytes
    sizes: Mapping[str, int]  # by region
    notes: Mapping[int, bytes]  # by type

    @property
    def tool(self) -> str:
        return decoded(self.notes[NOTE_TOOL], "tool version")


def _read_content(image: bytes) -> _Content:
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(image))
        sections = {section.name: section for section in elf.iter_sections()}
        missing = [name for name in (TEXT, RODATA, NOTES, *SIZES.values()) if name not in sections]
        if missing:
            raise IsaError(f"section {missing[0]} is missing")
        sizes = {region: int(sections[name]["sh_size"]) for region, name in SIZES.items()}
        kinds = (NOTE_HASH, NOTE_TEXT, NOTE_TOOL, NOTE_DESCRIPTION, NOTE_PROVENANCE)
        notes = read_notes(cast("NoteSection", sections[NOTES]), kinds)
        text, weights = (content_of(image, sections[name]) for name in (TEXT, RODATA))
        return _Content(text, weights, sizes, notes)
    except IsaError:
        raise
    except Exception as error:  # pyelftools raises whatever its parser trips over in a malformed file
        raise IsaError(f"not a readable ELF file: {error}") from error


def content_of(image: bytes, section: ElfSection) -> bytes:
    """The bytes that a file has of a section, and no others: pyelftools would make some up, or unpack them."""
    start, size = int(section["sh_offset"]), int(section["sh_size"])
    if start + size > len(image):
        raise IsaError(f"section {section.name} is not in the file")
    return image[start : start + size]


def read_notes(section: NoteSection, kinds: Sequence[int]) -> dict[int, bytes]:
    """Our notes by type; raises IsaError when one of these kinds is missing."""
    notes: dict[int, bytes] = {}
    for note in section.iter_notes():
        if note["n_name"] == OWNER.rstrip(b"\0").decode():
            notes[int(note["n_type"])] = bytes(note["n_descdata"])
    for kind in kinds:
        if kind not in notes:
            raise IsaError(f"section {NOTES}: the note of type {kind} is missing")
    return notes


def decoded(text: bytes, what: str) -> str:
    """UTF-8 text; raises IsaError for other bytes."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise IsaError(f"the {what} is not UTF-8 text: {error}") from error


def machine_of(notes: Mapping[int, bytes], given: Machine | None) -> Machine:
    """The given machine if the program was built for it, otherwise the one that the file describes."""
    expected = decoded(notes[NOTE_HASH], "machine's hash")
    text = decoded(notes[NOTE_TEXT], "machine's text")
    if hashlib.sha256(text.encode()).hexdigest() != expected:
        raise IsaError("the machine's text does not have the machine's hash; compile the program again")
    if given is not None:
        if given.hash != expected:
            raise IsaError(
                f"built for {_name_in(text)} (hash {expected[:12]}), given {given.name} (hash {given.hash[:12]}); "
                "compile it for the machine that will run it"
            )
        return given
    machine = load_machine_text(text, _name_in(text), may_extend=False)
    if machine.hash != expected:
        raise IsaError(f"the text of {machine.name} is not in its canonical form; compile the program again")
    return machine


def _name_in(text: str) -> str:
    """The machine's name as its canonical text has it, in the first line."""
    first = text.partition("\n")[0]
    return first.partition(":")[2].strip() or "machine"


def _build(content: _Content, machine: Machine, is_before: bool) -> Program:
    description = read_description(content.notes[NOTE_DESCRIPTION])
    instructions = tuple(_instructions(content.text, machine, instruction_bytes(machine) if is_before else None))
    program = Program(
        machine=machine,
        instructions=instructions,
        weights=content.weights,
        workspace_bytes=content.sizes["workspace"],
        inputs=description.inputs,
        outputs=description.outputs,
        layers=description.layers,
        provenance=_provenance(content.notes[NOTE_PROVENANCE], len(instructions)),
        input_bytes=content.sizes["inputs"],
        output_bytes=content.sizes["outputs"],
        metadata=description.metadata,
        images=description.images,
    )
    check_sizes(program)
    return program


def _instructions(text: bytes, machine: Machine, fixed_bytes: int | None) -> Iterator[Instruction]:
    """Those of a text, each as long as its format, or all of one length."""
    formats = machine.formats_by_opcode
    index = start = 0
    while start < len(text):
        try:
            size = fixed_bytes or format_at(text[start : start + WORD_BYTES], formats).bytes
            yield decode(text[start : start + size], formats)
        except IsaError as error:
            raise IsaError(f"instruction {index}: {error}") from error
        index, start = index + 1, start + size


def _provenance(content: bytes, instructions: int) -> tuple[int, ...]:
    if len(content) not in (0, 4 * instructions):
        raise IsaError(
            f"the provenance table has {len(content)} bytes; expected 4 for each of the {instructions} instructions, "
            "or none: compile the program again"
        )
    return tuple(np.frombuffer(content, "<u4").tolist())
