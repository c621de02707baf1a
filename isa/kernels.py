"""Kernels: loops over integers that are compiled with numba. How their parts become one function, kept on disk.

What is done once for each instruction, cycle or word is a kernel, where numpy has no operation for it. It takes flat
arrays and makes none itself. Import a file of kernels where it is called: numba takes a while to load.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit
from numba.core import event
from numba.core.dispatcher import Dispatcher

OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

part_of_kernel = njit(**OPTIONS, forceinline=True)
"""Marks a part of a kernel. It is inlined into the compiled function, which can then keep its values in registers."""


def kept_on_disk(function: Callable[..., Any]) -> Any:
    """The function compiled, or loaded if an earlier process compiled the same code.

    numba finds a function again by the text of its own file and by its name, so the name gets the fingerprint of all
    that is compiled with it: other code is another file, and processes that run at once never mix theirs. Where no
    folder can be written to, the function is compiled anew in each process, with a warning.
    """
    assert isinstance(function, FunctionType)
    function.__qualname__ = f"{function.__name__}_{fingerprint(function)}"
    try:
        kernel = njit(**OPTIONS, cache=True)(function)
        _NOTICE.kernels.append(kernel)
        return kernel
    except RuntimeError as error:
        warnings.warn(
            f"parts of Tilewright are compiled in every run, which takes seconds each time, because their code cannot "
            f"be kept ({error}); set NUMBA_CACHE_DIR to a folder that can be written to",
            stacklevel=2,
        )
        return njit(**OPTIONS)(function)


class _Notice(event.Listener):
    """Says on a terminal that kernels are compiled, once, since that takes longer than most of what people wait for."""

    def __init__(self) -> None:
        self.kernels: list[Dispatcher] = []
        self._is_said = False

    def on_start(self, event: event.Event) -> None:
        if not self._is_said and event.data["dispatcher"] in self.kernels and sys.stderr.isatty():
            self._is_said = True
            print("compiling the inner loops of Tilewright, once: up to a minute", file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        """Nothing has to be said."""


_NOTICE = _Notice()
event.register("numba:compile", _NOTICE)


def fingerprint(function: FunctionType) -> str:
    """Sixteen hexadecimal digits that change with anything that is compiled into a function.

    That is its code and that of every part that it calls, in whatever file they stand, and the values of the constants
    that they name. Raises TypeError for a name that stands for something else.
    """
    digest = hashlib.sha256(repr(sorted(OPTIONS.items())).encode())
    waiting, seen = [function], {function}
    while waiting:
        code, names = waiting[0].__code__, waiting.pop(0).__globals__
        digest.update(repr((code.co_name, code.co_code, code.co_consts, code.co_names, code.co_varnames)).encode())
        for name in code.co_names:
            match names.get(name):
                case Dispatcher(py_func=part):
                    if part not in seen:
                        seen.add(part)
                        waiting.append(part)
                case None | int() as value:
                    digest.update(repr((name, value)).encode())
                case other:
                    raise TypeError(f"{code.co_name} names {name}, {other!r}; expected a number or a part of a kernel")
    return digest.hexdigest()[:16]
