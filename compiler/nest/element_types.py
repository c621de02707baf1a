"""The types of what nests compute with: activations, weights of products, and the sums of those."""

from __future__ import annotations

from tilewright.isa.language.numeric import IntegerType

ACTIVATION = IntegerType(8, True)
WEIGHT = IntegerType(8, True)
ACCUMULATOR = IntegerType(32, True)
