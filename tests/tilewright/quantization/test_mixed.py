"""Types of weights, layer by layer: what the file has, what was measured, and what a budget allows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.tilewright.quantization.float_networks import cnn, mlp, run_all, samples
from tilewright.errors import InputError
from tilewright.quantization.mixed import NoiseBudget, Taken
from tilewright.quantization.quantize import QuantizedModel, quantize

NARROW = TensorProto.INT4


def bytes_of_weights(model: onnx.ModelProto) -> Taken:
    """Half a byte for each int4, one for each int8."""
    sizes = {TensorProto.INT4: 0.5, TensorProto.INT8: 1.0}
    return Taken(float(sum(np.prod(t.dims) * sizes.get(t.data_type, 0) for t in model.graph.initializer)), 0)


def budget(loses_db: float) -> NoiseBudget:
    return NoiseBudget(loses_db, bytes_of_weights, "bytes", "any")


def made(loses_db: float, model: onnx.ModelProto | None = None, block: int = 0) -> QuantizedModel:
    model = cnn() if model is None else model
    return quantize(model, samples(model, 8), weights="int4", block=block, mixed=budget(loses_db))


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Product → the type of the constant behind its weights."""
    constants = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    readers = {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    products = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    return {node.name: constants[readers[node.input[1]].input[0]] for node in products}


def noise_db(found: onnx.ModelProto, model: onnx.ModelProto) -> float:
    """Of the only output on the samples of the calibration, below its signal."""
    data = samples(model, 8)
    exact, came = run_all(model, data), run_all(found, data)
    return float(10 * np.log10(np.square(exact - came).sum() / np.square(exact).sum()))


@pytest.mark.parametrize("loses_db", [12.0, 14.0])
def test_the_worst_output_stays_within_the_budget_and_bytes_are_saved(loses_db: float) -> None:
    model = cnn()
    found, wide = made(loses_db), quantize(model, samples(model, 8))
    assert found.mixed is not None
    assert noise_db(found.model, model) <= noise_db(wide.model, model) + loses_db + 1e-6
    types = set(types_of(found.model).values())
    assert types == {TensorProto.INT4, TensorProto.INT8}
    assert found.mixed.mixed.taken == bytes_of_weights(found.model)
    assert found.mixed.narrow.taken.cost < found.mixed.mixed.taken.cost < found.mixed.wide.taken.cost


def test_the_file_has_the_types_that_are_told_and_is_the_same_again() -> None:
    found = made(12.0)
    assert found.mixed is not None
    told = {node: layer.weights for layer in found.mixed.layers for node in layer.nodes}
    there = {node: TensorProto.DataType.Name(kind).lower() for node, kind in types_of(found.model).items()}
    assert there == told
    assert made(12.0).content == found.content


def test_what_a_layer_alone_saves_and_loses_is_that_of_a_network_in_which_it_alone_is_narrow() -> None:
    model = cnn()
    found = made(0.0)
    assert found.mixed is not None and set(types_of(found.model).values()) == {TensorProto.INT8}
    for layer in found.mixed.layers:
        (node,) = [each for each in model.graph.node if each.name in layer.nodes]
        (weights,) = [t for t in model.graph.initializer if t.name == node.input[1]]
        zero_points = weights.dims[0] if node.op_type == "Conv" else weights.dims[1]
        assert layer.saves == (np.prod(weights.dims) + zero_points) / 2
        assert 0 < layer.loses_db < 30


def test_without_a_limit_all_are_narrow_as_without_a_choice() -> None:
    model = cnn()
    plain = quantize(model, samples(model, 8), weights="int4")
    assert types_of(made(100.0).model) == types_of(plain.model)
    assert run_all(made(100.0).model, samples(model, 2)) == pytest.approx(run_all(plain.model, samples(model, 2)))


def test_with_nothing_allowed_results_are_those_of_wide_weights() -> None:
    model = cnn()
    wide = quantize(model, samples(model, 8)).model
    np.testing.assert_array_equal(run_all(made(0.0).model, samples(model, 2)), run_all(wide, samples(model, 2)))


def test_blocks_are_chosen_like_narrow_types() -> None:
    found = made(8.0, mlp(), 16)
    blocks = {a.i for node in found.model.graph.node for a in node.attribute if a.name == "block_size"}
    assert found.mixed is not None and set(types_of(found.model).values()) == {TensorProto.INT4, TensorProto.INT8}
    assert blocks == {16}


def test_what_the_host_would_compute_saves_nothing() -> None:
    def cost(model: onnx.ModelProto) -> Taken:
        narrow = list(types_of(model).values()).count(NARROW)
        return Taken(1000.0 - 100 * narrow, narrow)

    model = cnn()
    found = quantize(model, samples(model, 8), weights="int4", mixed=NoiseBudget(100.0, cost, "cycles", "none"))
    assert found.mixed is not None
    assert [layer.saves for layer in found.mixed.layers] == [None] * len(found.mixed.layers)
    assert NARROW not in types_of(found.model).values()


def test_there_must_be_a_narrower_type() -> None:
    with pytest.raises(
        InputError, match="weights of int8 leave no types to choose from; expected a narrower one: int4"
    ):
        quantize(cnn(), samples(cnn(), 2), mixed=budget(3.0))
