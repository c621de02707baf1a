"""Work of several threads, each of which waits for a process; an interruption waits for none of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Result = TypeVar("Result")


def side_by_side(work: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
    """What `work` gives for each item, in their order: as many at once as there are cores.

    After an interruption, or an error of one of them, no other is begun, and nobody waits for those that were.
    """
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    is_done = False
    try:
        results = list(pool.map(work, items))
        is_done = True
        return results
    finally:
        pool.shutdown(wait=is_done, cancel_futures=True)
