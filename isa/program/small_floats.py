"""Floating-point types of eight and four bits in ONNX files: each code is an integer, in steps of the least value.

E4M3 and E2M1 as the OCP MX specification v1.0 defines them (sections 5.3.1 and 5.3.3), E5M2 as section 5.3.1 does.
Example: the least value of E2M1 is 0.5, so its codes 0, 0.5, 1, 1.5, 2, 3, 4 and 6 are 0, 1, 2, 3, 4, 6, 8 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.numeric import E5M2, FLOAT_TYPES, FloatType, nearest_code, steps


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A type of few bits: what numpy and ONNX call it, and its codes, which the language of statements describes."""

    name: str
    onnx_name: str
    type: FloatType

    @property
    def short(self) -> str:
        """What options and elements of machines call it."""
        return self.type.name

    @property
    def bits(self) -> int:
        return self.type.bits

    @property
    def mantissa_bits(self) -> int:
        return self.type.mantissa_bits

    @property
    def least(self) -> float:
        """The least positive value: what a step is."""
        return 2.0**self.type.step_exponent

    @property
    def largest(self) -> float:
        return self.greatest_steps * self.least

    @property
    def greatest_steps(self) -> int:
        """The greatest value, in steps."""
        return self.type.values.high

    @property
    def dtype(self) -> np.dtype[Any]:
        """The package ml_dtypes's type of arrays of its codes."""
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.name))

    def steps(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The integers that codes are, in an array of `dtype`."""
        return steps(values.view(np.uint8), self.type)

    def values(self, steps: NDArray[Any]) -> NDArray[Any]:
        """The codes of integers that it holds, in an array of `dtype`; inverse of `steps`."""
        return self.codes(steps).view(self.dtype)

    def codes(self, steps: NDArray[Any]) -> NDArray[np.uint8]:
        """The same as they are stored, a byte each."""
        return nearest_code(steps, np.array(0), self.type).astype(np.uint8)

    def ranks(self, steps: NDArray[Any]) -> NDArray[np.int64]:
        """Of integers that it holds, the place among all that it holds: 0 of zero, 1 of the next above it."""
        return np.asarray(np.sign(steps) * self.codes(np.abs(steps)), np.int64)

    def steps_of_codes(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """The integers that stored codes are."""
        return steps(codes.astype(np.uint8), self.type)

    def nearest(self, real: NDArray[Any]) -> NDArray[np.int64]:
        """The steps of the values nearest to real numbers, ties to the even code; saturated at both ends.

        As QuantizeLinear with `saturate` does; infinities are the greatest values. Real numbers in units of the type.
        """
        _, exponents = np.frexp(np.clip(real, -self.largest, self.largest))
        places = np.maximum(exponents - 1 - self.mantissa_bits, self.type.step_exponent)
        rounded = np.ldexp(np.rint(np.ldexp(np.clip(real, -self.largest, self.largest), -places)), places)
        return np.asarray(np.ldexp(rounded, -self.type.step_exponent), np.float64).astype(np.int64)

    def holds(self, steps: NDArray[np.int64]) -> bool:
        """Whether all integers are finite values, in steps."""
        limit = self.greatest_steps
        if steps.size and not (-limit <= steps.min() and steps.max() <= limit):
            return False
        return bool(np.array_equal(self.nearest(steps * self.least), steps))


SMALL_FLOATS: Mapping[str, SmallFloat] = {
    row.name: row
    for row in (
        SmallFloat("float8_e4m3fn", "float8e4m3fn", FLOAT_TYPES["e4m3"]),
        SmallFloat("float8_e5m2", "float8e5m2", E5M2),
        SmallFloat("float4_e2m1fn", "float4e2m1", FLOAT_TYPES["e2m1"]),
    )
}
"""By numpy's name, which ml_dtypes gives."""

BY_SHORT_NAME: Mapping[str, SmallFloat] = {row.short: row for row in SMALL_FLOATS.values()}
"""By the names of options and of elements of machines."""

BLOCK = 32
"""How many elements share a scale in the OCP MX formats (section 5.1)."""


def shared_exponents(largest: NDArray[Any], element: SmallFloat) -> NDArray[np.int64]:
    """The power of two of the scale that elements share, from the largest magnitude of each block.

    OCP MX specification v1.0, section 6.3: the largest power of two that is not above the block's largest magnitude,
    over the largest power of two that the element type holds; clamped to what E8M0 holds, -127 to 127. Of a block of
    zeros, of which the specification says nothing, it is 0: a scale of 1.
    """
    _, exponents = np.frexp(np.asarray(largest, np.float64))
    _, of_element = np.frexp(float(element.largest))
    found = np.where(np.asarray(largest) > 0, exponents - of_element, 0)
    return np.clip(found, E8M0_LEAST, -E8M0_LEAST).astype(np.int64)


def small_float_of(element: FloatType) -> SmallFloat:
    """The type of files that a machine's element is."""
    return BY_SHORT_NAME[element.name]


E8M0_LEAST = -127
"""The exponent of the least value of E8M0 (section 5.4.1); its greatest is the opposite."""
