"""What a file is, where another kind is expected: a model in place of a program, a program in place of a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tilewright.errors import InputError

ELF = b"\x7fELF"
ARCHIVE = b"PK\x03\x04"
TFLITE_MAGIC = slice(4, 8)
HEAD_BYTES = 8


def is_program(path: Path) -> bool:
    """Whether a file begins as a compiled program does; raises OSError if it cannot be read."""
    return _head(path).startswith(ELF)


def model_kind(path: Path) -> str | None:
    """`an ONNX model` or `a TFLite model`; None for any other file, and for what cannot be read."""
    try:
        head = _head(path)
    except OSError:
        return None
    if head[TFLITE_MAGIC] == b"TFL3":
        return "a TFLite model"
    is_other = head.startswith((ELF, ARCHIVE)) or not head
    return "an ONNX model" if path.suffix == ".onnx" and not is_other else None


def require_models(paths: Iterable[str | Path]) -> None:
    """Raise InputError for a compiled program or an archive of arrays where a model is expected."""
    for path in map(Path, paths):
        try:
            head = _head(path)
        except OSError:
            continue  # who reads it says so
        if head.startswith(ELF):
            raise InputError(f"{path}: a compiled program; expected the .onnx or .tflite file that it was made from")
        if head.startswith(ARCHIVE):
            raise InputError(f"{path}: an archive, such as one of arrays; expected a model, an .onnx or .tflite file")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)
