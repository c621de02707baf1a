"""What lint says of sums that are narrower than layers need."""

from __future__ import annotations

import itertools

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_type
from tilewright.isa.pages.sum_notes import products_held, sum_notes

LONG = "layers with more run if their weights prove that their sums fit, or in pieces that a vector instruction adds up"


def test_sums_that_hold_what_layers_have_are_not_named() -> None:
    for name in ("base16", "tiny8", "w4-only", "base16-a16", "llm16-a16"):
        assert sum_notes(load_machine(name)) == ()


def test_narrow_sums_are_named_with_all_instructions_that_leave_them() -> None:
    machine = load_machine("base16-w4", ["memories.acc.element=int20"])
    assert sum_notes(machine) == (
        f"memories.acc: int20 holds the sum of any 31 products of int8 by int8, as of mma, mma_transposed; {LONG}",
        f"memories.acc: int20 holds the sum of any 511 products of int8 by int4, as of mma_w4; {LONG}",
    )


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int4"), ("uint8", "uint8"), ("e2m1", "e2m1")])
def test_the_count_is_that_of_the_worst_values(types: tuple[str, str]) -> None:
    """By trying all products: so many of the least and of the greatest one fit, and one more does not."""
    factors, held = [parse_type(each) for each in types], parse_type("int20")
    count = products_held(factors, held)
    products = [x * y for x, y in itertools.product(*(range(f.values.low, f.values.high + 1) for f in factors))]
    worst = min(products), max(products)
    assert all(held.interval.low <= count * each <= held.interval.high for each in worst)
    assert not all(held.interval.low <= (count + 1) * each <= held.interval.high for each in worst)
