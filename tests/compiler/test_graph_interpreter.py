"""The meaning of level 1, before and after simplification, against ONNX Runtime."""

import numpy as np
import onnx
import pytest

from compiler.graph_interpreter import run_graph
from compiler.onnx_import import import_onnx
from compiler.simplify import simplify
from tests.compiler.models import (
    conv_model,
    flatten_gemm_model,
    gemm_model,
    pool_model,
    residual_model,
    small_cnn,
)
from tests.compiler.pipelines import DIGITS, distances

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
    "cnn": lambda rng, of: small_cnn(rng, activation=of),
}  # fmt: skip


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("name", MODELS)
def test_imported_and_simplified_graphs_mean_the_model(name: str, activation: type) -> None:
    model = MODELS[name](np.random.default_rng(3), activation)
    graph = import_onnx(model.SerializeToString())
    for stage in (graph, simplify(graph)):
        apart = distances(model, lambda inputs, stage=stage: run_graph(stage, inputs))
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99


def test_digits() -> None:
    model = onnx.load(DIGITS / "digits_int8.onnx")
    graph = simplify(import_onnx(model.SerializeToString()))
    apart = distances(model, lambda inputs: run_graph(graph, inputs))
    assert apart.max() <= 1
