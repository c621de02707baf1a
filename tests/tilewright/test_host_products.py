"""Integer products on the host are those of the numbers, for all types and at the ends of their ranges."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.host_model import HostModel
from tilewright.host_products import with_exact_products

INTEGERS = (np.uint8, np.int8)
PAIRS = list(product(INTEGERS, repeat=2))
SCALE = 5000
"""Of the outputs that are quantised again, so that most stay in their range."""


def extremes(of: type[Any], shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    limits = np.iinfo(of)
    return rng.choice([limits.min, limits.max], size=shape).astype(of)


def node_model(operator: str, inputs: dict[str, Any], constants: dict[str, Any], output: Any) -> onnx.ModelProto:
    """A model of one node, which reads the inputs and constants in order of their places, such as "1 w"."""

    def typed(name: str, of: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(of)), None)

    places = sorted([*inputs, *constants], key=lambda name: int(name.split()[0]))
    graph = helper.make_graph(
        [helper.make_node(operator, places, ["y"])],
        operator,
        [typed(name, value.dtype) for name, value in inputs.items()],
        [typed("y", output)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def computed(model: onnx.ModelProto, inputs: dict[str, Any]) -> NDArray[Any]:
    result = HostModel(model.SerializeToString()).run(["y"], inputs)["y"]
    assert isinstance(result, np.ndarray)
    return result


def convolved(x: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.einsum("nchwij,ocij->nohw", sliding_window_view(x, weights.shape[2:], (2, 3)), weights)


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_sums_of_products_are_exact(first: type[Any], second: type[Any], is_constant: bool) -> None:
    rng = np.random.default_rng(0)
    for operator, shapes in {"MatMulInteger": ((9, 64), (64, 17)), "ConvInteger": ((1, 8, 7, 7), (5, 8, 3, 3))}.items():
        a, b = extremes(first, shapes[0], rng), extremes(second, shapes[1], rng)
        inputs, weights = {"0 a": a}, {"1 b": b}
        model = node_model(
            operator,
            inputs if is_constant else inputs | weights,
            (weights if is_constant else {}) | {"2 a zero": first(3), "3 b zero": second(5)},
            np.int32,
        )
        wide = (a.astype(np.int64) - 3, b.astype(np.int64) - 5)
        expected = wide[0] @ wide[1] if operator == "MatMulInteger" else convolved(*wide)
        assert np.array_equal(computed(model, inputs if is_constant else inputs | weights), expected), operator


@pytest.mark.parametrize("operator", ["QLinearMatMul", "QLinearConv"])
@pytest.mark.parametrize("of", INTEGERS)
def test_sums_that_are_quantised_are_exact(operator: str, of: type[Any]) -> None:
    rng = np.random.default_rng(1)
    shapes = ((9, 64), (64, 17)) if operator == "QLinearMatMul" else ((1, 8, 7, 7), (5, 8, 3, 3))
    x, weights = extremes(of, shapes[0], rng), extremes(np.int8, shapes[1], rng)
    constants = {"1 s": np.float32(1), "2 z": of(1), "3 w": weights, "4 s": np.float32(1), "5 z": np.int8(-2)}
    constants |= {"6 s": np.float32(SCALE), "7 z": of(7)}
    wide = (x.astype(np.int64) - 1, weights.astype(np.int64) + 2)
    sums = wide[0] @ wide[1] if operator == "QLinearMatMul" else convolved(*wide)
    limits = np.iinfo(of)
    expected = np.clip(np.rint(sums / np.float32(SCALE)) + 7, limits.min, limits.max)
    assert np.array_equal(computed(node_model(operator, {"0 x": x}, constants, of), {"0 x": x}), expected)


def test_without_zero_points_and_behind_other_nodes() -> None:
    """The type of a factor is known where another node makes it."""
    rng = np.random.default_rng(2)
    a, b = extremes(np.uint8, (4, 32), rng), extremes(np.int8, (32, 4), rng)
    model = node_model("MatMulInteger", {"0 a": a}, {"1 b": b}, np.int32)
    model.graph.node[0].input[0] = "shaped"
    model.graph.initializer.append(numpy_helper.from_array(np.array([4, 32]), "shape"))
    model.graph.node.insert(0, helper.make_node("Reshape", ["0 a", "shape"], ["shaped"]))
    assert np.array_equal(computed(model, {"0 a": a}), a.astype(np.int64) @ b.astype(np.int64))


def test_a_model_that_is_exact_stays_as_it_is() -> None:
    ones = np.ones((2, 2), np.uint8)
    model = node_model("MatMulInteger", {"0 a": ones}, {"1 b": ones}, np.int32)
    assert with_exact_products(model) is model
