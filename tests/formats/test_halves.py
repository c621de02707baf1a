"""Float16 in files: quantised networks around it are on the machine, and float ones quantise."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import run_onnx
from tests.compiler.pipelines import base16, simulated
from tests.rings import slow_beyond
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.program.partitioned import Partitioned
from tilewright.quantization.quantize import quantize

SHAPE, SCALE, RESULT = (1, 8, 6, 6), 0.05, 0.0831

KINDS: dict[str, dict[str, Any]] = {
    "Conv": {"pads": [1, 1, 1, 1]},
    "Relu": {},
    "Add": {},
    "Sigmoid": {},
    "MaxPool": {"kernel_shape": [2, 2]},
    "AveragePool": {"kernel_shape": [2, 2]},
    "Concat": {"axis": 1},
    "Transpose": {"perm": [0, 1, 3, 2]},
}
"""Operators between a DequantizeLinear and a QuantizeLinear."""

PLACES = ("scales", "ends", "inside")
"""Where float16 is: in all that is real; in the input and the output, with a Cast of each; or between two Casts."""


class _Made:
    """Nodes and constants so far."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def pair(self, x: str, scale: float, real: type) -> str:
        """A QuantizeLinear and a DequantizeLinear with scales of a type."""
        q = self.node("QuantizeLinear", x, self.constant(real(scale)), self.constant(np.int8(3)))
        return self.node("DequantizeLinear", q, self.constant(real(scale)), self.constant(np.int8(3)))


def quantised(kind: str, place: str, opset: int) -> onnx.ModelProto:
    """One operator in QDQ form."""
    made, scales = _Made(), np.float16 if place == "scales" else np.float32
    x = made.node("Cast", "x", to=TensorProto.FLOAT) if place == "ends" else "x"
    x = made.pair(x, SCALE, scales)
    if place == "inside":
        x = made.node("Cast", made.node("Cast", x, to=TensorProto.FLOAT16), to=TensorProto.FLOAT)
    operands = [x]
    if kind == "Conv":
        values = np.random.default_rng(5).integers(-100, 101, (8, 8, 3, 3)).astype(np.int8)
        zero = made.constant(np.int8(0))
        operands.append(made.node("DequantizeLinear", made.constant(values), made.constant(scales(0.01)), zero))
    elif kind in ("Add", "Concat"):
        operands.append(x)
    y = made.pair(made.node(kind, *operands, **KINDS[kind]), RESULT, scales)
    made.node("Cast", y, to=TensorProto.FLOAT16) if place == "ends" else made.node("Identity", y)
    made.nodes[-1].output[0] = "y"
    element = TensorProto.FLOAT if place == "inside" else TensorProto.FLOAT16
    return _model(made, element, opset)


def _model(made: _Made, element: int, opset: int) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info("x", element, SHAPE)], [helper.make_tensor_value_info("y", element, None)]
    graph = helper.make_graph(made.nodes, "halves", *ends, made.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def image(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    element = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    return {"x": np.random.default_rng(1).normal(0, 2, SHAPE).astype(element)}


OF_SINGLE_SUMS = 21
"""The newest opset in which ONNX Runtime's Conv adds float16 products in single precision."""

FORMS = [(kind, place, opset) for opset in (19, 21, 23) for kind in KINDS for place in PLACES]


@pytest.mark.parametrize("form", slow_beyond(24, FORMS), ids=str)
def test_a_quantised_network_around_float16_is_on_the_machine(form: tuple[str, str, int]) -> None:
    model = quantised(*form)
    program = compile_model(model, base16(), Options(effort=0))
    plain = quantised(*form[:2], min(form[2], OF_SINGLE_SUMS))
    expected, found = run_onnx(plain, image(model))["y"], simulated(program, image(model))["y"]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    apart = np.abs(found.astype(np.float64) - expected) / RESULT
    assert apart.max() <= 1.05  # one step, and what float16 rounds of it
    assert (apart < 0.05).mean() >= 0.95


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_cast_that_rounds_otherwise_is_for_the_host(place: str) -> None:
    """The host rounds no float32 input to float16, nor the float16 that a float32 output was."""
    made = _Made()
    x = made.node("Cast", "x", to=TensorProto.FLOAT16) if place == "first" else "x"
    scales = np.float16
    y = made.pair(made.node("Add", *[made.pair(x, SCALE, scales)] * 2), RESULT, scales)
    made.node("Cast", y, to=TensorProto.FLOAT)
    made.nodes[-1].output[0] = "y"
    model = _model(made, TensorProto.FLOAT, 21)
    if place == "last":
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    compiled = compile_partitioned(model, base16(), Options(effort=0))
    assert isinstance(compiled, Partitioned)
    assert "Cast" in {node.op_type for node in compiled.host_nodes}


@pytest.mark.parametrize("constants", ["initialisers", "nodes"])
def test_a_float16_network_quantises(constants: str) -> None:
    made = _Made()
    weights = np.random.default_rng(2).normal(0, 0.1, (8, 8, 3, 3)).astype(np.float16)
    if constants == "nodes":
        w = made.node("Constant", value=numpy_helper.from_array(weights))
    else:
        w = made.constant(weights)
    made.node("Relu", made.node("Conv", "x", w, pads=[1, 1, 1, 1]))
    made.nodes[-1].output[0] = "y"
    model = _model(made, TensorProto.FLOAT16, 17)
    samples = np.random.default_rng(3).normal(size=(4, *SHAPE[1:])).astype(np.float16)
    network = quantize(model, {"x": samples}).model
    assert [value.type.tensor_type.elem_type for value in (*network.graph.input, *network.graph.output)] == [
        TensorProto.FLOAT16, TensorProto.FLOAT16,
    ]  # fmt: skip
    program = compile_model(network, base16(), Options(effort=0))
    expected = run_onnx(model, {"x": samples[:1]})["y"].astype(np.float64)
    found = simulated(program, {"x": samples[:1]})["y"]
    assert found.dtype == np.float16
    assert np.square(expected).sum() / np.square(found - expected).sum() > 10**3.5  # 35 dB
