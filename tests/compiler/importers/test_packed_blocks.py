"""MatMulNBits: the same results as ONNX Runtime gives, and errors for what is not a matrix in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import run_onnx
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.packed_blocks import WIDER, with_plain_blocks
from tilewright.compiler.importers.remarks import remarks_of

SUMMED, RESULTS = 72, 10


def packed_model(bits: int = 4, block: int = 32, zeros: str = "", **other: Any) -> onnx.ModelProto:
    """x [3, 72] by a matrix of random bytes; `zeros`: the type of its zero points; `other`: other constants."""
    rng = np.random.default_rng(bits + block)
    blocks = -(-SUMMED // block)
    constants = {
        "w": rng.integers(0, 256, (RESULTS, blocks, block * bits // 8)).astype(np.uint8),
        "scales": rng.uniform(0.1, 1, RESULTS * blocks).astype(np.float32),
        "bias": rng.normal(size=RESULTS).astype(np.float32),
    }
    if zeros == "uint8":
        constants["zeros"] = rng.integers(0, 256, RESULTS * -(-blocks * bits // 8)).astype(np.uint8)
    elif zeros:
        constants["zeros"] = rng.integers(0, 1 << bits, (RESULTS, blocks)).astype(zeros)
    if "zero" in other:
        constants["zeros"] = np.full((RESULTS, blocks), other["zero"], zeros)
    constants |= {name: value for name, value in other.items() if name in constants}
    names = ["x", "w", "scales", "zeros" if zeros else "", other.get("order", ""), "bias"]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], "product", domain="com.microsoft", K=SUMMED, N=RESULTS, bits=bits, block_size=block
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, size)) for name, size in (("x", 72), ("y", RESULTS))
    ]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], held)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


@pytest.mark.parametrize(
    ("bits", "block", "zeros"),
    [(2, 16, ""), (2, 32, "uint8"), (4, 16, ""), (4, 32, "uint8"), (4, 128, "float32"), (8, 64, ""), (8, 32, "uint8")],
)
def test_means_what_onnx_runtime_computes(bits: int, block: int, zeros: str) -> None:
    model = packed_model(bits, block, zeros)
    plain = with_plain_blocks(model, "net")
    assert {node.op_type for node in plain.graph.node} == {"DequantizeLinear", "MatMul", "Add"}
    x = {"x": np.random.default_rng(0).normal(size=(3, SUMMED)).astype(np.float32)}
    (found,), (meant,) = run_onnx(plain, x).values(), run_onnx(model, x).values()
    np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("bits", "said"), [(2, {"MatMulNBits 'product'": WIDER}), (4, {}), (8, {})])
def test_says_where_weights_take_more_bits(bits: int, said: dict[str, str]) -> None:
    assert remarks_of(with_plain_blocks(packed_model(bits), "net")) == said


def test_leaves_computed_weights() -> None:
    model = packed_model()
    kept = [tensor for tensor in model.graph.initializer if tensor.name != "w"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    assert with_plain_blocks(model, "net") is model


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (packed_model(block=24), "block_size = 24; expected a power of two, 16 or more"),
        (packed_model(bits=3), "bits = 3; expected one of 2, 4, 8"),
        (packed_model(scales=np.ones(29, np.float32)), "it has 29 scales; expected 10 times 3, one for each block"),
        (packed_model(scales=np.zeros(30, np.float32)), "its scale is 0.0; expected positive numbers"),
        (packed_model(scales=np.full(30, np.nan, np.float32)), "its scale is nan; expected positive numbers"),
        (packed_model(w=np.zeros((10, 3, 8), np.uint8)), "its weights are uint8[10, 3, 8]; expected uint8[10, 3, 16]"),
        (packed_model(zeros="float32", zero=0.5), "its zero point is 0.5; expected integers from 0 to 15"),
        (packed_model(order="bias"), "its rows are in another order (g_idx); expected none"),
    ],
)
def test_refuses_what_is_no_matrix_in_blocks(faulty: onnx.ModelProto, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        with_plain_blocks(faulty, "net")
    assert str(refused.value) == f"node 'product' (MatMulNBits): {message}"
