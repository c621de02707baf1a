"""Constants that a file computes are evaluated once: the whole network is on the machine, and means the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest

from tests.compiler.pipelines import base16, distances, simulated
from tests.formats.constants import (
    CONSTANTS,
    INTEGERS,
    PRODUCTS,
    READERS,
    WEIGHTS,
    weight_forms,
    with_computed_weights,
    with_constant_operator,
    with_equal_branches,
)
from tests.rings import long_beyond
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.program.partitioned import Partitioned

ONE_OF_EACH = [
    *[("conv", form, "int8 by channel") for form in WEIGHTS],
    *[(made, "concat", "int8") for made in PRODUCTS],
]

SHUFFLED = [tuple(each) for each in np.random.default_rng(1).permutation(weight_forms()).tolist()]


def hold(model: onnx.ModelProto) -> None:
    """All of a network is on the machine, a step at most from ONNX Runtime."""
    program = compile_model(model, base16(), Options(effort=0))
    assert distances(model, lambda inputs: simulated(program, inputs), count=2).max() <= 1


@pytest.mark.parametrize(("made", "form", "stored"), [each for each in ONE_OF_EACH if each in weight_forms()])
def test_weights_that_a_file_computes_stay_on_the_machine(made: str, form: str, stored: str) -> None:
    hold(with_computed_weights(made, form, stored))


@pytest.mark.slow
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("names", long_beyond(40, SHUFFLED), ids=" ".join)
def test_every_product_takes_weights_that_a_file_computes(names: tuple[str, str, str], opset: int) -> None:
    hold(with_computed_weights(*names, opset=opset))


@pytest.mark.parametrize("kind", CONSTANTS)
def test_an_operator_on_constants_is_evaluated_once(kind: str) -> None:
    hold(with_constant_operator(kind, "Add"))


@pytest.mark.slow
@pytest.mark.parametrize("names", long_beyond(16, product(CONSTANTS, READERS)), ids=" ".join)
def test_every_reader_takes_an_operator_on_constants(names: tuple[str, str]) -> None:
    hold(with_constant_operator(*names))


@pytest.mark.parametrize(("kind", "reader"), [*product(INTEGERS, READERS), *product(CONSTANTS, ["Concat"])])
def test_float_constants_that_are_integers_times_a_scale_stay_on_the_machine(kind: str, reader: str) -> None:
    hold(with_constant_operator(kind, reader, is_quantised=False))


@pytest.mark.parametrize("reader", ["Add", "Mul"])
def test_other_float_constants_go_to_the_host_already_evaluated(reader: str) -> None:
    model = with_constant_operator("Sigmoid", reader, is_quantised=False)
    compiled = compile_partitioned(model, base16(), Options(effort=0))
    assert isinstance(compiled, Partitioned)
    assert [node.op_type for node in compiled.host_nodes] == [reader]
    assert "is a float constant" in compiled.host_nodes[0].reason


def test_equal_branches_are_one_however_their_constants_are_written() -> None:
    shared, copied = (
        compile_model(with_equal_branches(are_shared), base16(), Options(effort=0)) for are_shared in (True, False)
    )
    assert (copied.text, copied.weights) == (shared.text, shared.weights)
    assert len(copied.layers) == 3  # two convolutions and the sum
    hold(with_equal_branches(are_shared=False))
