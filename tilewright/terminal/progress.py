"""A line that says what takes long: only on a terminal, after a moment, gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.isa.machine.machine import Machine

PATIENCE_SECONDS = 0.2
"""What is done sooner shows no line."""


@contextmanager
def progress(title: str) -> Iterator[None]:
    """Shows `title` with a moving bar on standard error while the body runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(title, total=None)
    timer = Timer(PATIENCE_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def counting(title: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[str], None]]]:
    """What is told how many are done of how many, and what is told a line about each, for standard error.

    A terminal shows how many, and how long the rest takes.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    task = bar.add_task(title, total=None)

    def done(finished: int, asked: int) -> None:
        bar.update(task, completed=finished, total=asked, refresh=True)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with bar:
        yield done, say


def warn_of_build(on: str, machine: Machine, has_waves: bool = False) -> None:
    """Say on standard error, before it begins, that the hardware must be built first; nothing if it is in the cache."""
    if on != "rtl":
        return
    from tilewright.rtl.simulation.build import is_built

    if not is_built(machine, has_waves):
        waves = " for waves" if has_waves else ""
        print(f"building the hardware of {machine.name}{waves}, once: 1 to 3 minutes", file=sys.stderr, flush=True)
