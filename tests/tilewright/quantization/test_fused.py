"""Float networks with ONNX Runtime's fused operators: the same function, and quantised on the machine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.models import run_onnx
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.quantization.fused import write_fused

SHAPE = (1, 6, 16)


def block(opset: int) -> onnx.ModelProto:
    """A block of a transformer as the optimiser of ONNX Runtime writes it."""
    rng = np.random.default_rng(5)
    kept = {
        "w": rng.normal(size=(16, 16)) * 0.3, "b": rng.normal(size=16), "g": rng.normal(size=16) + 1,
        "h": rng.normal(size=16),
    }  # fmt: skip
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["a"], "product", domain=DOMAIN, alpha=0.5, transB=1),
        helper.make_node("BiasGelu", ["a", "b"], ["c"], "gelu", domain=DOMAIN),
        helper.make_node("SkipLayerNormalization", ["c", "x", "g", "h"], ["d"], "norm", domain=DOMAIN, epsilon=1e-5),
        helper.make_node("QuickGelu", ["d"], ["e"], "quick", domain=DOMAIN),
        helper.make_node("LayerNormalization", ["e", "g", "h"], ["y"], "last"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    values = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in kept.items()]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph(nodes, "block", ends[:1], ends[1:], values)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, *SHAPE)).astype(np.float32)


@pytest.mark.parametrize("opset", [17, 20])
def test_the_nodes_compute_the_same(opset: int) -> None:
    model = infer_shapes(block(opset))
    written = write_fused(model)
    assert {node.domain for node in written.graph.node} == {""}
    assert len({node.name for node in written.graph.node}) == len(written.graph.node)
    expected, computed = (run_onnx(each, {"x": samples()[0]})["y"] for each in (model, written))
    assert np.allclose(expected, computed, rtol=1e-4, atol=1e-5)


def test_what_is_kept_stays() -> None:
    written = write_fused(infer_shapes(block(17)), frozenset({"gelu", "SkipLayerNormalization"}))
    assert [node.op_type for node in written.graph.node if node.domain] == ["BiasGelu", "SkipLayerNormalization"]


@pytest.mark.parametrize("opset", [13, 17])
def test_it_is_quantised_on_the_machine(opset: int) -> None:
    """ONNX Runtime knows LayerNormalization in opset 13, ONNX does not."""
    model = block(opset)
    program = tilewright.compile(tilewright.quantize(model, {"x": samples()}).model, "sequence16", effort=0)
    assert not program.host_nodes
    expected = run_onnx(model, {"x": samples()[0]})["y"]
    noise = expected - program.run({"x": samples()[0]}).outputs["y"]
    assert 10 * np.log10(np.square(expected).mean() / np.square(noise).mean()) > 25
