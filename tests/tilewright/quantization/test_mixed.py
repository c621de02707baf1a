"""Types of weights and results, layer by layer: what the file has, what was measured, and what a budget allows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.tilewright.quantization.float_networks import CHANNELS, FloatBuilder, cnn, mlp, run_all, samples
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program
from tilewright.quantization.costs import budget_of
from tilewright.quantization.mixed import Cost, NoiseBudget, Taken
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
    told = {node: layer.type for layer in found.mixed.weights for node in layer.nodes}
    there = {node: TensorProto.DataType.Name(kind).lower() for node, kind in types_of(found.model).items()}
    assert there == told
    assert made(12.0).content == found.content


def test_what_a_layer_alone_saves_and_loses_is_that_of_a_network_in_which_it_alone_is_narrow() -> None:
    model = cnn()
    found = made(0.0)
    assert found.mixed is not None and set(types_of(found.model).values()) == {TensorProto.INT8}
    for layer in found.mixed.weights:
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
    assert [layer.saves for layer in found.mixed.weights] == [None] * len(found.mixed.weights)
    assert NARROW not in types_of(found.model).values()


def test_there_must_be_a_narrower_type() -> None:
    with pytest.raises(
        InputError,
        match="^weights of int8 and activations of int8 leave no types to choose from; expected narrower weights: "
        "int4; or wider activations: int16, uint16$",
    ):
        quantize(cnn(), samples(cnn(), 2), mixed=budget(3.0))


# -- activations -------------------------------------------------------------------------------------------------------


def result_types(model: onnx.ModelProto) -> dict[str, int]:
    """Scale → the type of what is quantised with it."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return {node.input[1]: constants[node.input[2]].data_type for node in quantizers}


def bytes_of_results(model: onnx.ModelProto) -> Taken:
    """A byte for each scale of int8 results, two for each of int16."""
    return Taken(float(sum({TensorProto.INT8: 1, TensorProto.INT16: 2}[t] for t in result_types(model).values())), 0)


def made_of_results(loses_db: float, weights: str = "int8", cost: Cost = bytes_of_results) -> QuantizedModel:
    model, allowed = cnn(), NoiseBudget(loses_db, cost, "bytes", "any")
    return quantize(model, samples(model, 8), weights=weights, activations="int16", mixed=allowed)


def test_results_get_two_types_within_the_budget_as_is_told() -> None:
    model = cnn()
    found, wide = made_of_results(2.0), quantize(model, samples(model, 8), activations="int16")
    assert found.mixed is not None and not found.mixed.weights
    assert noise_db(found.model, model) <= noise_db(wide.model, model) + 2.0 + 1e-6
    types = list(result_types(found.model).values())
    assert set(types) == {TensorProto.INT8, TensorProto.INT16}
    told = [part.type for part in found.mixed.results]
    assert sorted(told) == sorted(TensorProto.DataType.Name(each).lower() for each in types)
    assert found.mixed.mixed.taken == bytes_of_results(found.model)
    assert made_of_results(2.0).content == found.content


@pytest.mark.parametrize(("loses_db", "activations"), [(0.0, "int16"), (100.0, "int8")])
def test_at_either_end_results_are_those_of_one_type(loses_db: float, activations: str) -> None:
    model = cnn()
    plain = quantize(model, samples(model, 8), activations=activations).model
    data = samples(model, 2)
    np.testing.assert_array_equal(run_all(made_of_results(loses_db).model, data), run_all(plain, data))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_biases_are_in_steps_of_the_operand_and_the_weights(weights: str) -> None:
    """As QDQ files have them, in all networks that are tried."""
    tried: list[onnx.ModelProto] = []

    def cost(model: onnx.ModelProto) -> Taken:
        tried.append(model)
        return bytes_of_results(model)

    made_of_results(100.0, weights, cost)
    assert len({tuple(result_types(model).values()) for model in tried}) == 7  # none, each of five alone, all
    for model in tried:
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        readers = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
        scales = {node.output[0]: constants[node.input[1]] for node in readers}
        products = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
        assert len(products) == 3
        for node in products:
            operand, of_weights, bias = (scales[name] for name in node.input)
            np.testing.assert_allclose(bias, operand * of_weights, rtol=1e-6)


def test_one_result_in_eight_bits_is_enough_where_one_takes_a_node_from_the_host() -> None:
    """Of all that would, the one that adds least noise; no second one follows, since nothing is left to gain."""

    def cost(model: onnx.ModelProto) -> Taken:
        return Taken(100.0, int(TensorProto.INT8 not in result_types(model).values()))

    found = made_of_results(100.0, cost=cost).mixed
    assert found is not None
    assert {part.from_host for part in found.results} == {1}
    least = min(found.results, key=lambda part: part.loses_db)
    assert [part for part in found.results if part.type == "int8"] == [least]
    assert (found.wide.taken.host_nodes, found.mixed.taken.host_nodes) == (1, 0)


def curve() -> onnx.ModelProto:
    """Conv → LeakyRelu → Conv. The kink is where no piece of a polynomial begins, if values have sixteen bits."""
    b = FloatBuilder()
    x = b.node("LeakyRelu", "leaky", b.conv("conv1", b.input(), 3, CHANNELS), alpha=0.2)
    return b.build(b.conv("conv2", x, CHANNELS, CHANNELS))


@pytest.mark.slow
def test_a_curve_too_sharp_for_polynomials_is_the_machines_with_a_result_of_eight_bits() -> None:
    model = curve()
    machine = load_machine("mixed16", ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4"))
    found = quantize(model, samples(model, 4), activations="int16", mixed=budget_of(20, machine))
    assert found.mixed is not None
    wide, mixed, narrow = found.mixed.wide, found.mixed.mixed, found.mixed.narrow
    assert wide.taken.host_nodes > 0 and mixed.taken.host_nodes == 0
    assert isinstance(compile_partitioned(found.model, machine), Program)
    assert mixed.snr_db is not None and narrow.snr_db is not None and mixed.snr_db > narrow.snr_db
    assert {part.type for part in found.mixed.results} == {"int8", "int16"}
