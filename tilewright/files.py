"""Files that appear complete or not at all, and arrays by name in `.npz` files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.isa.binary.whole_file import write_whole
from tilewright.isa.program.program import NARROW_DTYPES

PLAIN: Mapping[str, str] = {name: "uint8" if name.startswith("u") else "int8" for name in NARROW_DTYPES}
"""ONNX's types that no `.npy` file has → numpy's that hold their values."""


def write_file(path: str | Path, content: bytes | str) -> None:
    """Write a file in one step: a reader sees the old content or the new one. Raises OSError."""
    write_whole(path, content.encode() if isinstance(content, str) else content)


def write_json(path: str | Path, value: Any) -> None:
    write_file(path, json_text(value))


def json_text(value: Any) -> str:
    """The value as indented JSON with a final newline."""
    return json.dumps(value, indent=2, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name as an uncompressed `.npz`; integers of two and four bits as bytes, which numpy knows."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            member = BytesIO()
            known = array.astype(PLAIN.get(array.dtype.name, array.dtype))
            np.lib.format.write_array(member, np.ascontiguousarray(known), allow_pickle=False)
            # A fixed date, so that the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    write_file(path, buffer.getvalue())


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a `.npz` file. Raises InputError when it is not one, OSError when it cannot be read."""
    content = Path(path).read_bytes()
    try:
        loaded = np.load(BytesIO(content), allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise InputError(f"{path}: holds one unnamed array; expected a .npz file with arrays by name")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path}: not a .npz file of arrays, or a damaged one; write it with numpy.savez") from error
