"""Keeps what libraries log from standard error: what matters of it, we say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent(name: str = "") -> Iterator[None]:
    """In the body, a logger passes on errors alone; the root logger gets no handler of a library's either."""
    logger, root, handler = logging.getLogger(name), logging.getLogger(), logging.NullHandler()
    level = logger.level
    root.addHandler(handler)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        root.removeHandler(handler)
