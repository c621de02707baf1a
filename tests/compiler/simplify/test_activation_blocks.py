"""Activations with a scale for each block along the sum of a product, against what the file means in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from ml_dtypes import float8_e4m3fn
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.pipelines import simulated
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import Partitioned

SUMMED, BETWEEN, RESULTS, ROWS = 64, 96, 40, 3

STEP = np.float32(0.05)

EQUAL = 0.98
"""Of results at least. One activation that is rounded to the other side changes some of all the results of its row."""


class TwoProducts:
    """x → MatMul → Relu → MatMul, with a scale for each block of the activations before the second, and its weights."""

    def __init__(
        self, block: int = 32, weight_block: int = 32, element: str = "INT4", activations: str = "INT8",
        is_gemm: bool = False, rows_differ: bool = False, is_batch: bool = False,
        first_block: int = 0,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(0)
        self.block, self.weight_block, self.activations, self.is_gemm = block, weight_block, activations, is_gemm
        self.element, self.first_dimensions = element, (1, ROWS) if is_batch else (ROWS,)
        few_bits = 8 if activations != "INT8" else 127
        self.first, self.first_block = rng.integers(-few_bits, few_bits + 1, (SUMMED, BETWEEN)), first_block
        shape = SUMMED // (first_block or SUMMED), BETWEEN
        self.first_scale = (rng.uniform(0.5, 1, shape) * 0.25 / few_bits).astype(np.float32)
        low, high = (-8, 8) if element == "INT4" else (-127, 128)
        codes = rng.integers(low, high, (BETWEEN, RESULTS))
        self.second = codes.astype(float8_e4m3fn).astype(np.float64) if element == "FLOAT8E4M3FN" else codes
        blocks = BETWEEN // weight_block if weight_block else 1
        self.second_scales = rng.uniform(0.5, 1, (blocks, RESULTS)).astype(np.float32) * np.float32(1 / high)
        few = rng.uniform(0.1, 1, (1, -(-BETWEEN // block)))
        varied = few * rng.uniform(0.9, 1.1, (ROWS, 1)) if rows_differ else np.repeat(few, ROWS, 0)
        self.between_scales = (varied * (0.02 if activations == "INT8" else 0.01)).astype(np.float32)
        if activations != "INT8":  # scales as MX has them, which are exact
            self.between_scales, self.second_scales = (
                np.exp2(np.rint(np.log2(each))) for each in (self.between_scales, self.second_scales)
            )

    def model(self) -> onnx.ModelProto:
        kind, w_kind = (TensorProto.DataType.Value(each) for each in (self.activations, self.element))
        turned = "T" if self.is_gemm else ""
        second, scales = (each.T if self.is_gemm else each for each in (self.second, self.second_scales))
        axis = {"axis": 1 if self.is_gemm else 0, "block_size": self.weight_block}
        of_channels = {"axis": 0 if self.is_gemm else 1}
        constants = [
            numpy_helper.from_array(np.float32(0.02), "x_scale"),
            numpy_helper.from_array(STEP, "y_scale"),
            *(helper.make_tensor(name, kind, (), [0]) for name in ("x_zero", "y_zero")),
            helper.make_tensor("first", TensorProto.INT8, self.first.shape, self.first.ravel().tolist()),
            numpy_helper.from_array(self.first_scale if self.first_block else self.first_scale[0], "first_scale"),
            numpy_helper.from_array(self.between_scales.reshape(*self.first_dimensions, -1), "between_scale"),
            helper.make_tensor("between_zero", kind, (*self.first_dimensions, self.between_scales.shape[1]),
                               [0] * self.between_scales.size),
            helper.make_tensor("second", w_kind, second.shape, second.ravel().tolist()),
            numpy_helper.from_array(np.ascontiguousarray(scales if self.weight_block else scales.ravel()), "w_scale"),
        ]  # fmt: skip
        blocks = {"axis": -1, "block_size": self.block}
        between = ["between_scale", "between_zero"]
        product = ("Gemm", {"transB": 1}) if turned else ("MatMul", {})
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_int"], "quantize"),
            helper.make_node("DequantizeLinear", ["x_int", "x_scale", "x_zero"], ["x_real"], "dequantize"),
            helper.make_node("DequantizeLinear", ["first", "first_scale"], ["first_real"], "first_weights",
                             **({"axis": 0, "block_size": self.first_block} if self.first_block else {"axis": 1})),
            helper.make_node("MatMul", ["x_real", "first_real"], ["h"], "first_product"),
            helper.make_node("Relu", ["h"], ["r"], "relu"),
            helper.make_node("QuantizeLinear", ["r", *between], ["r_int"], "between", **blocks),
            helper.make_node("DequantizeLinear", ["r_int", *between], ["r_real"], "again", **blocks),
            helper.make_node("DequantizeLinear", ["second", "w_scale"], ["second_real"], "weights",
                             **(axis if self.weight_block else of_channels)),
            helper.make_node(product[0], ["r_real", "second_real"], ["y_exact"], "product", **product[1]),
            helper.make_node("QuantizeLinear", ["y_exact", "y_scale", "y_zero"], ["y_int"], "quantize_y"),
            helper.make_node("DequantizeLinear", ["y_int", "y_scale", "y_zero"], ["y"], "dequantize_y"),
        ]  # fmt: skip
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, (*self.first_dimensions, size))
            for name, size in (("x", SUMMED), ("y", RESULTS))
        ]
        graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.checker.check_model(model)
        return model

    def meaning(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """The results, each real number a float64."""
        codes = self._rounded(x / np.float32(0.02))
        real = np.maximum(
            (codes * np.float64(np.float32(0.02)))
            @ (self.first * np.repeat(self.first_scale.astype(np.float64), self.first_block or SUMMED, 0)),
            0,
        )
        scales = np.repeat(self.between_scales.astype(np.float64), self.block, 1)[:, :BETWEEN]
        between = self._rounded(real / scales) * scales
        of_weights = np.repeat(self.second_scales.astype(np.float64), self.weight_block or BETWEEN, 0)[:BETWEEN]
        return self._rounded(between @ (self.second * of_weights) / np.float64(STEP)) * np.float64(STEP)

    def _rounded(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        if self.activations == "INT8":
            return np.clip(np.rint(np.asarray(values, np.float64)), -128, 127)
        return np.clip(values, -448, 448).astype(float8_e4m3fn).astype(np.float64)


def steps_off(network: TwoProducts, machine: str) -> NDArray[np.float64]:
    """How many steps each result is from the file's meaning, all on the machine; of floats, of 1/16 of itself."""
    inputs: Mapping[str, NDArray[np.float32]] = {
        "x": np.random.default_rng(1).normal(0, 1, (*network.first_dimensions, SUMMED)).astype(np.float32)
    }
    program = compile_model(network.model(), load_machine(machine), Options(effort=0))
    found, meant = simulated(program, inputs)["y"], network.meaning(inputs["x"])
    assert np.unique(meant).size > 30
    step = STEP if network.activations == "INT8" else np.maximum(np.abs(meant) / 8, STEP)
    return np.abs(found - meant) / step


