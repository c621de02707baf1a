"""A kernel's fingerprint, from all that is compiled into it."""

from __future__ import annotations

import hashlib
from types import FunctionType
from typing import Any

OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
"""How numba compiles a kernel and its parts."""

PART = "is_part_of_kernel"
"""The attribute that marks the parts of kernels."""


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
                case FunctionType() as part if hasattr(part, PART):
                    if part not in seen:
                        seen.add(part)
                        waiting.append(part)
                case None | int() as value:
                    digest.update(repr((name, value)).encode())
                case other:
                    raise TypeError(f"{code.co_name} names {name}, {other!r}; expected a number or a part of a kernel")
    return digest.hexdigest()[:16]
