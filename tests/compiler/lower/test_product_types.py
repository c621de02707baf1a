"""Machines whose weights have another width than those of the file: products are sums of as many terms as it takes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.narrow_weights import with_narrow_weights
from tests.compiler.pipelines import lowered, simplified, simulated
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.products import terms_of
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import parse_integer_type

MODEL = conv_model(np.random.default_rng(7), 24, 20, 6, pads=[1, 1, 1, 1])


@pytest.mark.parametrize("weight", ["int4", "int16"])
def test_bits_are_those_of_a_machine_with_the_weights_of_the_file(weight: str) -> None:
    machines = load_machine("base16"), load_machine("base16", [f"memories.wgt.element={weight}"])
    (name,) = [tensor.name for tensor in lowered(MODEL).inputs]
    shape = lowered(MODEL).inputs[0].shape
    inputs = {name: np.random.default_rng(8).normal(size=shape).astype(np.float32)}
    usual, other = (simulated(compile_model(MODEL, machine, Options(effort=0)), inputs) for machine in machines)
    for output, values in usual.items():
        np.testing.assert_array_equal(values, other[output])


@pytest.mark.parametrize(("weight", "terms"), [("int4", 19), ("int6", 5), ("int7", 3), ("int8", 1), ("int16", 1)])
def test_a_weight_is_as_many_terms_as_hold_it(weight: str, terms: int) -> None:
    """-127 in terms of at least -8 are 16 of them, 127 in terms of at most 7 are 19."""
    nests = lower(simplified(MODEL), load_machine("base16", [f"memories.wgt.element={weight}"]))
    (nest,) = nests.nests
    assert [loop.trip for loop in nest.loops if loop.name == "t"] == [terms] * (terms > 1)
    stored = nests.constants[nest.reads["w"].tensor]
    limits = nests.constant_types[nest.reads["w"].tensor].interval
    assert limits.low <= stored.min() and stored.max() <= limits.high


@pytest.mark.parametrize(("weight", "size"), [("int8", 9 * 256), ("int4", 9 * 128), ("int2", 9 * 64 * 7)])
def test_narrow_weights_share_bytes(weight: str, size: int) -> None:
    """16 results, 16 channels, 9 taps: 9 tiles of 16 × 16 weights; 7 is a sum of seven int2."""
    model = with_narrow_weights(conv_model(np.random.default_rng(7), 16, 16, 6))
    machine = load_machine("base16", [f"memories.wgt.element={weight}"])
    loads = [each for each in compile_model(model, machine).instructions if each.mnemonic == "load_wgt"]
    assert sum(prod(each.trips.values()) for each in loads) * machine.memories["wgt"].word_bytes == size


@pytest.mark.parametrize(("element", "zero"), [("INT4", 0), ("INT4", -3), ("UINT4", 8), ("UINT4", 5)])
@pytest.mark.parametrize("weight", ["int4", "int8"])
def test_weights_of_four_bits_give_what_onnx_runtime_gives(element: str, zero: int, weight: str) -> None:
    model = with_narrow_weights(MODEL, element, zero)
    machine = load_machine("base16", [f"memories.wgt.element={weight}"])
    inputs = random_inputs(model, np.random.default_rng(3))
    results = simulated(compile_model(model, machine, Options(effort=0)), inputs)
    for name, expected in run_onnx(model, inputs).items():
        np.testing.assert_array_equal(results[name], expected)


def test_refuses_negative_weights_for_a_machine_that_has_none() -> None:
    with pytest.raises(CompileError) as refused:
        terms_of(np.array([3, -1]), parse_integer_type("uint8"))
    assert str(refused.value) == (
        "it has weights below 0, less their zero points, and those of the machine are uint8; expected a type with a "
        "sign in the memory of weights: int9 holds both"
    )
