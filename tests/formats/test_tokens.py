"""A product of one token, as a decoder has: its result goes on to the host, whatever reads it there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tilewright
from tests.compiler.models import run_onnx
from tests.formats.ends import SCALE, Network, Nodes

SHAPES = ([1, 1, 8], [3, 1, 8], [1, 1, 1, 8], [1, 8])

READERS = ("CumSum", "Erf", "Abs", "Softmax", "Transpose", "Identity", "ArgMax")


def token(shape: Sequence[int], reader: str, is_quantized: bool) -> Network:
    """int8 → MatMul → quantised → `reader`, and quantised again or not."""
    n = Nodes()
    x = n.dequantized(n.input("x", n.rng.integers(-128, 128, shape).astype(np.int8)))
    y = n.dequantized(n.quantized(n.node("MatMul", x, n.weights((8, 16), axis=1))))
    y = n.node(reader, y, *([n.constant(np.array(0))] if reader == "CumSum" else []))
    if is_quantized and reader != "ArgMax":
        y = n.dequantized(n.quantized(y))
    n.output(y)
    return n.network()


@pytest.mark.parametrize("is_quantized", [False, True])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_product_stays_on_the_machine(shape: Sequence[int], reader: str, is_quantized: bool) -> None:
    network = token(shape, reader, is_quantized)
    program = tilewright.compile(network.model.SerializeToString(), "base16", effort=0)
    assert "MatMul" not in [node.op_type for node in program.host_nodes]
    (came,), (expected,) = (
        program.run(network.inputs).outputs.values(),
        run_onnx(network.model, network.inputs).values(),
    )
    assert came.dtype == expected.dtype
    assert came.shape == expected.shape
    assert np.abs(came.astype(np.float64) - expected).max() <= SCALE
