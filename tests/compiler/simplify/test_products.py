"""Gemm's factors are part of its weights and its bias."""

import numpy as np
import pytest

from tests.compiler.models import gemm_model
from tests.compiler.pipelines import distances, simplified
from tilewright.compiler.graph.interpreter import run_graph


@pytest.mark.parametrize("bias", ["int32", "float"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 2.0), (0.5, 1.0), (0.5, 3.0)])
def test_scales_the_product_by_alpha_and_the_bias_by_beta(alpha: float, beta: float, bias: str) -> None:
    model = gemm_model(np.random.default_rng(5), rows=3, bias=bias, alpha=alpha, beta=beta)
    graph = simplified(model)
    assert distances(model, lambda inputs: run_graph(graph, inputs)).max() == 0
