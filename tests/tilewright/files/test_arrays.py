"""Arrays in files come back, and a damaged file is an error that names it, before memory is taken for its arrays."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.files.arrays import ArrayForm, archive, read_arrays

NOT_ONE = "not a .npz file of arrays, or a damaged one; write it with numpy.savez"


def test_integers_of_few_bits_come_back_as_bytes(tmp_path: Path) -> None:
    """No `.npy` file has them: numpy would read bytes without a meaning."""
    arrays = {"a": np.array([-8, 7], ml_dtypes.int4), "b": np.array([0, 3], ml_dtypes.uint2), "c": np.array([0.5])}
    (tmp_path / "x.npz").write_bytes(archive(arrays))
    back = read_arrays(tmp_path / "x.npz")
    assert {name: (array.dtype.name, array.tolist()) for name, array in back.items()} == {
        "a": ("int8", [-8, 7]), "b": ("uint8", [0, 3]), "c": ("float64", [0.5]),
    }  # fmt: skip


ARRAYS: Mapping[str, NDArray[Any]] = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "columns first": np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
    "swapped": np.array([1, -2], ">i4"),
    "scalar": np.array(7, np.uint8),
    "empty": np.zeros((0, 3), np.int64),
    "yes or no": np.array([True, False]),
    "texts": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "large": np.zeros((3, 1 << 20), np.uint8),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_what_numpy_wrote(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "x.npz", **ARRAYS)
    back = read_arrays(tmp_path / "x.npz")
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert back[name].dtype == array.dtype.newbyteorder("=") and back[name].shape == array.shape
        assert np.array_equal(back[name], array)


def test_reads_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(archive({"x": np.arange(3)}),))
    writer.start()
    assert read_arrays(tmp_path / "pipe")["x"].tolist() == [0, 1, 2]
    writer.join()


# -- damaged ones ------------------------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text + data


def described(descr: object, shape: object, data: bytes = b"") -> bytes:
    return npy(str({"descr": descr, "fortran_order": False, "shape": shape}), data)


def archived(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


X = archived({"x.npy": described("|i1", (4,), b"abcd")})


def with_flag(content: bytes) -> bytes:
    """The archive with its first member marked as encrypted, in both of its headers."""
    changed = bytearray(content)
    for sign, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        changed[content.index(sign) + offset] |= 1
    return bytes(changed)


UNREADABLE = "array 'x' is damaged: it cannot be read"
EXPECTED = "expected booleans, integers, unsigned integers, floats, bytes, texts"
DEFLATED = archived({"x.npy": described("|i1", (4000,), bytes(range(250)) * 16)}, zipfile.ZIP_DEFLATED)


def one(descr: object, shape: object, data: bytes = b"") -> bytes:
    return archived({"x.npy": described(descr, shape, data)})


DAMAGED: Mapping[str, tuple[bytes, str]] = {
    "nothing": (b"", NOT_ONE),
    "text": (b"not an archive", NOT_ONE),
    "one array": (described("|i1", (1,), b"a"), "holds one unnamed array; expected a .npz file with arrays by name"),
    "half": (X[: len(X) // 2], NOT_ONE),
    "no directory": (X[: X.index(b"PK\1\2")], NOT_ONE),
    "a directory of 2 GiB": (X[:-10] + struct.pack("<I", 1 << 31) + X[-6:], NOT_ONE),
    "no .npy": (archived({"x": b""}), "member 'x' is no array: its name does not end in .npy"),
    "encrypted": (with_flag(X), "array 'x' is encrypted; write it with numpy.savez"),
    "bzip2": (
        archived({"x.npy": b""}, zipfile.ZIP_BZIP2),
        "array 'x' is compressed with method 12; write it with numpy.savez",
    ),
    "no header": (archived({"x.npy": b"\x93NUM"}), UNREADABLE),
    "deep header": (archived({"x.npy": npy("(" * 9000)}), UNREADABLE),
    "version 9": (archived({"x.npy": npy("{}", version=9)}), UNREADABLE),
    "128 TiB": (
        one("|i1", (1 << 47,)),
        "array 'x' is damaged: int8 [140737488355328] takes 140737488355328 bytes, 0 are there",
    ),
    "no elements, yet too many": (one("|i1", (0, 1 << 70)), UNREADABLE),
    "negative": (one("|i1", (-4,), b"abcd"), "array 'x' has the shape [-4]; expected sizes of 0 or more"),
    "objects": (one("|O", (1,), b"\x80\x04N."), f"array 'x' has elements of type object; {EXPECTED}"),
    "records": (
        one([("a", "|i1")], (4,), b"abcd"),
        f"array 'x' has elements of type [('a', 'i1')]; {EXPECTED}",
    ),
    "short": (one("<i4", (4,), b"abcd"), "array 'x' is damaged: int32 [4] takes 16 bytes, 4 are there"),
    "flipped bit": (X.replace(b"abcd", b"abce"), UNREADABLE),
    "no character": (one("<U1", (1,), b"\xff" * 4), "array 'x' is damaged: it holds what is no character"),
    "bad deflate": (DEFLATED[:60] + bytes(100) + DEFLATED[160:], UNREADABLE),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_says_what_is_damaged(tmp_path: Path, damage: str) -> None:
    content, message = DAMAGED[damage]
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_arrays(path)
    assert str(raised.value) == (f"{path}: {message}")


def test_an_array_may_be_there_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        for _ in range(2):
            file.writestr("x.npy", described("|i1", (1,), b"a"))
    with pytest.raises(InputError, match="array 'x' is there twice$"):
        read_arrays(tmp_path / "x.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """128 MiB of zeros, of which the file has 128 KiB."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        member.write(described("|i1", (1 << 27,)))
        for _ in range(128):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="bytes unpack to 134217[0-9]*; at most 100 times as much is read"):
            read_arrays(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_what_does_not_fit_is_refused_before_data_is_read(tmp_path: Path) -> None:
    """The data is damaged, and nobody comes to see it."""

    def require(forms: Mapping[str, ArrayForm]) -> None:
        assert forms == {"x": ArrayForm(np.dtype(np.int8), (40000,))}
        raise InputError("other inputs are wanted")

    content = one("|i1", (40000,), bytes(40000))
    (tmp_path / "x.npz").write_bytes(content[:20000] + b"damage" + content[20006:])
    with pytest.raises(InputError, match="^other inputs are wanted$"):
        read_arrays(tmp_path / "x.npz", require)


def test_arrays_that_share_their_bytes_count_each(tmp_path: Path) -> None:
    """A directory may list the same place of the file many times."""
    entry, end = X.index(b"PK\1\2"), X.index(b"PK\5\6")
    entries = b"".join(X[entry:end].replace(b"x.npy", b"%c.npy" % letter) for letter in b"abcdefgh")
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 8, 8, len(entries), entry, 0)
    (tmp_path / "x.npz").write_bytes(X[:entry] + entries + tail)
    with pytest.raises(InputError, match="damaged"):
        read_arrays(tmp_path / "x.npz")
