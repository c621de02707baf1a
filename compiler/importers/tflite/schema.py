"""The schema's tables and enumerations, as the `tflite` package's generated modules know them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

LIST = "AsNumpy"
"""The ending of the names of generated functions that read lists of numbers."""

NEWER = {"TensorType": {19: "INT2", 20: "UINT4", 21: "FLOAT8_E4M3FN", 22: "FLOAT8_E5M2"}}
"""What LiteRT's schema has beyond the package's: enumeration → value → name (schema.fbs of LiteRT 2.3)."""


@cache
def enumerators(name: str) -> dict[int, str]:
    """Value → name, of one of the schema's enumerations."""
    import tflite

    known = {value: key for key, value in vars(getattr(tflite, name)).items() if isinstance(value, int)}
    return known | NEWER.get(name, {})


def enumerator(name: str, value: int) -> str:
    """The name of a value of one of the schema's enumerations; raises KeyError for none."""
    return enumerators(name)[value]


@cache
def fields_of(options: type) -> dict[str, Callable[[Any], Any]]:
    """The readers of a table's fields, by the schema's names: `stride_w`; those of lists end on `LIST`."""
    methods = {
        name: method
        for name, method in vars(options).items()
        if inspect.isfunction(method) and name != "Init" and not name.endswith(("Length", "IsNone"))
    }
    lists = {name.removesuffix(LIST) for name in methods if name.endswith(LIST)}
    found: dict[str, Callable[[Any], Any]] = {}
    for name, method in methods.items():
        if name in lists:
            continue  # the same, element by element
        suffix = LIST if name.endswith(LIST) else ""
        found[_snake_case(name.removesuffix(LIST)) + suffix] = method
    return found


def _snake_case(name: str) -> str:
    """`StrideW` → `stride_w`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def count_slots(options: type) -> int:
    """How many fields the schema gives a table."""

    class Counter:
        slots = 0

        def StartObject(self, slots: int) -> None:
            self.slots = slots

    counter = Counter()
    module = importlib.import_module(f"tflite.{options.__name__}")
    getattr(module, f"{options.__name__}Start")(counter)
    return counter.slots
