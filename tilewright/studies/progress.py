"""How far a study is, and an estimate of what is left: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.codesign.explore.run import Report

SECONDS_BETWEEN_LINES = 30.0
"""How often progress is said where there is no terminal to draw a bar on."""


@contextmanager
def study_progress() -> Iterator[Report]:
    """Points that are done and an estimate of what is left: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines_of_progress()
        return
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), left)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task("points", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total)


def _lines_of_progress() -> Report:
    start = last = time.monotonic()

    def shown(done: int, total: int, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES and done < total:
            last = now
            left = (now - start) / done * (total - done)
            print(f"{done} of {total} points, about {_time(left)} left", file=sys.stderr, flush=True)

    return shown


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"
