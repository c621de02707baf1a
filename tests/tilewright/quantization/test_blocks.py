"""Weights in blocks: what is written, and how near it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import InputError
from tilewright.quantization.blocks import quantized_blocks
from tilewright.quantization.grids import grid_of
from tilewright.quantization.quantize import quantize

SUMMED, RESULTS = 70, 24


def network(turned: bool = False) -> onnx.ModelProto:
    """x [2, 70] times a constant matrix; `turned`: by Gemm with transB, and a bias."""
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(SUMMED, RESULTS)).astype(np.float32)
    weights[:32] *= 20  # one scale for each channel would leave few steps to the others
    constants = [numpy_helper.from_array(np.ascontiguousarray(weights.T) if turned else weights, "w")]
    if turned:
        constants.append(numpy_helper.from_array(rng.normal(size=RESULTS).astype(np.float32), "b"))
        node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "product", transB=1)
    else:
        node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, size)) for name, size in (("x", 70), ("y", RESULTS))
    ]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("turned", [False, True])
def test_matrices_have_a_scale_for_each_block_along_the_sum(turned: bool) -> None:
    model = quantize(network(turned), "random", weights="int4", block=32).model
    onnx.checker.check_model(model, full_check=True)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    (reader,) = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
        and node.input[0] in constants
        and constants[node.input[0]].data_type == TensorProto.INT4
    ]
    attributes = {attribute.name: attribute.i for attribute in reader.attribute}
    assert attributes == {"axis": int(turned), "block_size": 32}
    shape = (RESULTS, 3) if turned else (3, RESULTS)
    assert tuple(constants[reader.input[1]].dims) == shape and len(reader.input) == 2


def test_blocks_come_nearer_than_channels() -> None:
    x = {"x": np.random.default_rng(4).normal(size=(8, 2, SUMMED)).astype(np.float32)}
    whole, blocks = (quantize(network(), x, weights="int4", block=block).layers[-1] for block in (0, 32))
    assert blocks.snr_db is not None and whole.snr_db is not None and blocks.snr_db > whole.snr_db


def test_a_block_is_exact_where_its_weights_are_steps() -> None:
    codes = np.array([[-8, 3], [7, -8], [0, 7], [5, 2]])
    scales = np.array([[0.5, 0.25], [2, 0.125]])
    values = codes * np.repeat(scales, 2, axis=0)
    found, kept = quantized_blocks(values, 2, grid_of("int4"))
    np.testing.assert_allclose(found * np.repeat(kept.astype(np.float64), 2, axis=0), values, rtol=1e-6)


def test_rows_make_up_for_each_other_where_what_they_multiply_goes_together() -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 32)) + 0.1 * rng.normal(size=(400, 32))
    matrix, held = rng.normal(size=(32, 10)), grid_of("int4")
    off = []
    for moments in (None, rows.T @ rows):
        codes, scales = quantized_blocks(matrix, 16, held, moments)
        off.append(np.square(rows @ (codes * np.repeat(scales, 16, axis=0) - matrix)).sum())
    assert off[1] < 0.3 * off[0]


def test_a_block_of_zeros_has_a_scale_that_is_a_number() -> None:
    codes, scales = quantized_blocks(np.zeros((3, 2)), 2, grid_of("int4"))
    assert not codes.any() and np.all(scales == 1) and scales.shape == (2, 2)


def test_refuses_other_sizes_of_blocks() -> None:
    with pytest.raises(InputError) as refused:
        quantize(network(), "random", weights="int4", block=48)
    assert str(refused.value) == "no blocks of 48 weights; there are: 16, 32, 64, 128"
