"""Expressions as array code: reductions across lanes, and where tables begin."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiler.evaluate import evaluate
from tilewright.compiler.nest.expressions import source
from tilewright.isa.language.expressions import Expr, const, make
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.language.operations import Op

BYTE = Interval(-128, 127)


@pytest.mark.parametrize(("op", "expected"), [(Op.LANES_SUM, [3, 15]), (Op.LANES_MAX, [4, 9])])
def test_every_lane_gets_what_all_lanes_make(op: Op, expected: list[int]) -> None:
    words = np.array([[4, -2, 1], [9, 6, 0]])
    across = Expr(op, BYTE, (source("a", BYTE),), value=3)
    assert evaluate(across, {("a", ""): words}, [2], []).tolist() == [[value] for value in expected]


def test_lanes_of_one_value_count_each() -> None:
    across = Expr(Op.LANES_SUM, BYTE, (const(5),), value=16)
    assert evaluate(across, {}, [1], []).tolist() == [[80]]


@pytest.mark.parametrize(("bits", "is_signed", "first"), [(8, False, 0), (8, True, -128)])
def test_a_table_begins_with_the_least_value_of_what_its_index_is_wrapped_to(
    bits: int, is_signed: bool, first: int
) -> None:
    """Also where only some of these values occur."""
    index = make(Op.WRAP, source("a", Interval(2, 5)), type=IntegerType(bits, is_signed))
    found = Expr(Op.LUT, Interval(0, 255), (index,), name="t")
    leaves = {("a", ""): np.array([[2], [5]]), ("t", ""): np.arange(256)[None, :, None]}
    assert evaluate(found, leaves, [2], []).ravel().tolist() == [2 - first, 5 - first]
