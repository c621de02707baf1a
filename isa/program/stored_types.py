"""How the element types of ONNX and TFLite files are stored in a machine's DRAM: the one table that says so.

Importers, quantiser, host, partition and binaries ask this table. Names are numpy's: ONNX's enumeration and TFLite's
have the same in capitals. A new integer type is a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import FLOAT_TYPES, FloatType, IntegerType, parse_integer_type, parse_type, steps
from tilewright.isa.program.small_floats import E5M2, small_float_of


@dataclass(frozen=True, slots=True)
class StoredType:
    """An element type of a file: its values, the element that holds one in DRAM, and how.

    What is stored is a value less `offset`. Operators take activations and weights of a type that `is_computed`, if the
    machine's activations hold it; others are those of inputs, outputs and constants alone: the host converts them, and
    the machine moves them.
    """

    values: IntegerType
    element: IntegerType
    offset: int = 0
    is_computed: bool = False

    @property
    def name(self) -> str:
        return small_float_of(self.values).name if isinstance(self.values, FloatType) else str(self.values)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value; of floats, in steps of the type."""
        return self.values.values.low, self.values.values.high

    @property
    def stored(self) -> IntegerType:
        """The integers that lie in DRAM: of a type that is shifted, the signed ones of as many bits."""
        return IntegerType(self.values.bits, self.element.is_signed) if self.offset else self.values

    @property
    def stored_name(self) -> str:
        """The name of what lies in DRAM, as a type of files."""
        return self.name if isinstance(self.values, FloatType) else str(self.stored)

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's own type that holds the values; of floats of few bits, that of the package ml_dtypes."""
        return small_float_of(self.values).dtype if isinstance(self.values, FloatType) else self.values.dtype

    def held_in(self, element: IntegerType) -> StoredType | None:
        """The same values in other elements, shifted if these do not hold them otherwise; None if none hold them."""
        if isinstance(self.values, FloatType) or isinstance(element, FloatType):
            return replace(self, element=element) if _has_numbers_of(element, self.values) else None
        if element.interval.contains(self.stored.interval):
            return replace(self, element=element)
        offset = self.values.interval.low - element.interval.low
        return replace(self, element=element, offset=offset) if self.values.bits == element.bits else None


def _has_numbers_of(element: IntegerType, values: IntegerType) -> bool:
    """Whether elements have all numbers of floats, as they are or as integers in steps of their type."""
    if not isinstance(values, FloatType):
        return False
    if not isinstance(element, FloatType):
        return element.interval.contains(values.values)
    return small_float_of(element).holds(steps(np.arange(values.count), values))


def _row(values: str, element: str, offset: int = 0, is_computed: bool = False) -> StoredType:
    return StoredType(parse_integer_type(values), parse_integer_type(element), offset, is_computed)


STORED_TYPES: Mapping[str, StoredType] = {
    row.name: row
    for row in (
        _row("int8", "int8", is_computed=True),
        _row("uint8", "int8", offset=128, is_computed=True),
        *(_row(name, "int8") for name in ("int4", "uint4", "int2", "uint2")),
        *(_row(name, "int32", is_computed=True) for name in ("int16", "uint16")),
        _row("int32", "int32"),
        StoredType(FLOAT_TYPES["e4m3"], FLOAT_TYPES["e4m3"], is_computed=True),
        StoredType(FLOAT_TYPES["e2m1"], parse_integer_type("int8")),
        StoredType(E5M2, parse_integer_type("int40")),
    )
}
"""Every type that an input or output of a program may have, by name."""

DEFAULT_TYPE = STORED_TYPES["int8"]
"""What is quantised where no file says how: reals of the host, and tensors and constants that the compiler adds."""

COMPUTED = tuple(name for name, row in STORED_TYPES.items() if row.is_computed)
"""Element types of activations and weights; the default comes first."""

COMPUTED_INTEGERS = tuple(name for name in COMPUTED if not isinstance(STORED_TYPES[name].values, FloatType))
"""Those of them that are integers."""

COMPUTED_NAMES = f"{', '.join(COMPUTED_INTEGERS[:-1])} or {COMPUTED_INTEGERS[-1]}"
"""Those of integers, as messages name them."""

BYTES = tuple(name for name in COMPUTED if STORED_TYPES[name].element == DEFAULT_TYPE.element)
"""Those of them that every machine of the default type computes with."""

ENDS = tuple(name for name in STORED_TYPES if name not in COMPUTED)
"""Element types that only inputs, outputs and constants may have."""

WEIGHTS = tuple(
    name
    for name, row in STORED_TYPES.items()
    if row.values.is_signed and row.values.bits in (DEFAULT_TYPE.values.bits, DEFAULT_TYPE.values.bits // 2)
)
"""Element types that the weights of a network are quantised to, symmetric, with a scale for each channel."""

FLOATS = tuple(name for name, row in STORED_TYPES.items() if isinstance(row.values, FloatType))
"""Those that are floats of few bits: each number of theirs is an integer, in steps of the type."""

SHORT = tuple(name for name, row in STORED_TYPES.items() if name not in FLOATS and row.dtype.name != name)
"""Types that numpy has not, and no `.npy` file."""

INTEGERS = tuple(STORED_TYPES)
"""What a real may be quantised to: on a machine of uint8 activations, uint8."""

REALS = ("float32", "float16")
"""Types of arrays that the host quantises and dequantises, in float32."""

DTYPES = (*REALS, *STORED_TYPES)
"""Element types of the host's arrays."""


def stored_type(dtype: str, integers: str = DEFAULT_TYPE.name, held: str = "") -> StoredType:
    """How a host array's elements are stored; `integers` is what a real is quantised to.

    `held` is the type of the elements, where it is not that of the table. Raises IsaError.
    """
    name = integers if dtype in REALS else dtype
    if name not in STORED_TYPES:
        raise IsaError(f"no element of a program is {name}; expected one of {', '.join(DTYPES)}")
    if not held:
        return STORED_TYPES[name]
    found = STORED_TYPES[name].held_in(parse_type(held))
    if found is None:
        raise IsaError(f"elements of {held} do not hold {name}")
    return found