@pytest.mark.parametrize(
    ("block", "weight_block", "element"),
    [(32, 32, "INT4"), (16, 32, "INT4"), (32, 16, "INT8"), (32, 0, "INT8")],
)
def test_results_are_what_the_file_means(block: int, weight_block: int, element: str) -> None:
    """Weights in blocks of the same size, of twice and half of it, and with a scale for each channel alone."""
    off = steps_off(TwoProducts(block, weight_block, element), "llm16")
    assert off.max() < 1.01 and (off < 0.01).mean() >= EQUAL


@pytest.mark.parametrize("form", ["is_gemm", "is_batch"])
def test_a_gemm_with_turned_weights_and_a_batch_of_rows_are_the_same(form: str) -> None:
    off = steps_off(TwoProducts(**{form: True}), "llm16")
    assert off.max() < 1.01 and (off < 0.01).mean() >= EQUAL


def test_floats_in_blocks_with_scales_of_powers_of_two_are_exact() -> None:
    off = steps_off(TwoProducts(element="FLOAT8E4M3FN", activations="FLOAT8E4M3FN"), "mx16")
    assert off.max() < 0.01


def test_the_product_before_may_have_weights_in_blocks_too() -> None:
    """Its blocks' scales take the factor of each of its channels."""
    off = steps_off(TwoProducts(first_block=32), "llm16")
    assert off.max() < 1.01 and (off < 0.01).mean() >= EQUAL


def test_rows_with_scales_of_their_own_are_the_hosts() -> None:
    found = compile_partitioned(TwoProducts(rows_differ=True).model(), load_machine("llm16"))
    assert isinstance(found, Partitioned)
    reasons = {node.name: node.reason for node in found.host_nodes}
    assert reasons["again"] == (
        "an activation has a scale for each block; expected one scale, or blocks along the sum of a MatMul or Gemm "
        "with constant weights, the same for all rows, which an operator of the model makes"
    )


def test_without_sums_of_blocks_the_product_is_the_hosts() -> None:
    found = compile_partitioned(TwoProducts().model(), load_machine("sequence16"))
    assert isinstance(found, Partitioned)
    (reason,) = (node.reason for node in found.host_nodes if node.name == "product")
    assert "no instruction adds up sums of blocks" in reason
