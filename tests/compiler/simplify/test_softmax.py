"""Softmax along any dimension, as opsets mean it: what it becomes, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.simplify.steps import simplify_graph


def along(
    shape: Sequence[int], attributes: Mapping[str, int], opset: int = 17, op_type: str = "Softmax"
) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", shape), 0.02, 5, name="x.q")
    y = builder.node(op_type, [x], name="softmax", **attributes)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    return builder.build("softmax", opset)


CASES = [
    ((2, 10), {}, 17),
    ((2, 10), {"axis": 0}, 17),
    ((7,), {"axis": 0}, 13),
    ((2, 20, 3, 4), {"axis": 1}, 17),
    ((2, 6, 20), {}, 17),
    ((2, 3, 6, 20), {"axis": -1}, 17),
    ((2, 3, 20, 6), {"axis": 2}, 17),
    ((1, 2, 3, 5, 20), {"axis": 1}, 17),
    ((2, 3, 4), {}, 12),  # along the last two
    ((2, 3, 4), {"axis": 2}, 12),
    ((3, 4, 5), {"axis": 0}, 11),
    ((2, 20, 1, 1), {"axis": 1}, 11),
]


@pytest.mark.parametrize(("shape", "attributes", "opset"), CASES, ids=str)
def test_simplified_graphs_mean_the_same(shape: Sequence[int], attributes: dict[str, int], opset: int) -> None:
    model = along(shape, attributes, opset)
    inputs = random_inputs(model, np.random.default_rng(1))
    graph = simplify_graph(import_onnx(model.SerializeToString()))
    assert [o.kind for o in graph.operators].count("softmax") == 1
    np.testing.assert_array_equal(run_graph(graph, inputs)["result"], run_onnx(model, inputs)["result"])


@pytest.mark.parametrize(("shape", "attributes", "opset"), CASES[:8:3] + CASES[8:9], ids=str)
def test_on_the_machine(shape: Sequence[int], attributes: dict[str, int], opset: int) -> None:
    apart = compiled_distances(along(shape, attributes, opset), "vector16")
    assert apart.max() <= 1
    assert (apart > 0).sum() <= 1


def test_the_scores_of_an_attention_stay_where_they_are() -> None:
    """Between two products there is nothing but the softmax."""
    builder = ModelBuilder(np.random.default_rng(3))
    q, k, v = (builder.quantize(builder.input(n, (1, 3, 20, 16)), 0.03, 0, name=f"{n}.q") for n in "qkv")
    turned = builder.node("Transpose", [k], name="turned", perm=[0, 1, 3, 2])
    scores = builder.quantize(builder.node("MatMul", [q, turned], name="scores"), 0.1, 3)
    shares = builder.quantize(builder.node("Softmax", [scores], name="softmax", axis=-1), 1 / 256, -128)
    builder.output(builder.quantize(builder.node("MatMul", [shares, v], name="values"), 0.02, 0))
    model = builder.build("attention")
    graph = simplified(model)
    kinds = [o.kind for o in graph.operators]
    first = kinds.index("product")
    assert kinds[first : first + 2] == ["product", "softmax"]
    assert graph.operators[first + 1].outputs[0] in graph.operators[kinds.index("product", first + 1)].inputs
    assert "permute" not in kinds[first:]
    apart = compiled_distances(model, "vector16")
    assert (apart <= 1).mean() > 0.99 and apart.max() <= 2


def test_logarithms_of_it_are_refused() -> None:
    with pytest.raises(CompileError, match=r"^node 'softmax' \(LogSoftmax\): operator LogSoftmax has no lowering"):
        simplified(along((2, 10), {}, op_type="LogSoftmax"))


def test_float_operands_are_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.input("x", (2, 10))
    y = builder.node("Softmax", [x], name="softmax", axis=1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    with pytest.raises(CompileError) as refused:
        simplified(builder.build("float"))
    assert str(refused.value) == (
        "node 'softmax' (softmax): its operand 'x' is a float input of the model; expected QuantizeLinear and "
        "DequantizeLinear between them"
    )
