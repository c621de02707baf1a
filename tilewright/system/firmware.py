"""A bundle compiled for the system's processor, by the clang of the Python package `ziglang`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tilewright.errors import InputError
from tilewright.isa.folders.scratch import scratch

SOURCES = Path(__file__).with_name("firmware")
"""What the processor needs besides the bundle: start, memory map, serial line."""

TARGET = ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m", "-fno-pic", "-ffreestanding")

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")

WORD_BYTES = 4

DRIVER = ("tilewright", "tilewright_registers")
"""The units of the driver."""

UNWINDING = ".eh_frame"

SCRIPT, ELF = "memory.ld", "firmware.elf"


@dataclass(frozen=True, slots=True)
class FirmwareSizes:
    """Bytes of the driver's object files, code with constants and memory, and of the whole firmware in memory.

    Without tables for debuggers and exceptions (`.eh_frame`), which the link leaves out.
    """

    driver_code: int
    driver_memory: int
    firmware: int


def compile_firmware(
    files: Mapping[str, bytes], addresses: Mapping[str, int], memory_bytes: int
) -> tuple[bytes, FirmwareSizes]:
    """The image of a memory with a bundle's program in it, from the memory's first byte on.

    `addresses` says where `npu`, `serial`, `lights` and `memory` are. Raises InputError when it does not compile, or
    does not fit into the memory.
    """
    facts = {f"BOARD_{name.upper()}": f"{address:#x}U" for name, address in addresses.items()}
    facts |= {"BOARD_MEMORY_BYTES": f"{memory_bytes}U"}
    defines = [f"-D{name}={value}" for name, value in facts.items()]
    own = {path.name: path.read_bytes() for path in sorted(SOURCES.iterdir())}
    with scratch() as folder:
        for name, content in {**files, **own}.items():
            (folder / name).write_bytes(content)
        script = re.sub(r"BOARD_\w+", lambda of: facts[of[0]].removesuffix("U"), (folder / SCRIPT).read_text())
        (folder / SCRIPT).write_text(script)
        units = sorted(name for name in {*files, *own} if name.endswith((".c", ".S")))
        for unit in units:
            flags = (*WARNINGS, "-include", "board.h") if unit.endswith(".c") else ()
            _clang(folder, "-Os", "-I.", *flags, *defines, "-c", unit, "-o", f"{Path(unit).stem}.o")
        objects = [f"{Path(unit).stem}.o" for unit in units]
        _clang(folder, "-static", f"-Wl,-T,{SCRIPT}", "-Wl,--gc-sections", "-o", ELF, *objects)
        image = _image(folder / ELF, addresses["memory"], memory_bytes)
        code, memory = (sum(each) for each in zip(*(_sizes(folder / f"{n}.o") for n in DRIVER), strict=True))
        return image, FirmwareSizes(code, memory, len(image))


def words_of(image: bytes) -> list[int]:
    """The image as words of the processor."""
    padded = image + bytes(-len(image) % WORD_BYTES)
    return [int.from_bytes(padded[n : n + WORD_BYTES], "little") for n in range(0, len(padded), WORD_BYTES)]


def _clang(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", *TARGET, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-20:])
        raise InputError(f"the firmware does not compile for the system's processor; the last lines:\n{last}")


def _image(elf: Path, start: int, memory_bytes: int) -> bytes:
    """What of a program's segments lies in the memory, from its first byte on."""
    image = bytearray()
    with open(elf, "rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            offset, content = segment["p_paddr"] - start, segment.data()
            if not content:
                continue
            image.extend(bytes(max(0, offset + len(content) - len(image))))
            image[offset : offset + len(content)] = content
    if len(image) > memory_bytes:
        raise InputError(f"the firmware takes {len(image):,} bytes, the system's memory has {memory_bytes:,}")
    return bytes(image)


def _sizes(compiled: Path) -> tuple[int, int]:
    """Bytes of code and constants, and of memory, of an object file."""
    from elftools.elf.constants import SH_FLAGS

    code = memory = 0
    with open(compiled, "rb") as file:
        for section in ELFFile(file).iter_sections():
            flags, size = section["sh_flags"], section.data_size
            if section.name == UNWINDING:
                continue
            if flags & SH_FLAGS.SHF_WRITE:
                memory += size
            elif flags & SH_FLAGS.SHF_ALLOC:
                code += size
    return code, memory
