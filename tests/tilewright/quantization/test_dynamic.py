"""Networks that ONNX Runtime's quantize_dynamic made are float networks again, which can be quantised once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import tilewright
from tests.compiler.models import run_onnx
from tilewright.compiler.errors import CompileError
from tilewright.quantization.dynamic import is_dynamic, without_dynamic

SHAPES = {"dense": (4, 16), "image": (1, 3, 12, 12)}


def constants(rng: np.random.Generator, **shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    made = {name: (rng.normal(size=shape) * 0.3).astype(np.float32) for name, shape in shapes.items()}
    return [numpy_helper.from_array(value, name) for name, value in made.items()]


def dense(rng: np.random.Generator) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Add", ["a", "b"], ["c"], "bias"),
        helper.make_node("Relu", ["c"], ["d"], "relu"),
        helper.make_node("Gemm", ["d", "v", "e"], ["y"], "second"),
    ]
    return nodes, constants(rng, w=(16, 24), b=(24,), v=(24, 5), e=(5,))


def image(rng: np.random.Generator) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["c"], "relu"),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], "mean"),
        helper.make_node("Flatten", ["d"], ["e"], "flat"),
        helper.make_node("MatMul", ["e", "v"], ["y"], "second"),
    ]
    return nodes, constants(rng, w=(8, 3, 3, 3), b=(8,), v=(8, 5))


NETWORKS: dict[str, Callable[[np.random.Generator], Any]] = {"dense": dense, "image": image}


def dynamic(name: str, folder: Path, per_channel: bool = False) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A float network, and what ONNX Runtime makes of it."""
    nodes, kept = NETWORKS[name](np.random.default_rng(3))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPES[name])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [SHAPES[name][0], 5])
    graph = helper.make_graph(nodes, name, [x], [y], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "float.onnx")
    kind = QuantType.QInt8 if name == "dense" else QuantType.QUInt8
    quantize_dynamic(folder / "float.onnx", folder / "dynamic.onnx", per_channel=per_channel, weight_type=kind)
    return model, onnx.load(folder / "dynamic.onnx")


def decibel(expected: NDArray[Any], computed: NDArray[Any]) -> float:
    return float(10 * np.log10(np.square(expected).mean() / np.square(expected - computed).mean()))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_is_quantised_once_and_runs_on_the_machine(name: str, per_channel: bool, tmp_path: Path) -> None:
    plain, model = dynamic(name, tmp_path, per_channel)
    assert is_dynamic(model)
    samples = np.random.default_rng(0).normal(size=(6, *SHAPES[name])).astype(np.float32)
    program = tilewright.compile(tilewright.quantize(model, {"x": samples}).model, "base16", effort=0)
    assert not program.host_nodes
    expected = run_onnx(plain, {"x": samples[0]})["y"]
    assert decibel(expected, program.run({"x": samples[0]}).outputs["y"]) > 25


def test_the_float_network_has_the_weights_of_the_dynamic_one(tmp_path: Path) -> None:
    """Only the activations differ: those of the dynamic one have 8 bits."""
    _, model = dynamic("dense", tmp_path)
    x = np.random.default_rng(1).normal(size=SHAPES["dense"]).astype(np.float32)
    again = without_dynamic(model)
    assert not is_dynamic(again)
    assert decibel(run_onnx(model, {"x": x})["y"], run_onnx(again, {"x": x})["y"]) > 35


def test_integers_that_something_else_reads_stay(tmp_path: Path) -> None:
    _, model = dynamic("dense", tmp_path)
    first = next(node for node in model.graph.node if node.op_type == "DynamicQuantizeLinear")
    model.graph.node.append(helper.make_node("Cast", [first.output[0]], ["z"], to=TensorProto.INT32))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT32, SHAPES["dense"]))
    assert sum(node.op_type == "DynamicQuantizeLinear" for node in without_dynamic(model).graph.node) == 1


def test_compiled_as_it_is_the_message_says_what_to_do(tmp_path: Path) -> None:
    _, model = dynamic("dense", tmp_path)
    with pytest.raises(CompileError) as caught:
        tilewright.compile(model.SerializeToString(), "base16", effort=0, host=False)
    assert str(caught.value) == (
        "node 'first_quant' (MatMulInteger): its input is quantised in each run; Quantise it once, with samples of the "
        "model's inputs: tilewright quantize MODEL --calibration samples.npz --output net.onnx. MODEL is the float "
        "model, or this one if nothing in it is quantised otherwise"
    )
