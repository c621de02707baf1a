"""Thousands of damaged `.npz` files: each is read or refused by an error of ours, in bounded memory and time."""

from __future__ import annotations

import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator

from tilewright.errors import InputError
from tilewright.files.arrays import FREE_BYTES, read_arrays

MOST_BYTES = 2 * FREE_BYTES + (1 << 24)
"""What a file of some kilobytes may take: its arrays, a copy in another byte order, and what is around them."""

MOST_SECONDS = 10

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 24, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def valid(rng: Generator) -> bytes:
    """A file that numpy writes."""
    buffer = BytesIO()
    arrays = {
        "x": rng.integers(-128, 128, (1, 3, 8, 8)).astype(np.int8),
        "y": rng.standard_normal((4, 5)).astype(np.float32),
        "z": np.array(["a", "bc"]),
    }
    save = np.savez if rng.integers(2) else np.savez_compressed
    save(buffer, **arrays)
    return buffer.getvalue()


# -- bytes -------------------------------------------------------------------------------------------------------------


def flipped(content: bytes, rng: Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def with_another_number(content: bytes, rng: Generator) -> bytes:
    """A number that stands somewhere, often in a header of the archive, is another one."""
    changed = bytearray(content)
    signs = [position for sign in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for position in places(content, sign)]
    near = (
        int(rng.choice(signs)) + int(rng.integers(48)) if rng.integers(4) and signs else int(rng.integers(len(content)))
    )
    width = int(rng.choice([2, 4]))
    number = int(rng.choice(INTERESTING)) & ((1 << 8 * width) - 1)
    position = min(near, len(content) - width)
    changed[position : position + width] = number.to_bytes(width, "little")
    return bytes(changed)


def places(content: bytes, sign: bytes) -> list[int]:
    return [position for position in range(len(content)) if content.startswith(sign, position)]


def cut(content: bytes, rng: Generator) -> bytes:
    first, last = sorted(rng.integers(0, len(content) + 1, 2))
    return content[:first] if rng.integers(2) else content[:first] + content[last:]


def doubled(content: bytes, rng: Generator) -> bytes:
    first, last = sorted(rng.integers(0, len(content) + 1, 2))
    return content[:last] + content[first:]


# -- structure ---------------------------------------------------------------------------------------------------------

DESCRIPTIONS = (
    "|i1", "<i4", ">f4", "<f8", "|b1", "|O", "<U2", "|S3", "|S0", "<U0", "|V4", "<M8[s]", "<c8", "<f16", "i", "",
    "<U268435456", "|S2147483647", [("a", "<i4")], [("a", "|O")], ("<i4", (2,)), None, 7, "∞",
)  # fmt: skip

SIZES = (0, 1, 2, 3, 16, 4096, 1 << 20, 1 << 27, 1 << 47, 1 << 62, 1 << 64, -1, True, 2.0, "4")


def with_wrong_members(content: bytes, rng: Generator) -> bytes:
    """Right checksums around headers that say anything."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for number in range(int(rng.integers(1, 4))):
            name = str(rng.choice(["x.npy", f"{number}.npy", "x", ".npy", "a/b.npy", "ü.npy"]))
            method = zipfile.ZIP_DEFLATED if rng.integers(2) else zipfile.ZIP_STORED
            file.writestr(zipfile.ZipInfo(f"{number}{name}"), member(rng), method)
    return buffer.getvalue()


def member(rng: Generator) -> bytes:
    description = DESCRIPTIONS[rng.integers(len(DESCRIPTIONS))]
    shape = tuple(SIZES[i] for i in rng.integers(len(SIZES), size=rng.integers(5)))
    text = str({"descr": description, "fortran_order": bool(rng.integers(2)), "shape": shape})
    if not rng.integers(4):
        text = str(rng.choice([text[:-3], "(" * 5000, "[" * 9999, "{}", "", text + "\0", "'\\N{x}'", "-" * 9000 + "1"]))
    header = text.encode() + b"\n"
    version = int(rng.choice([1, 1, 1, 2, 3, 0]))
    length = struct.pack("<H" if version < 2 else "<I", len(header) if rng.integers(8) else 0xFFFF)
    data = bytes(int(rng.choice([0, 1, 2, 16, 4096, 1 << 20])))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


DAMAGES: tuple[Callable[[bytes, Generator], bytes], ...] = (
    flipped, with_another_number, with_another_number, cut, doubled, with_wrong_members, with_wrong_members,
)  # fmt: skip


def fuzz(path: Path, seed: int) -> str:
    """What comes of one damaged file: "read", or the error's text."""
    rng = np.random.default_rng(seed)
    path.write_bytes(DAMAGES[rng.integers(len(DAMAGES))](valid(rng), rng))
    tracemalloc.reset_peak()
    start = time.monotonic()
    try:
        read_arrays(path)
        outcome = "read"
    except InputError as error:
        outcome = str(error)
        assert outcome.startswith(str(path)) and outcome.count("\n") == 0, f"seed {seed}: {outcome}"
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    assert time.monotonic() - start < MOST_SECONDS, f"seed {seed}"
    assert tracemalloc.get_traced_memory()[1] < MOST_BYTES, f"seed {seed}"
    return outcome


def fuzz_all(path: Path, seeds: range) -> None:
    tracemalloc.start()
    try:
        outcomes = [fuzz(path, seed) for seed in seeds]
    finally:
        tracemalloc.stop()
    count = outcomes.count("read")
    assert 0 < count < len(outcomes) / 2, f"{count} of {len(outcomes)} were read: the damage is too small or too large"


def test_a_damaged_file_is_read_or_refused(tmp_path: Path) -> None:
    fuzz_all(tmp_path / "x.npz", range(300))


@pytest.mark.slow
def test_many_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    fuzz_all(tmp_path / "x.npz", range(1000, 3500))
