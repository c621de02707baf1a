"""Zero points of vectors: once for each channel of a product, with the bits that each pixel's own would give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.lower.test_matmul import product
from tests.compiler.pipelines import simulated
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.text import print_nests
from tilewright.compiler.pipeline import resume
from tilewright.compiler.select.column_sums import column_sums
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

LARGE = (2, 100, 300, 60)
"""Batch, summed channels, pixels and channels of the result."""


def nests_of(program: NestProgram, machine: Machine) -> list[str]:
    return [nest.name for nest in column_sums(program, machine).nests]


@pytest.mark.parametrize("zeros", [("int8", 5, 0), ("int8", -128, 0), ("int8", -128, 7), ("uint8", 0, 255)], ids=str)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["straight", "transposed"])
def test_sums_of_columns_are_apart_and_mean_the_same(zeros: tuple[str, int, int], is_transposed: bool) -> None:
    machine = load_machine("base16")
    graph, inputs = product(LARGE, zeros, is_transposed)
    nests = lower(graph, machine)
    apart = column_sums(nests, machine)
    assert [nest.name for nest in apart.nests][-2:] == ["product.columns", "product"]
    expected = run_nests(nests, inputs)["y"]
    assert np.array_equal(run_nests(apart, inputs)["y"], expected)
    assert np.array_equal(simulated(resume("lower", print_nests(nests), machine), inputs)["y"], expected)


def test_without_an_addition_they_are_products_of_each_pixel() -> None:
    machine = load_machine("base16", ["instructions.add_sums=null"])
    graph, inputs = product(LARGE, ("int8", 5, 3), False)
    nests = lower(graph, machine)
    assert nests_of(nests, machine) == ["product"]
    program = resume("lower", print_nests(nests), machine)
    assert np.array_equal(simulated(program, inputs)["y"], run_nests(nests, inputs)["y"])


@pytest.mark.parametrize(
    ("sizes", "zeros"),
    [
        (LARGE, ("int8", 0, 7)),  # nothing that is the same for all pixels
        ((1, 16, 300, 60), ("int8", 5, 0)),  # the addition takes as long as the product
        ((2, 100, 20, 60), ("int8", 5, 0)),  # few pixels
    ],
)
def test_they_stay_where_they_would_not_pay(sizes: tuple[int, int, int, int], zeros: tuple[str, int, int]) -> None:
    machine = load_machine("base16")
    assert nests_of(lower(product(sizes, zeros, False)[0], machine), machine) == ["product"]
