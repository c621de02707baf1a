"""Fields of stored elements, against Python's integers, and types; values are in `tests/test_expressions.py`."""

import random

import numpy as np
import pytest

from tilewright.isa.language.expressions import Expr, Scope, lookup, make
from tilewright.isa.language.numeric import Interval, Rounding, parse_integer_type
from tilewright.isa.language.operations import Op
from tilewright.isa.language.statement import parse_statement
from tilewright.isa.machine.memory import structured_element
from tilewright.simulator.statement_arrays import extract, leaves, tables, working_type

LAYOUTS = (
    {"first": "uint63", "across": "uint2", "last": "uint63"},
    {"low": "int33", "middle": "int62", "high": "uint33"},
    {"whole": "uint1", "rest": "int63", "third": "uint31", "fourth": "int33"},
    {"one": "uint50", "two": "int50", "three": "uint50", "four": "int50", "five": "uint56"},
)
"""Structures of 128 and 256 bits: fields that lie across parts of 64 bits, and that end exactly there or at the end."""


@pytest.mark.parametrize("types", LAYOUTS, ids=str)
def test_extracts_every_field_of_a_wide_element(types: dict[str, str]) -> None:
    element = structured_element({name: parse_integer_type(of) for name, of in types.items()})
    assert element.bits in (128, 256)
    rng = random.Random(str(types))
    raw = [rng.getrandbits(element.bits) for _ in range(16)]
    parts = range(0, element.bits, 64)
    stored = np.array([[value >> part & (1 << 64) - 1 for part in parts] for value in raw], np.uint64)
    for field in element.fields:
        bits = field.type.bits
        values = [(value >> field.low_bit) % (1 << bits) for value in raw]
        if field.type.is_signed:
            values = [value - (value >> (bits - 1) << bits) for value in values]
        assert extract(stored, element, field.name, np.dtype(np.int64)).tolist() == values, field.name


SCOPE = Scope(
    {name: {"": parse_integer_type(of)} for name, of in {"a": "int8", "b": "uint8"}.items()},
    immediates={},
    destination="y",
    destination_type=parse_integer_type("int63"),
    reduce_trips=1,
    dot_length=1,
    rounding=Rounding.EVEN,
)


@pytest.mark.parametrize(
    ("statement", "bits"),
    [
        ("y = a", 8),  # -128 to 127: the ends of eight bits
        ("y = -1 - a", 8),
        ("y = 1 - a", 16),  # to 129
        ("y = a - 1", 16),  # from -129
        ("y = max(b, a)", 16),  # to 255
        ("y = a * 256", 16),  # from -32,768, but 256 itself is already wider than eight bits
        ("y = a * 256 - 1", 32),  # from -32,769
        ("y = a * 256 + b * 257", 32),  # to 98,047
        ("y = a * 16777216", 32),  # from -2**31
        ("y = a * 16777216 - 1", 64),
        ("y = min(a * 256 - 1, 5)", 32),  # the steps count as well as the result
        ("y = a >> 1", 64),
    ],
)
def test_works_in_the_narrowest_type_that_holds_every_step(statement: str, bits: int) -> None:
    assert working_type(parse_statement(statement, SCOPE).expr) == np.dtype(f"int{bits}")


def test_leaves_and_tables_say_whether_a_reduction_takes_them_in() -> None:
    a, b = (Expr(Op.SOURCE, Interval(-128, 127), name=name) for name in "ab")
    summed = make(Op.SUM, lookup("t", parse_integer_type("int8"), a), scope=SCOPE)
    expr = make(Op.ADD, summed, lookup("u", parse_integer_type("int8"), b))
    assert leaves(expr) == {("a", "", True, 0), ("b", "", False, 0)}
    assert tables(expr) == {("t", True), ("u", False)}
