"""Expressions of texts: those that passes would take too long or go too deep for are refused where they are read."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.compiler.models import conv_model
from tests.compiler.pipelines import lowered
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.text import parse_nests, print_nests


@cache
def text() -> str:
    return print_nests(lowered(conv_model(np.random.default_rng(0), 3, 4, 4, 3)))


def doubled(times: int) -> str:
    """Values each of which is twice the one before it."""
    values = ['v0 = "x"', *(f'v{index + 1} = "v{index} + v{index}"' for index in range(times))]
    return f'values = {{{", ".join(values)}}}, expr = "0 * v{times} + '


@pytest.mark.parametrize(
    ("begun", "message"),
    [
        ('expr = "' + "0 + " * 200, "it has 2"),
        (doubled(30), "levels and 32767 nodes; expected at most 150 and 16384"),
    ],
    ids=["deep", "many nodes"],
)
def test_what_is_too_large_is_refused(begun: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        parse_nests(text().replace('expr = "', begun, 1))
    assert str(refused.value).startswith("line ")
    assert "is not an expression with ranges for its reads" in str(refused.value)
    assert message in str(refused.value)


def test_a_read_is_not_called_as_the_reduction() -> None:
    old = "reads = {x = "
    assert old in text()
    changed = text().replace("reads = {x = ", "reads = {sum = ").replace("ranges = {x = [-128, 127], ", "ranges = {")
    with pytest.raises(CompileError, match="sum is the name of a reduction"):
        parse_nests(changed)


def test_what_is_not_larger_than_that_is_read() -> None:
    parse_nests(text().replace('expr = "', 'expr = "' + "0 + " * 100, 1))
