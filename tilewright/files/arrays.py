"""Arrays by name in `.npz` files. What a file says of itself is checked before any data of it is read.

A `.npz` file is a ZIP archive whose members are `.npy` files (numpy.lib.format, versions 1.0 and 2.0), stored or
deflated.
"""

from __future__ import annotations

import math
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.isa.program.stored_types import SHORT, STORED_TYPES

PLAIN: Mapping[str, str] = {name: STORED_TYPES[name].dtype.name for name in SHORT}
"""ONNX's types that no `.npy` file has → numpy's that hold their values."""

KINDS: Mapping[str, str] = {
    "b": "booleans", "i": "integers", "u": "unsigned integers", "f": "floats", "S": "bytes", "U": "texts",
}  # fmt: skip
"""The kinds of numpy's types that are read: no objects, since those are pickles and run code."""

MOST_PIPED_BYTES = 1 << 30
"""What is read of an archive that comes through a pipe, since its end must be known before its beginning is used."""

MOST_DIRECTORY_BYTES = 1 << 22
"""The largest directory of an archive: some ten thousand names."""

FREE_BYTES, MOST_RATIO = 1 << 26, 100
"""Compressed arrays unpack to FREE_BYTES, or MOST_RATIO times what they take in the file, whichever is more."""

CHUNK_BYTES = 1 << 20

NO_ARCHIVE = "not a .npz file of arrays, or a damaged one; write it with numpy.savez"


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """What an array is before its values are known."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    """What a member of the archive says of itself."""

    member: zipfile.ZipInfo
    form: ArrayForm
    is_fortran: bool
    bytes: int  # of the `.npy` header, before the data

    @property
    def data_bytes(self) -> int:
        return math.prod(self.form.shape) * self.form.dtype.itemsize


def archive(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays by name as an uncompressed `.npz`; integers of two and four bits as bytes, which numpy knows."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            member = BytesIO()
            known = array.astype(PLAIN.get(array.dtype.name, array.dtype))
            np.lib.format.write_array(member, np.ascontiguousarray(known), allow_pickle=False)
            # A fixed date, so that the same arrays give the same bytes.
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return buffer.getvalue()


def read_arrays(
    path: str | Path, require: Callable[[Mapping[str, ArrayForm]], None] = lambda forms: None
) -> dict[str, NDArray[Any]]:
    """The arrays of a `.npz` file.

    First the types and shapes of all arrays are read and must agree with the file's size; then `require` gets them and
    may raise; only then is data read, and memory taken for it. Raises InputError that names the file and the array,
    OSError when the file cannot be read.
    """

    def title(name: str) -> str:
        return f"{path}: array {name!r}"

    with _opened(Path(path)) as (file, size):
        with _damage_of(f"{path}: {NO_ARCHIVE}"):
            opened = zipfile.ZipFile(file)
        with opened:
            headers = {name: _header(opened, member, title(name)) for name, member in _members(opened, path)}
            _require_room(headers.values(), size, str(path))
            require({name: header.form for name, header in headers.items()})
            return {name: _data(opened, header, title(name)) for name, header in headers.items()}


# -- the archive -------------------------------------------------------------------------------------------------------


class _ShortReads:
    """A file that gives no more at once than a directory may have: zipfile reads that whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1, /) -> bytes:
        if size > MOST_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a directory of {size} bytes")
        return self._file.read(size)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, int]]:
    """The file, seekable, and its size. Raises InputError for one that cannot be a `.npz` file."""
    with open(path, "rb") as file:
        begin = file.read(8)
        _require_archive(begin, path)
        if stat.S_ISREG(path.stat().st_mode):
            yield _ShortReads(file), file.seek(0, 2)
            return
        content = begin + file.read(MOST_PIPED_BYTES)
        if len(content) > MOST_PIPED_BYTES:
            raise InputError(f"{path}: more than {MOST_PIPED_BYTES} bytes came through the pipe; give a file")
        yield _ShortReads(BytesIO(content)), len(content)


