"""What one input may take: time of the processor, and memory beyond what the process had before it."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from types import FrameType

SECONDS = 30
"""The longest that one input may take of the processor: twice what the slowest takes on a slow computer, so that what
is found grows without bound. Waiting for others on a busy computer does not count."""

AGAIN_SECONDS = 0.5
"""How soon it is ended again, if the first time was lost where Python drops exceptions, as in a callback."""

MEMORY_BYTES = 2**30
"""The most that one input may need beyond what the process had before it."""


class TooLong(Exception):
    """An input took more than SECONDS."""


class _Alarm(BaseException):
    """Ends an input that takes too long; no `except Exception` on the way stops it."""


@contextmanager
def limits(seconds: float | None = None) -> Iterator[None]:
    """Raises TooLong after so many seconds (SECONDS), and MemoryError where the body wants more than MEMORY_BYTES.

    What a thread or another language wants beyond that may end the process: it must be one for that purpose.
    """
    most = SECONDS if seconds is None else seconds
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + MEMORY_BYTES, before[1]))
    previous = signal.signal(signal.SIGPROF, _ring)
    started = process_time()
    signal.setitimer(signal.ITIMER_PROF, most, AGAIN_SECONDS)
    try:
        yield
    except _Alarm as alarm:
        raise TooLong(f"took more than {most} s") from alarm
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        resource.setrlimit(resource.RLIMIT_DATA, before)
    if process_time() - started > most:
        raise TooLong(f"took more than {most} s, most of it where no signal comes through")


def _ring(number: int, frame: FrameType | None) -> None:
    raise _Alarm


def _data_bytes() -> int:
    """What counts against RLIMIT_DATA now: the private, writable memory of this process (proc(5), VmData)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
