"""A flatbuffer's bytes, read with care: offsets in a damaged file point anywhere.

Whatever the generated readers then raise becomes one error of ours, and a budget bounds what they may be made to copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.compiler.errors import CompileError

READ_PER_BYTE = 16
"""The most bytes of lists that are read for each byte of a file. Valid files need about one."""

DAMAGE = (
    struct.error, IndexError, ValueError, TypeError, KeyError, OverflowError, AttributeError, MemoryError, BufferError
)  # fmt: skip
"""What reading at a wrong offset raises."""


class FileContent:
    """One file's bytes, and how much of them may still be read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = READ_PER_BYTE * len(data)

    @contextmanager
    def guarded(self, where: str) -> Iterator[None]:
        """Turns what reading at a wrong offset raises into an error of ours."""
        try:
            yield
        except DAMAGE as error:
            size = f"{len(self.data)} bytes"
            fact = f"a truncated or damaged TFLite file ({size}): {where} cannot be read"
            raise CompileError(fact=fact) from error

    def take(self, size: int) -> None:
        """Count bytes as read; raises ValueError when they are more than an honest file needs."""
        self._left -= size
        if self._left < 0:
            raise ValueError("lists overlap")

    def text(self, text: bytes) -> str:
        self.take(len(text))
        return text.decode()

    def numbers(self, values: Any) -> list[Any]:
        """A vector of numbers; the generated readers give 0 for none."""
        if not isinstance(values, np.ndarray):
            return []
        self.take(values.nbytes)
        return list(values.tolist())

    def indices(self, values: Any) -> tuple[int, ...]:
        return tuple(int(value) for value in self.numbers(values))

    def stretch(self, first: int, size: int) -> bytes:
        """Bytes behind the flatbuffer."""
        if first + size > len(self.data):
            raise IndexError(f"data at {first}")
        self.take(size)
        return self.data[first : first + size]
