"""QuantizeLinear and DequantizeLinear at the ends of a model: every type and grain, by ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.compiler.models import ModelBuilder, run_onnx
from tests.compiler.pipelines import base16, lowered, simplified, simulated
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.graph.graph import Quantization, TensorType
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.graph.text import parse_graph, parse_type, print_graph, print_type
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image, host_dtype, read_outputs
from tilewright.isa.files.loader import load_machine, shipped_machines
from tilewright.isa.language.numeric import parse_integer_type
from tilewright.isa.program.program import place_regions
from tilewright.isa.program.stored_types import COMPUTED_NAMES
from tilewright.simulator.interpreter import interpret

TYPES = ("int8", "uint8", "int4", "uint4", "int2", "uint2", "int16", "uint16")

GRAINS = {
    "one scale": (0, 0, 0),
    "channels": (1, 0, 1),
    "last dimension": (1, 0, -1),
    "blocks": (2, 2, 1),
    "blocks of one": (2, 1, 1),
}
"""Words → 1 for scales along an axis, 2 for blocks; elements in a block; the axis."""

OTHERS = "; others only go from an input of the model to an output"
CHANNELS = ", or a Conv before it and an output of the model after it, and one zero point"

Arrays = dict[str, NDArray[Any]]


def end_model(
    kind: str, integers: str, shape: tuple[int, ...], scales: NDArray[np.float32], zeros: NDArray[Any] | None,
    **attributes: int,
) -> onnx.ModelProto:  # fmt: skip
    """x → one QuantizeLinear or DequantizeLinear → y."""
    names = ["x", "scales"] + ([] if zeros is None else ["zeros"])
    node = helper.make_node(kind, names, ["y"], "node")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    element = helper.np_dtype_to_tensor_dtype(host_dtype(integers))
    constants = [numpy_helper.from_array(scales, "scales")]
    constants += [] if zeros is None else [numpy_helper.from_array(zeros.astype(host_dtype(integers)), "zeros")]
    types = (TensorProto.FLOAT, element) if kind == "QuantizeLinear" else (element, TensorProto.FLOAT)
    x, y = (
        helper.make_tensor_value_info(name, element_type, shape) for name, element_type in zip("xy", types, strict=True)
    )
    graph = helper.make_graph([node], "end", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def random_end(rng: Generator, kind: str, integers: str, grain: str) -> tuple[onnx.ModelProto, Arrays]:
    """A model and its input, some of which saturates."""
    rank = int(rng.integers(2, 5))
    shape = tuple(int(size) for size in rng.integers(2, 6, rank)) if rank > 2 else (3, int(rng.integers(2, 40)))
    many, block, axis = GRAINS[grain]
    counts: tuple[int, ...] = () if not many else (shape[axis],)
    if many == 2:
        counts = tuple(-(-size // block) if dimension == axis else size for dimension, size in enumerate(shape))
    limits = parse_integer_type(integers).interval
    scales = np.asarray(rng.uniform(0.05, 3, counts), np.float32)
    zeros = np.asarray(rng.integers(limits.low, limits.high + 1, counts))
    attributes = ({"axis": axis} if many else {}) | ({"block_size": block} if block else {})
    model = end_model(kind, integers, shape, scales, zeros, **attributes)
    if kind == "QuantizeLinear":
        return model, {"x": rng.normal(0, 1.5 * (limits.high - limits.low), shape).astype(np.float32)}
    return model, {"x": rng.integers(limits.low, limits.high + 1, shape).astype(host_dtype(integers))}


def expected_end(model: onnx.ModelProto, inputs: Arrays) -> NDArray[Any]:
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    return np.asarray(expected)


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("integers", TYPES)
@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_an_end_is_what_onnx_says(kind: str, integers: str, grain: str) -> None:
    rng = np.random.default_rng([len(kind), TYPES.index(integers), list(GRAINS).index(grain)])
    model, inputs = random_end(rng, kind, integers, grain)
    expected = expected_end(model, inputs)
    result = simulated(compile_model(model, base16()), inputs)["y"]
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("integers", ["uint4", "int16"])
@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_every_level_has_the_same(kind: str, integers: str) -> None:
    model, inputs = random_end(np.random.default_rng(3), kind, integers, "channels")
    expected = expected_end(model, inputs)
    program = compile_model(model, base16())
    bases = place_regions(program.limits)
    dram = interpret(program, dram_image(program, inputs), bases).dram
    imported = import_onnx(model.SerializeToString())
    for result in (
        run_graph(imported, inputs), run_graph(simplified(model), inputs), run_nests(lowered(model), inputs),
        read_outputs(program, dram),
    ):  # fmt: skip
        assert np.array_equal(result["y"], expected)


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("integers", ["uint4", "int16", "uint8"])
def test_texts_come_back(integers: str, grain: str) -> None:
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        model, _ = random_end(np.random.default_rng(8), kind, integers, grain)
        graph, nests = simplified(model), lowered(model)
        assert parse_graph(print_graph(graph)) == graph
        assert parse_nests(print_nests(nests)) == nests


def test_blocks_as_mlir_writes_them() -> None:
    tensor_type = TensorType("uint4", (2, 3), Quantization((1.0, 2.0, 0.5, 4.0), (0, 1, 2, 3), axis=1, block=2))
    text = "tensor<2x3x!quant.uniform<u4:f32:{0:1, 1:2}, {{1.0:0, 2.0:1}, {0.5:2, 4.0:3}}>>"
    assert print_type(tensor_type) == text
    assert parse_type(text) == tensor_type


FEW = ("base16", "dw16", "sequence16", "tiny8")
"""Machines of the fast ring."""


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
        for name in shipped_machines()
        if name != "w4-only"
    ],
)
def test_every_machine_with_a_memory_of_them_moves_wide_integers(machine: str) -> None:
    model, inputs = random_end(np.random.default_rng(5), "DequantizeLinear", "uint16", "channels")
    expected = expected_end(model, inputs)
    assert np.array_equal(simulated(compile_model(model, load_machine(machine)), inputs)["y"], expected)


def test_int32_is_dequantised_exactly_as_far_as_float32_goes() -> None:
    model = end_model("DequantizeLinear", "int32", (1, 3), np.array([0.5, 0.1, 3], np.float32), None)
    x = np.array([[2**31 - 1, -(2**31), 123_456_789]], np.int32)
    expected = expected_end(model, {"x": x})
    assert np.array_equal(simulated(compile_model(model, base16()), {"x": x})["y"], expected)


def test_both_ends_of_a_model_and_names_between() -> None:
    """x → Identity → quantise → dequantise → Identity → y, and the integers are an output too."""
    builder = ModelBuilder(np.random.default_rng(0))
    scale = builder.constant("s", np.array([0.5, 0.3, 2], np.float32))
    zero = builder.constant("z", np.array([0, 70, 255], np.uint8))
    x = builder.node("Identity", [builder.input("x", [2, 3])])
    integers = builder.node("QuantizeLinear", [x, scale, zero])
    real = builder.node("DequantizeLinear", [integers, scale, zero])
    builder.output(builder.node("Identity", [real]))
    builder.output(integers, "integers", TensorProto.UINT8)
    model = builder.build()
    model.opset_import[0].version, model.ir_version = 23, 11
    inputs = {"x": np.random.default_rng(1).normal(0, 40, (2, 3)).astype(np.float32)}
    expected = dict(zip(("result", "integers"), ReferenceEvaluator(model).run(None, inputs), strict=True))
    for name, result in simulated(compile_model(model, base16()), inputs).items():
        assert np.array_equal(result, expected[name])


# -- what is only at an end --------------------------------------------------------------------------------------------


def inner_model(integers: str, count: int, after: str = "Relu", **attributes: int) -> onnx.ModelProto:
    """x → quantise → dequantise → an operator → y, with `count` scales."""
    builder = ModelBuilder(np.random.default_rng(0), activation=host_dtype(integers).type)
    scale = builder.constant("s", np.linspace(0.5, 1, count, dtype=np.float32))
    zero = builder.constant("z", np.zeros(count, host_dtype(integers)))
    x = builder.node("QuantizeLinear", [builder.input("x", [2, 4]), scale, zero], name="q", **attributes)
    real = builder.node("DequantizeLinear", [x, scale, zero], name="dq", **attributes)
    builder.output(builder.node(after, [real], name="after"))
    model = builder.build()
    model.opset_import[0].version, model.ir_version = 23, 11
    return model


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (inner_model("int8", 4), f"an activation has a scale for each channel; expected one scale{CHANNELS}"),
        (inner_model("int4", 1), f"an activation is int4; expected {COMPUTED_NAMES}{OTHERS}"),
    ],
)
def test_operators_take_int8_of_one_scale(model: onnx.ModelProto, why: str) -> None:
    with pytest.raises(CompileError) as caught:
        simplified(model)
    assert str(caught.value) == f"node 'dq' (DequantizeLinear): {why}"


def test_operators_take_sixteen_bits_where_the_machine_does() -> None:
    model = inner_model("int16", 1)
    simplified(model)
    compile_model(model, load_machine("base16-a16"))
    with pytest.raises(CompileError, match="an activation is int16; expected int8 or uint8. take a machine"):
        compile_model(model, base16())


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("y = QuantizeLinear <axis = 1, output_dtype = 3> (r, scales)",
         f"an activation has a scale for each channel; expected one scale{CHANNELS}"),
        ("y = QuantizeLinear <output_dtype = 22> (r, one)",
         f"an activation is int4; expected {COMPUTED_NAMES}{OTHERS}"),
    ],
)  # fmt: skip
def test_what_operators_make_is_int8_of_one_scale(node: str, why: str) -> None:
    element = "int4" if "22" in node else "int8"
    model = onnx.parser.parse_model(
        f'<ir_version: 11, opset_import: ["" : 23]> g (int8[2, 2] x) => ({element}[2, 2] y)'
        "<float[2] scales = {0.5, 0.25}, float one = {0.5}>"
        f"{{ d = DequantizeLinear(x, one) r = Relu(d) [node] {node} }}"
    )
    with pytest.raises(CompileError) as caught:
        simplified(model)
    assert str(caught.value) == f"node 'node' (QuantizeLinear): {why}"


def test_sums_are_not_dequantised_with_another_scale() -> None:
    """The int32 sums of MatMulInteger have the scale of its operand, not that of a DequantizeLinear after it."""
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (int8[2, 2] x) => (float[2, 2] y)'
        "<int8[2, 2] w = {1, 2, 3, 4}, float s = {0.5}>"
        "{ m = MatMulInteger(x, w) [dq] y = DequantizeLinear(m, s) }"
    )
    with pytest.raises(CompileError, match=r"^node 'dq' \(DequantizeLinear\): an activation is int32; expected int8"):
        simplified(model)


def test_integers_of_channels_go_nowhere_else() -> None:
    """A Reshape of them would need scales of another shape."""
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (int8[2, 2] x) => (float[2, 2] y, int8[4] z)'
        "<float[2] s = {0.5, 0.25}, int64[1] shape = {4}>"
        "{ [dq] y = DequantizeLinear(x, s) z = Reshape(x, shape) }"
    )
    with pytest.raises(CompileError, match=r"^node 'dq' \(DequantizeLinear\): an activation has a scale for each"):
        simplified(model)


# -- channels of a convolution -----------------------------------------------------------------------------------------


def conv_model(
    limits: tuple[float, float] | None, scales: list[float], zeros: list[int], is_real: bool, activation: type = np.int8
) -> onnx.ModelProto:
    """x → Conv → Clip → QuantizeLinear with a scale for each channel → DequantizeLinear, if `is_real`."""
    builder = ModelBuilder(np.random.default_rng(0), activation=activation)
    x = builder.quantize(builder.input("x", [2, 3, 6, 6]), 0.05)
    weights, _ = builder.weights("w", [len(scales), 3, 3, 3])
    y = builder.node("Conv", [x, weights], name="conv", pads=[1, 1, 1, 1])
    if limits is not None:
        ends = [builder.constant(name, np.float32(value)) for name, value in zip("ab", limits, strict=True)]
        y = builder.node("Clip", [y, *ends], name="clip")
    scale = builder.constant("s", np.array(scales, np.float32))
    zero = builder.constant("z", np.array(zeros, activation))
    q = builder.node("QuantizeLinear", [y, scale, zero], name="q")
    if is_real:
        builder.output(builder.node("DequantizeLinear", [q, scale, zero], name="dq"))
    else:
        builder.output(q, element=helper.np_dtype_to_tensor_dtype(np.dtype(activation)))
    return builder.build()


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("is_real", [True, False])
@pytest.mark.parametrize("limits", [None, (0.0, np.inf), (-0.0001, 1e9)])
def test_a_convolution_may_end_in_channels(limits: tuple[float, float] | None, is_real: bool, activation: type) -> None:
    scales = [0.02, 0.05, 0.1, 0.013, 0.2]
    model = conv_model(limits, scales, [7] * 5, is_real, activation)
    inputs = {"x": np.random.default_rng(1).normal(0, 3, (2, 3, 6, 6)).astype(np.float32)}
    expected = run_onnx(model, inputs)["result"]
    result = simulated(compile_model(model, base16()), inputs)["result"]
    assert result.dtype == expected.dtype
    of_channels = np.array(scales).reshape(1, 5, 1, 1) if is_real else 1
    apart = np.rint((result.astype(np.float64) - expected) / of_channels)
    assert np.abs(apart).max() <= 1
    assert np.mean(apart == 0) > 0.99
    assert len(np.unique(result)) > 20


@pytest.mark.parametrize(
    "model",
    [
        conv_model(None, [0.02, 0.05], [7, 8], True),
        conv_model((0.0, 6.0), [0.5, 0.05], [7, 7], True),  # 12 steps in one channel, 120 in the other
    ],
)
def test_channels_that_one_requantisation_cannot_make_are_refused(model: onnx.ModelProto) -> None:
    with pytest.raises(CompileError, match=r"^node 'q' \(QuantizeLinear\): an activation has a scale for each channel"):
        simplified(model)


# -- constants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integers", ["int4", "uint4", "int2", "uint2"])
def test_weights_of_fewer_bits_are_those_of_int8(integers: str) -> None:
    rng, limits = np.random.default_rng(2), parse_integer_type(integers).interval
    values = rng.integers(limits.low, limits.high + 1, (8, 5))

    def model(element_type: str) -> onnx.ModelProto:
        builder = ModelBuilder(np.random.default_rng(0))
        x = builder.quantize(builder.input("x", [3, 8]), 0.1, 3)
        scale, zero = (
            builder.constant("ws", np.float32(0.3)),
            builder.constant("wz", np.array(1, host_dtype(element_type))),
        )
        weights = builder.constant("w", values.astype(host_dtype(element_type)))
        w = builder.node("DequantizeLinear", [weights, scale, zero])
        builder.output(builder.quantize(builder.node("MatMul", [x, w]), 0.2, -4))
        built = builder.build()
        built.opset_import[0].version, built.ir_version = 25, 13
        return built

    narrow, plain = (compile_model(model(element_type), base16()) for element_type in (integers, "int8"))
    inputs = {"x": rng.normal(0, 5, (3, 8)).astype(np.float32)}
    assert np.array_equal(simulated(narrow, inputs)["result"], simulated(plain, inputs)["result"])
    assert "conv" in kinds(simplified(model(integers)))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            end_model("DequantizeLinear", "int8", (2, 2), np.array([1, 0], np.float32), None),
            DamagedModel,
            "node 'node' (DequantizeLinear): its scale is 0.0; expected a positive number",
        ),
        (
            end_model("QuantizeLinear", "int8", (2, 3), np.array([1, 2], np.float32), np.array([0, 0])),
            DamagedModel,
            "node 'node' (QuantizeLinear): scales [2] for [2, 3]; expected one number, or a list of 3",
        ),
        (
            end_model("DequantizeLinear", "int8", (2, 4), np.array([[1, 2]], np.float32), None, block_size=2),
            DamagedModel,
            "node 'node' (DequantizeLinear): scales [1, 2] for blocks of 2 in [2, 4]; expected [2, 2]",
        ),
        (
            end_model("QuantizeLinear", "int8", (2, 2), np.array(1, np.float32), np.array(0), precision=10),
            CompileError,
            "node 'node' (QuantizeLinear): precision = 10 has no lowering; expected 0 or 1",
        ),
        (
            end_model("DequantizeLinear", "float8_e4m3fnuz", (2, 2), np.array(1, np.float32), None),
            CompileError,
            "node 'node' (DequantizeLinear): dequantises float8_e4m3fnuz; "
            "expected integers, float8_e4m3fn, float4_e2m1fn or float8_e5m2",
        ),
    ],
)
def test_says_what_is_wrong(model: onnx.ModelProto, error: type[CompileError], message: str) -> None:
    with pytest.raises(error) as caught:
        simplified(model)
    assert str(caught.value) == message
