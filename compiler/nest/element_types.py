"""The types of what nests of a machine of bytes compute with; `compiler.arithmetic` reads those of a machine."""

from __future__ import annotations

from tilewright.isa.language.numeric import IntegerType

ACTIVATION = IntegerType(8, True)
WEIGHT = IntegerType(8, True)
ACCUMULATOR = IntegerType(32, True)
