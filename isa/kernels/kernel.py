"""A kernel as its caller sees it: a function of arrays, records and integers, whose code is loaded or compiled."""

from __future__ import annotations

import ctypes
import struct
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from tilewright.isa.kernels import store
from tilewright.isa.kernels.fingerprint import PART, fingerprint

NONE = -2
"""What numba's functions return in place of 0 when their result is None."""

_said: set[str] = set()
"""What was said in this process, once."""


def part_of_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a part of a kernel, which is inlined into the compiled function, so that values can stay in registers."""
    setattr(function, PART, True)
    return function


def kept_on_disk(function: Callable[..., Any]) -> Kernel:
    """The function as a kernel: its first call loads its machine code, or compiles it if no process has done so yet."""
    assert isinstance(function, FunctionType)
    return Kernel(function)


class Kernel:
    """A compiled function, for each form of its arguments: arrays, records, named tuples of arrays, integers, booleans.

    The code is found by what it depends on: the function and its parts, the arguments' types, the processor and numba's
    version. Other code is another file, and processes that run at once never mix theirs. Where no folder can be written
    to, the function is compiled anew in each process, with a warning.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.compiled = 0
        """For how many forms of arguments this process compiled it, where it found nothing on disk."""
        self._entries: dict[tuple[object, ...], _CompiledEntry] = {}

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns: None, an integer, a boolean, or a tuple of those."""
        form: list[object] = []
        values: list[int] = []
        for argument in arguments:
            _flatten(argument, form, values)
        return self._entry(tuple(form), arguments).call((ctypes.c_int64 * len(values))(*values))

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self.function)

    def _entry(self, form: tuple[object, ...], arguments: tuple[Any, ...]) -> _CompiledEntry:
        """The code for a form of arguments."""
        if form not in self._entries:
            self._entries[form] = self._loaded(form, arguments)
        return self._entries[form]

    def _loaded(self, form: tuple[object, ...], arguments: tuple[Any, ...]) -> _CompiledEntry:
        from tilewright.isa.kernels import machine_code  # loads LLVM

        source = Path(self.function.__code__.co_filename)
        name = f"{source.stem}.{self.function.__name__}"
        key = store.key(name, [self._fingerprint, *map(_text, form), machine_code.processor()])
        kept = store.find(source, key)
        if kept is None:
            kept = self._compile(source, key, arguments)
        return _CompiledEntry(machine_code.function(kept.symbol, kept.code), kept.result)

    def _compile(self, source: Path, key: str, arguments: tuple[Any, ...]) -> store.StoredKernel:
        if sys.stderr.isatty():
            _say_once("compiling the inner loops of Tilewright, once: up to a minute")
        from tilewright.isa.kernels.compilation import compile_kernel  # loads numba

        self.compiled += 1
        kept = compile_kernel(self.function, key, arguments)
        try:
            store.keep(source, key, kept)
        except OSError as error:
            warnings.warn(
                f"parts of Tilewright are compiled in every run, which takes seconds each time, because their code "
                f"cannot be kept ({error}); set TILEWRIGHT_CACHE to a folder that can be written to",
                stacklevel=2,
            )
        return kept


@dataclass(frozen=True)
class _CompiledEntry:
    """Compiled code for one form of arguments; `result` is its result's form in letters of `struct`."""

    function: Callable[[int, int], int]
    result: str

    def call(self, values: ctypes.Array[ctypes.c_int64]) -> Any:
        room = ctypes.create_string_buffer(max(struct.calcsize(self.result), 1))
        status = self.function(ctypes.addressof(room), ctypes.addressof(values))
        assert status in (0, NONE), status
        if not self.result:
            return None
        found = struct.unpack_from(self.result, room)
        return found[0] if len(found) == 1 else found


def _flatten(argument: Any, form: list[object], values: list[int]) -> None:
    """Add what the compiled code depends on of an argument, and the numbers that it takes for it.

    An array is: two owners, which kernels never ask for, its size, its item's bytes, where it begins, its shape, its
    strides. That is numba's order, which `compile_kernel` holds the compiled function to.
    """
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        form += (argument.dtype, argument.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable)
        values += (0, 0, argument.size, argument.itemsize, argument.ctypes.data, *argument.shape, *argument.strides)
    elif isinstance(argument, tuple):
        form.append(type(argument))
        for each in argument:
            _flatten(each, form, values)
    elif isinstance(argument, np.void):
        form.append(argument.dtype)
        values.append(np.frombuffer(argument, np.uint8).ctypes.data)  # its interface takes as long as a small kernel
    elif isinstance(argument, (bool, np.bool_)):
        form.append(bool)
        values.append(int(argument))
    elif isinstance(argument, (int, np.int64)):
        form.append(int)
        values.append(int(argument))
    else:
        raise TypeError(f"a kernel got {type(argument).__name__}; expected an array, record, integer or named tuple")


def _text(part: object) -> str:
    """A part of a form as text that is the same in every process."""
    if isinstance(part, type):
        return f"{part.__qualname__}{getattr(part, '_fields', '')}"
    return repr(part)


def _say_once(line: str) -> None:
    """Say on a terminal what takes longer than most of what people wait for."""
    if line not in _said:
        _said.add(line)
        print(line, file=sys.stderr, flush=True)
