"""Fields of stored elements, against Python's integers; statements on arrays are in `tests/test_expressions.py`."""

import numpy as np
import pytest

from isa.memory import structured_element
from isa.numeric import parse_integer_type
from simulator.statement_arrays import extract

LAYOUTS = (
    {"first": "uint63", "across": "uint2", "last": "uint63"},
    {"low": "int33", "middle": "int62", "high": "uint33"},
    {"whole": "uint1", "rest": "int63", "third": "uint31", "fourth": "int33"},
)
"""Structures of 128 bits: fields that lie across the middle, and that end exactly there or at the end."""


@pytest.mark.parametrize("types", LAYOUTS, ids=str)
def test_extracts_every_field_of_a_wide_element(types: dict[str, str]) -> None:
    element = structured_element({name: parse_integer_type(of) for name, of in types.items()})
    raw = [int(f"{seed:x}0123456789abcdef{seed:x}fedcba9876543210"[:32], 16) for seed in range(16)]
    stored = np.array([[value % (1 << 64), value >> 64] for value in raw], np.uint64)
    assert element.bits == 128
    for field in element.fields:
        bits = field.type.bits
        values = [(value >> field.low_bit) % (1 << bits) for value in raw]
        if field.type.is_signed:
            values = [value - (value >> (bits - 1) << bits) for value in values]
        assert extract(stored, element, field.name, np.dtype(np.int64)).tolist() == values, field.name
