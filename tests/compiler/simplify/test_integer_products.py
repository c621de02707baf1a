"""ConvInteger and MatMulInteger: every sum as numpy computes it in int64, and as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests.compiler.machines import machine, without
from tests.compiler.models import IR_VERSION, OPSET, run_onnx
from tests.compiler.pipelines import lowered, simplified, simulated
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.options import Options
from tilewright.compiler.partition.faults import find_faults
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.binary.elf import load, save
from tilewright.isa.machine.machine import Machine

MACHINES = ("base16", "array 4x12")
ELEMENT = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT}


def model_of(op_type: str, x: NDArray[Any], constants: Sequence[Any], **attributes: Any) -> onnx.ModelProto:
    """One node: `x` is the model's input, the other operands are constants or left out."""
    names = ["x", *("" if value is None else f"c{place}" for place, value in enumerate(constants))]
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    inputs = [helper.make_tensor_value_info("x", ELEMENT[x.dtype.name], x.shape)]
    given = [numpy_helper.from_array(np.asarray(v), f"c{place}") for place, v in enumerate(constants) if v is not None]
    return finished([node], inputs, ["y"], given)


def finished(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto], element: int = TensorProto.INT32,
) -> onnx.ModelProto:  # fmt: skip
    results = [helper.make_tensor_value_info(name, element, None) for name in outputs]
    graph = helper.make_graph(nodes, "model", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def integers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Values of the whole type, many of them its least and greatest."""
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max + 1, size=tuple(shape))
    return np.where(rng.random(values.shape) < 0.3, rng.choice([limits.min, limits.max], values.shape), values).astype(
        dtype
    )


def zero_point(rng: np.random.Generator, dtype: str, count: int | None = None) -> NDArray[Any]:
    """One zero point, or `count`: often a limit of the type."""
    return integers(rng, dtype, () if count is None else (count,))


def convolved(
    x: NDArray[Any], w: NDArray[Any], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], group: int
) -> NDArray[np.int64]:
    """Convolution of centred int64 arrays, written out."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    outputs, inputs, height, width = w.shape
    rows = (padded.shape[2] - (height - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (padded.shape[3] - (width - 1) * dilations[1] - 1) // strides[1] + 1
    result = np.zeros((x.shape[0], outputs, rows, columns), np.int64)
    for o in range(outputs):
        first = o // (outputs // group) * inputs
        for i in range(inputs):
            for r in range(height):
                for s in range(width):
                    down = slice(r * dilations[0], r * dilations[0] + (rows - 1) * strides[0] + 1, strides[0])
                    along = slice(s * dilations[1], s * dilations[1] + (columns - 1) * strides[1] + 1, strides[1])
                    result[:, o] += padded[:, first + i, down, along] * w[o, i, r, s]
    return result


def assert_everywhere(model: onnx.ModelProto, x: NDArray[Any], expected: NDArray[np.int64], on: Machine) -> None:
    """Nests, the simulated program and ONNX Runtime all give these integers."""
    program = compile_model(model, on)
    outputs = {
        "nests": run_nests(lowered(model), {"x": x})["y"],
        "program": simulated(program, {"x": x})["y"],
        "ONNX Runtime": run_onnx(model, {"x": x})["y"],
    }
    for name, output in outputs.items():
        assert output.dtype == np.int32, name
        np.testing.assert_array_equal(output, expected, err_msg=name)


def random_convolution(seed: int, on: Machine) -> None:
    rng = np.random.default_rng(seed)
    group = int(rng.choice([1, 1, 2, 5]))
    inputs, outputs = group * int(rng.integers(1, 12)), group * int(rng.integers(1, 12))
    kernel, strides, dilations = rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(1, 3, 2)
    pads = [int(pad) for pad in rng.integers(0, 3, 4)]
    size = (kernel - 1) * dilations + rng.integers(1, 7, 2)
    x_type, w_type = "uint8" if rng.random() < 0.7 else "int8", "int8"
    x = integers(rng, x_type, (int(rng.integers(1, 3)), inputs, *size))
    w = integers(rng, w_type, (outputs, inputs // group, *kernel))
    x_zero = zero_point(rng, x_type) if rng.random() < 0.8 else None
    model = model_of(
        "ConvInteger", x, [w, x_zero], strides=strides.tolist(), pads=pads, dilations=dilations.tolist(), group=group
    )
    centred = x.astype(np.int64) - (0 if x_zero is None else int(x_zero))
    expected = convolved(centred, w.astype(np.int64), strides.tolist(), pads, dilations.tolist(), group)
    assert_everywhere(model, x, expected, on)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(6))
def test_convolutions_are_exact(seed: int, name: str) -> None:
    random_convolution(seed, machine(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["array 32x16, lanes 8", "array 8x24, lanes 8", "small memories", "rect"])
@pytest.mark.parametrize("seed", range(100, 112))
def test_many_convolutions_are_exact(seed: int, name: str) -> None:
    random_convolution(seed, machine(name))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("w_type", ["int8", "uint8"])
@pytest.mark.parametrize("is_per_column", [False, True])
@pytest.mark.parametrize("rows", [(7,), (2, 3)])
def test_matrix_products_are_exact(rows: Sequence[int], is_per_column: bool, w_type: str, name: str) -> None:
    rng = np.random.default_rng(len(rows))
    x, w = integers(rng, "uint8", (*rows, 37)), integers(rng, w_type, (37, 21))
    x_zero, w_zero = zero_point(rng, "uint8"), zero_point(rng, w_type, 21 if is_per_column else None)
    model = model_of("MatMulInteger", x, [w, x_zero, w_zero])
    expected = (x.astype(np.int64) - int(x_zero)) @ (w.astype(np.int64) - w_zero.astype(np.int64))
    assert_everywhere(model, x, expected, machine(name))


@pytest.mark.parametrize("zeros", [(0, 255), (255, 0), (255, 255)])
def test_zero_points_at_the_ends(zeros: tuple[int, int]) -> None:
    x, w = np.array([[0, 255, 0], [255, 255, 255]], np.uint8), np.array([[255, 0], [255, 0], [0, 255]], np.uint8)
    model = model_of("MatMulInteger", x, [w, np.uint8(zeros[0]), np.uint8(zeros[1])])
    assert_everywhere(model, x, (x.astype(np.int64) - zeros[0]) @ (w.astype(np.int64) - zeros[1]), machine("base16"))


def test_a_product_for_each_of_the_batch() -> None:
    rng = np.random.default_rng(5)
    x, w = integers(rng, "uint8", (3, 4, 20)), integers(rng, "int8", (3, 20, 7))
    model = model_of("MatMulInteger", x, [w, np.uint8(131)])
    assert_everywhere(model, x, (x.astype(np.int64) - 131) @ w.astype(np.int64), machine("base16"))


def test_pads_what_comes_from_dram() -> None:
    """The padding is written where the input lies, which is not where the sums do."""
    rng = np.random.default_rng(6)
    x, w = integers(rng, "uint8", (1, 20, 9, 9)), integers(rng, "int8", (5, 20, 3, 3))
    model = model_of("ConvInteger", x, [w, np.uint8(77)], pads=[1, 1, 1, 1])
    expected = convolved(x.astype(np.int64) - 77, w.astype(np.int64), (1, 1), (1, 1, 1, 1), (1, 1), 1)
    options = Options(tiling=TilingOptions(residency="none"))
    for name in ("base16", "array 32x16, lanes 8"):
        outputs = simulated(compile_model(model, machine(name), options), {"x": x})
        np.testing.assert_array_equal(outputs["y"], expected)


def test_without_a_bias_nothing_is_added() -> None:
    x, w = np.ones((1, 20, 3, 3), np.int8), np.ones((5, 20, 1, 1), np.int8)
    program = compile_model(model_of("ConvInteger", x, [w]), without(machine("base16"), "add_bias"))
    assert np.all(simulated(program, {"x": x})["y"] == 20)


def test_the_file_keeps_the_type(tmp_path: Path) -> None:
    x, w = np.full((2, 9), 7, np.uint8), np.full((9, 3), 2, np.int8)
    program = compile_model(model_of("MatMulInteger", x, [w, np.uint8(3)]), machine("base16"))
    save(program, tmp_path / "sums.npu")
    again = load(tmp_path / "sums.npu", machine("base16"))
    assert again.outputs == program.outputs
    assert [(tensor.dtype, tensor.bytes) for tensor in again.outputs] == [("int32", 2 * 16 * 4)]


def test_one_result_under_two_names() -> None:
    x, w = np.full((2, 9), 7, np.uint8), numpy_helper.from_array(np.full((9, 3), 2, np.int8), "w")
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
    model = finished(nodes, [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)], ["y", "z"], [w])
    outputs = simulated(compile_model(model, machine("base16")), {"x": x})
    assert np.all(outputs["y"] == 126)
    assert np.all(outputs["z"] == 126)


def test_the_host_goes_on_with_the_sums() -> None:
    """QuantizeLinear → ConvInteger → Cast → Mul, and an int8 layer before: the machine's part ends with int32."""
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(1, 6, 7, 7)).astype(np.float32), integers(rng, "int8", (9, 6, 3, 3))
    constants = {"w": w, "scale": np.float32(0.02), "zero": np.uint8(120), "unit": np.float32(0.0003)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("ConvInteger", ["q", "w", "zero"], ["sums"], name="product", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "unit"], ["y"]),
    ]
    model = finished(
        nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], ["y"],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()], TensorProto.FLOAT,
    )  # fmt: skip
    program = tilewright.compile(model, "base16")
    assert {node.op_type for node in program.host_nodes} == {"Cast", "Mul"}
    np.testing.assert_array_equal(program.run({"x": x}).outputs["y"], run_onnx(model, {"x": x})["y"])


