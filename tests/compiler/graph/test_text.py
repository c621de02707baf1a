"""Level 1 as text: what is printed is read back the same, and faults are told."""

import re

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model, pool_model, random_inputs, residual_model, small_cnn
from tests.compiler.pipelines import DIGITS
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Quantization, TensorType
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.graph.text import parse_graph, parse_type, print_graph, print_type
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.simplify.steps import simplify_graph

MODELS = {
    "digits": lambda: onnx.load(DIGITS / "digits_int8.onnx"),
    "conv": lambda: conv_model(np.random.default_rng(1), activation=np.uint8),
    "average": lambda: pool_model(np.random.default_rng(1), "AveragePool", pads=[1, 1, 1, 1]),
    "residual": lambda: residual_model(np.random.default_rng(1)),
    "cnn": lambda: small_cnn(np.random.default_rng(1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_reads_what_it_prints(name: str) -> None:
    model = MODELS[name]()
    imported = import_onnx(model.SerializeToString())
    inputs = random_inputs(model, np.random.default_rng(2))
    for graph in (imported, simplify_graph(imported)):
        text = print_graph(graph)
        again = parse_graph(text)
        assert print_graph(again) == text
        assert (again.operators, again.tensors, again.outputs) == (graph.operators, dict(graph.tensors), graph.outputs)
        expected, computed = run_graph(graph, inputs), run_graph(again, inputs)
        assert all(np.array_equal(expected[output], computed[output]) for output in expected)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (TensorType("float32", (1, 3)), "tensor<1x3xf32>"),
        (TensorType("int64", ()), "tensor<i64>"),
        (TensorType("int8", (2,), Quantization((0.5,), (-3,))), "tensor<2x!quant.uniform<i8:f32, 0.5:-3>>"),
        (TensorType("uint8", (2,), Quantization((1e-5,), (128,))), "tensor<2x!quant.uniform<u8:f32, 1.0e-05:128>>"),
        (
            TensorType("int32", (4, 2), Quantization((0.5, 2.0), (0, 1), 1)),
            "tensor<4x2x!quant.uniform<i32:f32:1, {0.5:0, 2.0:1}>>",
        ),
    ],
)
def test_types(of: TensorType, text: str) -> None:
    assert print_type(of) == text
    assert parse_type(text) == of


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"graph.network"', '"graph.other"'), "expected a 'graph.network' with a region, got 'graph.other'"),
        (('"graph.conv"', '"graph.frob"'), "unknown operator 'graph.frob'; expected onnx.… or graph.quantize|"),
        (('outputs = ["result"]', "outputs = []"), "graph.return: 0 names for 1 tensors; expected one for each"),
        ((', name = "conv"', ""), "graph.conv: attribute name is missing"),
        (("strides = [1, 1], ", ""), "graph.conv: attribute strides is missing"),
        (('"graph.conv"', '"graph.add"'), "graph.add: expected 2 operands and one result"),
        (('name = "conv"', "name = 3"), "graph.conv: attribute name is 3; expected str"),
        (("!quant.uniform<i8:f32, ", "!quant.uniform<i8:f32, x"), "'tensor<1x3x8x8x!quant.uniform<i8:f32, x0.1"),
        (("!quant.uniform<i8:f32, ", "!quant.uniform<f9E9M9:f32, "), "expected integers or f8E4M3FN, f4E2M1FN, f8E5M2"),
        (("(%x)", "(%z)"), "line 5: graph.quantize: %z is read before it is made"),
        (("xf32>", "xf31>"), "'tensor<1x3x8x8xf31>' is not a type of level 1: expected one of i1, i2, i4, i8"),
    ],
)
def test_faults_are_told(change: tuple[str, str], message: str) -> None:
    text = print_graph(simplify_graph(import_onnx(MODELS["conv"]().SerializeToString()))).replace("u8:f32", "i8:f32")
    assert change[0] in text
    with pytest.raises(CompileError, match=re.escape(message)):
        parse_graph(text.replace(*change))
