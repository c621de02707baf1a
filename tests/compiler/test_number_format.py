"""Widths of scales, shifts and biases, read off machines whose files state them."""

import pytest

from compiler.number_format import NumberFormat, number_format
from isa.loader import load_machine
from isa.numeric import Rounding


@pytest.mark.parametrize("name", ["base16", "tiny8", "rect"])
def test_shipped_machines(name: str) -> None:
    assert number_format(load_machine(name)) == NumberFormat(16, 6, 32, Rounding.EVEN)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("memories.par.element.scale=uint12", NumberFormat(12, 6, 32, Rounding.EVEN)),
        ("memories.par.element.shift=uint5", NumberFormat(16, 5, 32, Rounding.EVEN)),
        ("memories.par.element.bias=int24", NumberFormat(16, 6, 24, Rounding.EVEN)),
        ("instructions.add.imm.b_scale=uint10", NumberFormat(10, 6, 32, Rounding.EVEN)),
        ("rounding=away", NumberFormat(16, 6, 32, Rounding.AWAY)),
    ],
)
def test_the_narrowest_counts(override: str, expected: NumberFormat) -> None:
    assert number_format(load_machine("base16", [override])) == expected
