"""Ctrl-C: one line and exit code 130 within a second, whatever the command is doing; never a traceback.

This module is imported before all else, so it imports little itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""

GRACE_SECONDS = 0.6
"""How long a command may take to end by itself: then it is ended, with all processes that it has started."""


def end_at_once_on_interrupt() -> None:
    """While modules are imported, and when all is done, nothing needs an end in order."""
    signal.signal(signal.SIGINT, _end_now)


SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def ends_soon() -> Iterator[None]:
    """In the body, Ctrl-C raises KeyboardInterrupt; what does not end then, is ended.

    What we write is whole or not there at any moment, so that an end at once costs nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before, hook = signal.signal(signal.SIGINT, _interrupt), sys.unraisablehook
    sys.unraisablehook = _without_interrupts
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # written even while a library holds the thread
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook
        signal.set_wakeup_fd(wakeup)
        os.close(writing)


def _watch(reading: int) -> None:
    """After an interrupt, wait for the end of the process, and end it if there is none."""
    with open(reading, "rb", buffering=0) as signals:
        while content := signals.read(64):
            if signal.SIGINT in content:
                time.sleep(GRACE_SECONDS)
                _end_all()


def _end_all() -> None:
    """End this process and all that it has started, without its temporary folders."""
    import psutil

    from tilewright.isa.folders.scratch import remove_all

    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    remove_all()
    _end_now()


_came, _is_said = threading.Event(), threading.Event()


def was_interrupted() -> bool:
    """Whether Ctrl-C came: what is raised after that follows from it, whatever libraries make of it."""
    return _came.is_set()


def is_to_be_said() -> bool:
    """Whether nobody has said yet that the command was interrupted; true once."""
    if _is_said.is_set():
        return False
    _is_said.set()
    return True


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _came.set()
    raise KeyboardInterrupt


def _without_interrupts(unraisable: UnraisableHookArgs) -> None:
    """An interrupt where Python can raise nothing, as in a callback, is lost there: the watching thread ends it all."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _end_now(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    with suppress(OSError):
        if is_to_be_said():
            shown = SHOW_CURSOR if os.isatty(2) else b""  # a bar of progress may have hidden it
            os.write(2, shown + b"interrupted\n")
    os._exit(INTERRUPTED)
