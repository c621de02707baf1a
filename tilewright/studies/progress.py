"""How far a study is, what it does, and what is left, about: a bar on a terminal, elsewhere a line now and then."""

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


MOST_CHARACTERS = 46
"""Of what is done, beside the bar on a terminal of 80 columns."""


@contextmanager
def study_progress() -> Iterator[Report]:
    """Says what is done from the first moment on; of a study that is interrupted, how many of its points are kept."""
    state = [0, 0]
    with _shown() as shown:

        def report(done: int, total: int, text: str) -> None:
            state[:] = done, total
            shown(done, total, text)

        try:
            yield report
        except KeyboardInterrupt:
            if state[1]:
                kept = f"{state[0]} of {state[1]} points are done, and all that is finished is kept"
                print(f"{kept}; the same command goes on", file=sys.stderr, flush=True)
            raise


@contextmanager
def _shown() -> Iterator[Report]:
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
        yield lambda done, total, text: bar.update(task, completed=done, total=total or None, description=_short(text))


def _lines_of_progress() -> Report:
    start = time.monotonic()
    last = -SECONDS_BETWEEN_LINES

    def shown(done: int, total: int, text: str) -> None:
        nonlocal last
        if not total:  # nothing is known of the points yet
            print(text, file=sys.stderr, flush=True)
            return
        now = time.monotonic() - start
        if now - last >= SECONDS_BETWEEN_LINES and done < total:
            last = now
            left = f", about {_time(now / done * (total - done))} left" if done and now >= SECONDS_BETWEEN_LINES else ""
            print(f"{done} of {total} points{left}: {text}", file=sys.stderr, flush=True)

    return shown


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"
