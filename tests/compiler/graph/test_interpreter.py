"""The meaning of level 1, before and after simplification, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.lower.test_transposed import transposed
from tests.compiler.models import (
    conv_model,
    flatten_gemm_model,
    gemm_model,
    pool_model,
    residual_model,
    small_cnn,
)
from tests.compiler.pipelines import DIGITS, distances
from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.graph.text import parse_graph, print_graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.simplify.steps import simplify_graph

MODELS = {
    "conv": lambda rng, of: conv_model(rng, 8, 8, [11, 17], [3, 5], [2, 1], [0, 2, 1, 1], [1, 2], activation=of),
    "grouped": lambda rng, of: conv_model(rng, 8, 12, group=4, pads=[1, 1, 1, 1], bias="float", batch=3, activation=of),
    "residual": lambda rng, of: residual_model(rng, activation=of),
    "max_pool": lambda rng, of: pool_model(rng, kernel=3, stride=2, pads=[1, 1, 1, 1], same_scale=False, activation=of),
    "max_pool_ceil": lambda rng, of: pool_model(rng, kernel=3, stride=2, pads=[1, 0, 1, 0], ceil_mode=1, activation=of),
    "average_pool": lambda rng, of: pool_model(
        rng, "AveragePool", kernel=3, stride=2, pads=[1, 1, 1, 1], ceil_mode=1, same_scale=False, activation=of
    ),
    "average_pool_padded": lambda rng, of: pool_model(
        rng, "AveragePool", kernel=3, stride=2, pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1, same_scale=False,
        activation=of,
    ),
    "global_average": lambda rng, of: pool_model(rng, "GlobalAveragePool", same_scale=False, activation=of),
    "gemm": lambda rng, of: gemm_model(rng, rows=5, relu=True, activation=of),
    "flatten": lambda rng, of: flatten_gemm_model(rng),
    "transposed": lambda rng, of: transposed(4, strides=[2, 2], pads=[1, 1, 3, 2], activation=of),
    "cnn": lambda rng, of: small_cnn(rng, activation=of),
}  # fmt: skip


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("name", MODELS)
def test_imported_and_simplified_graphs_mean_the_model(name: str, activation: type) -> None:
    model = MODELS[name](np.random.default_rng(3), activation)
    graph = import_onnx(model.SerializeToString())
    for stage in (graph, simplify_graph(graph)):
        apart = distances(model, lambda inputs, stage=stage: run_graph(stage, inputs))
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99


def test_digits() -> None:
    model = onnx.load(DIGITS / "digits_int8.onnx")
    graph = simplify_graph(import_onnx(model.SerializeToString()))
    apart = distances(model, lambda inputs: run_graph(graph, inputs))
    assert apart.max() <= 1


def _moved_product(seed: int, is_transposed: bool) -> tuple[Graph, NDArray[np.int8], NDArray[np.int8]]:
    """y = a · permuted b, and what a and b hold."""
    rng = np.random.default_rng(seed)
    batches, outputs, inputs, pixels = (int(size) for size in rng.integers(1, 6, 4))
    held = (inputs, outputs) if is_transposed else (outputs, inputs)
    tensors = {
        "a": TensorType("int8", (batches, inputs, 1, pixels), Quantization((0.5,), (3,))),
        "b": TensorType("int8", (batches, held[1], 1, held[0]), Quantization((0.25,), (-7,))),
        "moved": TensorType("int8", (batches, held[0], 1, held[1]), Quantization((0.25,), (-7,))),
        "y": TensorType("int8", (batches, outputs, 1, pixels), Quantization((2.0,), (5,))),
    }
    axes = {"shape": (batches, held[1], held[0]), "axes": (0, 2, 1)}
    product = {"is_transposed": is_transposed, "factor": 0.75, "low": -100, "high": 127}
    operators = (
        Operator("move", "permute", ("b",), ("moved",), axes), Operator("y", "product", ("a", "moved"), ("y",), product)
    )  # fmt: skip
    a, b = (rng.integers(-128, 128, tensors[name].shape).astype(np.int8) for name in "ab")
    return Graph("test", operators, tensors, {}, ("a", "b"), {"y": "y"}, 17), a, b


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_product_of_two_operands_one_moved(seed: int, is_transposed: bool) -> None:
    graph, a, b = _moved_product(seed, is_transposed)
    (batches, inputs, _, pixels), outputs = a.shape, graph.tensors["y"].shape[1]
    result = run_graph(parse_graph(print_graph(graph)), {"a": a, "b": b})["y"]
    for n, o, m in np.ndindex(batches, outputs, pixels):
        factors = [b[n, o, 0, k] if is_transposed else b[n, k, 0, o] for k in range(inputs)]
        total = sum((int(a[n, k, 0, m]) - 3) * (int(factors[k]) + 7) for k in range(inputs))
        assert result[n, o, 0, m] == min(max(round(total * 0.5 * 0.25 * 0.75 / 2) + 5, -100), 127)
