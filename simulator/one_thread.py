"""One thread for numpy's matrix products.

A network's products are many and small. Several threads wait for each other longer than they compute: on two cores,
ResNet-18 takes five times as long with two threads as with one, and longer beside other work.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Within it, the libraries behind numpy's matrix products use one thread; afterwards as many as before."""
    return _libraries().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The loaded libraries; looking for them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