def test_sums_read_on_the_machine_are_the_hosts() -> None:
    """A Reshape of the sums goes with them; a MaxPool of int32 has no instruction, and says so."""
    x, w = np.full((1, 9, 4, 4), 7, np.uint8), np.full((3, 9, 1, 1), 2, np.int8)
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["sums"], name="product"),
        helper.make_node("Slice", ["sums", "one", "two", "axis"], ["y"], name="cut"),
    ]
    ends = [numpy_helper.from_array(np.array([k]), name) for name, k in (("one", 1), ("two", 2), ("axis", 1))]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    model = finished(nodes, inputs, ["y"], [numpy_helper.from_array(w, "w"), *ends])
    faults = find_faults(model, machine("base16"))
    assert {name: str(error) for name, error in faults.items()} == {
        "cut": "node 'cut' (take): its operand 'sums' is int32; expected int8, uint8, int16 or uint16, "
        "behind QuantizeLinear"
    }
    assert np.all(tilewright.compile(model, "base16").run({"x": x}).outputs["y"] == 126)


# -- what is refused ---------------------------------------------------------------------------------------------------

X = np.zeros((2, 100_000), np.uint8)
W = np.full((100_000, 3), 100, np.int8)


def refusal(model: onnx.ModelProto, on: Machine) -> str:
    with pytest.raises(CompileError) as caught:
        compile_model(model, on)
    return str(caught.value)


