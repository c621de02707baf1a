"""Runs a data set through several ways to compute a network, its images divided among processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codesign.advise.trials import end_with_parent
from tilewright.errors import InputError

Arrays = Mapping[str, NDArray[Any]]

Way = Callable[[Arrays], NDArray[Any]]
"""What computes the answers of some images."""

SHARES_OF_A_CORE = 8
"""Each process gets its images in so many parts, so that they end together and progress shows."""


def answers(
    ways: Sequence[Way], inputs: Arrays, images: int, each: int, jobs: int | None, done: Callable[[int, int], None]
) -> list[NDArray[Any]]:
    """What each way answers to all images, in their order. `each` images are never parted.

    `jobs` processes share the work, as many as there are cores if that is None; `done` is told how many images are
    done of how many. Raises what a way raises, and InputError where a process was stopped.
    """
    workers = jobs or len(os.sched_getaffinity(0))
    step = max(1, images // (workers * SHARES_OF_A_CORE) // each) * each
    starts = range(0, images, step)
    parts = [{name: array[start : start + step] for name, array in inputs.items()} for start in starts]
    found: list[list[NDArray[Any]]] = [[] for _ in parts]
    finished = 0
    done(0, images)
    for number, of_ways in _each(ways, parts, min(workers, len(parts))):
        found[number] = of_ways
        finished += min(step, images - starts[number])
        done(finished, images)
    return [np.concatenate([of_ways[way] for of_ways in found]) for way in range(len(ways))]


def _each(ways: Sequence[Way], parts: Sequence[Arrays], workers: int) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    """The number of each part with its answers, as they come."""
    if workers == 1:
        for number, part in enumerate(parts):
            yield number, [way(part) for way in ways]
        return
    context = multiprocessing.get_context("fork")  # programs and models are there in each process, without a copy
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(ways,))
    try:
        futures = {pool.submit(_answer, part): number for number, part in enumerate(parts)}
        for future in as_completed(futures):
            yield futures[future], future.result()
        pool.shutdown()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise InputError("a process was stopped from outside, perhaps for lack of memory: use --jobs 1") from error
        raise


_WAYS: list[Way] = []
"""Of a worker, from its parent."""


def _begin(ways: Sequence[Way]) -> None:
    """In a worker, which leaves an interruption to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    _WAYS[:] = ways


def _answer(part: Arrays) -> list[NDArray[Any]]:
    return [way(part) for way in _WAYS]