def _require_archive(begin: bytes, path: Path) -> None:
    if begin.startswith(np.lib.format.MAGIC_PREFIX):
        raise InputError(f"{path}: holds one unnamed array; expected a .npz file with arrays by name")
    if not begin.startswith((b"PK\3\4", b"PK\5\6")):
        raise InputError(f"{path}: {NO_ARCHIVE}")


def _members(opened: zipfile.ZipFile, path: str | Path) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """The members by the names of their arrays; each name once."""
    names = set()
    for member in opened.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise InputError(f"{path}: member {name!r} is no array: its name does not end in .npy")
        if name in names:
            raise InputError(f"{path}: array {name!r} is there twice")
        names.add(name)
        yield name, member


def _require_room(headers: Iterable[_Header], size: int, path: str) -> None:
    """Raise InputError when the members cannot all be in a file of this size, or unpack to too much."""
    headers = list(headers)
    packed = sum(header.member.compress_size for header in headers)
    unpacked = sum(header.member.file_size for header in headers)
    if packed > size:
        raise InputError(f"{path}: damaged: its arrays take {packed} bytes, the file has {size}")
    if unpacked > max(size, FREE_BYTES, MOST_RATIO * packed):
        raise InputError(
            f"{path}: {packed} bytes unpack to {unpacked}; at most {MOST_RATIO} times as much is read: "
            "write it uncompressed, with numpy.savez"
        )


# -- an array ----------------------------------------------------------------------------------------------------------


def _header(opened: zipfile.ZipFile, member: zipfile.ZipInfo, title: str) -> _Header:
    """The header of a member, which agrees with its size. Raises InputError."""
    if member.flag_bits & 1:
        raise InputError(f"{title} is encrypted; write it with numpy.savez")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{title} is compressed with method {member.compress_type}; write it with numpy.savez")
    with _damage_of(f"{title} is damaged: it cannot be read"), opened.open(member) as stream:
        shape, is_fortran, dtype = _read_header(stream)
        header = _Header(member, ArrayForm(dtype, tuple(map(int, shape))), is_fortran, stream.tell())
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise InputError(f"{title} has elements of type {dtype}; expected {', '.join(KINDS.values())}")
    if any(extent < 0 for extent in header.form.shape):
        raise InputError(f"{title} has the shape {list(header.form.shape)}; expected sizes of 0 or more")
    if header.bytes + header.data_bytes != member.file_size:
        raise InputError(
            f"{title} is damaged: {dtype} {list(header.form.shape)} takes {header.data_bytes} bytes, "
            f"{member.file_size - header.bytes} are there"
        )
    return header


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's parser and of numpy, about odd headers
        match np.lib.format.read_magic(stream):
            case (1, 0):
                return np.lib.format.read_array_header_1_0(stream)
            case (2, 0):
                return np.lib.format.read_array_header_2_0(stream)
            case version:
                raise ValueError(f"version {version}")


def _data(opened: zipfile.ZipFile, header: _Header, title: str) -> NDArray[Any]:
    """A member's array, in this machine's byte order. Raises InputError."""
    form = header.form
    with _damage_of(f"{title} is damaged: it cannot be read"), opened.open(header.member) as stream:
        stream.read(header.bytes)
        content = np.empty(header.data_bytes, np.uint8)
        for start in range(0, content.size, CHUNK_BYTES):
            part = content[start : start + CHUNK_BYTES]
            came = stream.read(part.size)
            if len(came) < part.size:
                raise EOFError
            part[:] = np.frombuffer(came, np.uint8)
        stream.read(1)  # the end, at which zipfile compares the checksum
        values = content != 0 if form.dtype.kind == "b" else content.view(form.dtype)
        native = values.astype(form.dtype.newbyteorder("="), copy=False)
        array = native.reshape(form.shape[::-1]).transpose() if header.is_fortran else native.reshape(form.shape)
    if form.dtype.kind == "U" and array.size and int(native.view(np.uint32).max()) > 0x10FFFF:
        raise InputError(f"{title} is damaged: it holds what is no character")
    return array


@contextmanager
def _damage_of(message: str) -> Iterator[None]:
    """Whatever zipfile, zlib and numpy raise when they trip over a damaged file becomes InputError."""
    try:
        yield
    except Exception as error:
        raise InputError(message) from error