def test_refuses_sums_that_int32_cannot_hold() -> None:
    model = model_of("MatMulInteger", X, [W])
    assert refusal(model, machine("base16")) == (
        "node 'node' (conv): its sums may reach -1280000000 to 2550000000; expected -2147483648 to 2147483647, all "
        "that int32 holds"
    )


def test_refuses_a_machine_that_cannot_add_the_bias() -> None:
    model = model_of("MatMulInteger", X[:, :9], [W[:9], np.uint8(3)])
    assert refusal(model, without(machine("base16"), "add_bias")) == (
        "node (MatMulInteger): no instruction of base16 computes `acc + bias`; add one to the machine's instructions"
    )


def test_refuses_a_zero_point_for_each_row() -> None:
    model = model_of("MatMulInteger", X[:, :9], [W[:9], np.array([3, 4], np.uint8)])
    assert refusal(model, machine("base16")) == (
        "node 'node' (MatMulInteger): 2 zero points for its input; expected one"
    )


@pytest.mark.parametrize(
    ("computed", "message"),
    [
        ("zero", "node 'node' (MatMulInteger): the zero point of its input is computed; expected a constant"),
        (
            "w",
            "node 'node' (MatMulInteger): MatMulInteger of these operands ([2, 9], [9, 3], []) has no lowering; "
            "expected constant weights for products, and equal shapes or one number for each channel otherwise",
        ),
    ],
)
def test_refuses_what_is_computed(computed: str, message: str) -> None:
    values = {"x": X[:, :9], "w": W[:9], "zero": np.array(3, np.uint8)}
    inputs = [
        helper.make_tensor_value_info(name, ELEMENT[values[name].dtype.name], values[name].shape)
        for name in ("x", computed)
    ]
    constants = [numpy_helper.from_array(values[name], name) for name in ("w", "zero") if name != computed]
    node = helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"], name="node")
    assert refusal(finished([node], inputs, ["y"], constants), machine("base16")) == message


def test_refuses_another_zero_point_than_the_input_was_made_with() -> None:
    constants = {"w": W[:9], "scale": np.float32(0.1), "made": np.uint8(4), "read": np.uint8(3)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "made"], ["q"], name="q"),
        helper.make_node("MatMulInteger", ["q", "w", "read"], ["y"], name="node"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 9))]
    given = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    assert refusal(finished(nodes, inputs, ["y"], given), machine("base16")) == (
        "node 'node' (MatMulInteger): the zero point of its input is 3, 'q' is made with [4]; expected the same"
    )


def test_becomes_one_convolution() -> None:
    model = model_of("ConvInteger", np.zeros((1, 2, 4, 4), np.uint8), [np.ones((3, 2, 1, 1), np.int8)])
    assert kinds(simplified(model)) == ["conv"]
