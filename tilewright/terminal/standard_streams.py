"""Standard output and error of a command: whoever reads them may stop early, and no character stops the command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper, UnsupportedOperation
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextmanager
def lenient_streams() -> Iterator[None]:
    """In the body, what is printed for a reader who is gone is lost without an error, as `command | head -1` wants.

    At the end everything is out. Raises OSError that names the stream when it cannot be written for another reason,
    such as a full disk.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _lenient(sys.stdout, "standard output"), _lenient(sys.stderr, "standard error")
    try:
        yield
    finally:
        ours = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = before
        for stream in ours:
            if stream is not None:  # one that was closed when the command began
                stream.flush()


class _LenientFile(FileIO):
    """A file that takes all that is written when nobody reads it any more, and reports another fault once."""

    def __init__(self, descriptor: int, title: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._title = title
        self._is_lost = False

    def write(self, content: ReadableBuffer, /) -> int:
        if not self._is_lost:
            try:
                return super().write(content)
            except BrokenPipeError:
                self._is_lost = True
            except OSError as error:
                self._is_lost = True
                raise OSError(error.errno, error.strerror, self._title) from error
        return memoryview(content).nbytes


def _lenient(stream: TextIO, title: str) -> TextIO:
    """The stream with such a file below it; one that is no file (a test's, a notebook's) or is closed, as it is."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    try:
        file = _LenientFile(stream.fileno(), title)
    except UnsupportedOperation:
        return stream
    stream.flush()
    return TextIOWrapper(
        BufferedWriter(file),
        encoding=stream.encoding,
        errors="backslashreplace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
