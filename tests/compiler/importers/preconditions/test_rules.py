"""What ONNX forbids is refused with the node and what is expected; ONNX Runtime refuses each of these models too."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.compiler.models import random_inputs, run_onnx
from tilewright.compiler.errors import DamagedModel
from tilewright.compiler.importers.import_onnx import import_onnx

IMAGE = (1, 8, 6, 6)
FLOAT = np.float32


def model(operator: str, *operands: Any, results: int = 1, **attributes: Any) -> onnx.ModelProto:
    """One node; an operand is the shape of an input, or a constant array."""
    inputs, constants, names = [], [], []
    for position, operand in enumerate(operands):
        names.append("" if operand is None else f"x{position}")
        if isinstance(operand, np.ndarray):
            constants.append(numpy_helper.from_array(operand, names[-1]))
        elif operand is not None:
            inputs.append(helper.make_tensor_value_info(names[-1], onnx.TensorProto.FLOAT, operand))
    outputs = [f"y{position}" for position in range(results)]
    node = helper.make_node(operator, names, outputs, "node", **attributes)
    graph = helper.make_graph([node], "model", inputs, [], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inferred = {value.name: value for value in onnx.shape_inference.infer_shapes(made, data_prop=True).graph.value_info}
    made.graph.output.extend(
        inferred.get(name, helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1])) for name in outputs
    )
    return made


def weights(*shape: int) -> Any:
    return np.ones(shape, FLOAT)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def integers(operator: str, x: Any, w: Any, x_zero: Any, w_zero: Any) -> onnx.ModelProto:
    """A product of int8 operands with zero points of these shapes."""
    made = model(operator, x, *(np.ones(shape, np.int8) for shape in (w, x_zero, w_zero)))
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    return made


SPLIT_IN_5 = "2 elements in 5 equal parts; expected at most as many parts as fit"
MEETS_THE_IMAGE = "expected less than the kernel, so that every window meets the image"

WRONG = [
    (
        model("Conv", (1, 16, 6, 6), weights(4, 16, 1, 1), group=2),
        "16 channels, the weights are [4, 16, 1, 1] and group = 2; expected as many channels as weights × group",
    ),
    (
        model("Conv", IMAGE, weights(16, 16, 1, 1)),
        "8 channels, the weights are [16, 16, 1, 1] and group = 1; expected as many channels as weights × group",
    ),
    (model("Conv", IMAGE, weights(4, 8, 1, 1), group=0), "group = 0; expected a positive number"),
    (model("Conv", IMAGE, weights(4, 8, 1, 1), group=-1), "group = -1; expected a positive number"),
    (
        model("Conv", IMAGE, weights(4, 8, 1, 1), group=2**40),
        f"8 channels, the weights are [4, 8, 1, 1] and group = {2**40}; expected as many channels as weights × group",
    ),
    (
        model("Conv", (1, 9, 6, 6), weights(4, 3, 1, 1), group=3),
        "4 results in group = 3; expected a group that divides them",
    ),
    (model("Conv", IMAGE, weights(4, 8, 1, 1), weights(5)), "a bias of shape [5]; expected [4]"),
    (
        model("Conv", IMAGE, weights(4, 8, 3, 3), kernel_shape=[1, 1]),
        "kernel_shape = [1, 1], the weights have [3, 3]; expected the same numbers",
    ),
    (
        model("ConvTranspose", IMAGE, weights(4, 8, 2, 2)),
        "8 channels, the weights are [4, 8, 2, 2]; expected [8, …]",
    ),
    (
        model("MaxPool", IMAGE, kernel_shape=[2, 2], pads=[2, 2, 2, 2]),
        f"pads = [2, 2, 2, 2] around a kernel of [2, 2]; {MEETS_THE_IMAGE}",
    ),
    (model("Transpose", (1, 1, 8, 6, 6), perm=[0, 2, 3, 1]), "perm = [0, 2, 3, 1]; expected each of 0 to 4 once"),
    (model("Split", (1, 2, 6, 6), axis=1, num_outputs=5, results=5), SPLIT_IN_5),
    (model("Split", IMAGE, ints(-1, 9), axis=1, results=2), "sizes [-1, 9]; expected no negative size"),
    (
        model("Pad", IMAGE, ints(0, 0, -4, 0, 0, 0, -4, 0)),
        "paddings -4 and -4 of 6 elements; expected to leave some",
    ),
    (model("Pad", IMAGE, ints(0, 0, 1, 1, 0, 0, 1, 1), weights(0)), "0 values to pad with; expected one"),
    (model("Pad", IMAGE, ints(0, 0, 6, 0, 0, 0, 0, 0), mode="reflect"), "reflects 6 of 6 elements; expected fewer"),
    (model("Reshape", IMAGE, ints(1, 7, 6, 6)), "[1, 8, 6, 6] as [1, 7, 6, 6]; expected as many elements"),
    (
        model("Slice", IMAGE, ints(1), ints(3), ints(2), np.array([[1]])),
        "steps of shape [1, 1] beside starts of [1]; expected lists of one length",
    ),
    (
        model("Slice", IMAGE, ints(1), np.array(3), ints(2)),
        "ends of shape [] beside starts of [1]; expected lists of one length",
    ),
    (model("Clip", IMAGE, weights(2)), "min of shape [2]; expected a single number"),
    (
        model("Gemm", (3, 4), weights(4, 6), weights(5)),
        "C of shape [5]; expected a shape that broadcasts to [3, 6]",
    ),
    (
        model("PRelu", IMAGE, weights(3)),
        "a slope of shape [3] for [1, 8, 6, 6]; expected a shape that broadcasts to the operand's",
    ),
    (
        model("Resize", IMAGE, None, np.array([1, 1, 0, 2], FLOAT)),
        "scales [1.0, 1.0, 0.0, 2.0]; expected positive numbers",
    ),
    (
        model("SpaceToDepth", (1, 6, 2, 3), blocksize=2),
        "blocks of 2 in [1, 6, 2, 3]; expected [N, C, H, W] of whole blocks",
    ),
    (model("GlobalAveragePool", (1, 8)), "an operand of shape [1, 8]; expected [N, C, …]"),
    (
        model("SpaceToDepth", (1, 6, 3, 2), blocksize=2),
        "blocks of 2 in [1, 6, 3, 2]; expected [N, C, H, W] of whole blocks",
    ),
    (
        model("AveragePool", IMAGE, kernel_shape=[9, 9]),
        "a result of shape [1, 8, -2, -2]; expected a window that fits the padded operand",
    ),
    (
        model("ConvTranspose", IMAGE, weights(8, 2, 2, 2), output_padding=[2, 2], strides=[2, 2]),
        "output_padding = [2, 2]; expected 0 to less than the stride or dilation",
    ),
    (model("Concat", IMAGE, IMAGE, axis=2**40), f"axis = {2**40}; expected -4 to 3"),
    (model("Flatten", IMAGE, axis=-(2**62)), f"axis = {-(2**62)}; expected -4 to 4"),
    (model("Gemm", (4, 8), weights(8, 5), transA=-(2**62)), f"transA = {-(2**62)}; expected 0 or 1"),
    (model("Gelu", IMAGE, approximate="erf"), "approximate = 'erf'; expected 'none' or 'tanh'"),
    (model("Gather", IMAGE, ints(8), axis=1), "indices 8 to 8; expected -8 to 7"),
    (
        model("DepthToSpace", (1, 6, 2, 2), blocksize=2),
        "blocks of 2 from [1, 6, 2, 2]; expected [N, C, H, W], C a multiple of 4",
    ),
    (
        model("QuantizeLinear", (5, 6), weights(1, 1)),
        "scales [1, 1] for [5, 6]; expected one number, or a list of 6",
    ),
    (
        model("QuantizeLinear", (5, 6), weights(5), axis=1),
        "scales [5] for [5, 6]; expected one number, or a list of 6",
    ),
    (
        model("QuantizeLinear", (5, 6), weights(5, 3), block_size=4),
        "scales [5, 3] for blocks of 4 in [5, 6]; expected [5, 2]",
    ),
    (
        model("QuantizeLinear", (5, 6), weights(6), np.zeros(1, np.int8)),
        "scales [6] and zero points [1]; expected the same shape of both",
    ),
    (model("QuantizeLinear", (5, 6), weights(6), axis=2), "axis = 2; expected -2 to 1"),
    (
        integers("ConvInteger", IMAGE, (4, 8, 1, 1), (0,), ()),
        "zero points [0] for x; expected one",
    ),
    (
        integers("ConvInteger", IMAGE, (4, 8, 1, 1), (), (3,)),
        "zero points [3] for w; expected one or [4]",
    ),
    (integers("MatMulInteger", (3, 4), (4, 6), (0,), ()), "zero points [0]; expected at least one"),
]

OF_NO_USE = [
    (model("MatMul", weights(0, 8), (8, 5)), "an operand of shape [0, 8]; expected sizes above 0"),
    (model("Gemm", (4, 8), weights(8, 0)), "an operand of shape [8, 0]; expected sizes above 0"),
    (model("Squeeze", (1, 8, 1, 1), ints()), "an empty list of axes; expected axes, or no second operand"),
    (
        model("AveragePool", IMAGE, kernel_shape=[2**31, 3], strides=[2**31, 2]),
        f"kernel_shape = [{2**31}, 3] over an operand of shape [1, 8, 6, 6]; expected a window that fits the padded "
        "operand",
    ),
    (model("LeakyRelu", IMAGE, alpha=float("inf")), "alpha = inf; expected a finite number"),
    (model("Gemm", (4, 8), weights(5, 8), transB=2**32 + 1), f"transB = {2**32 + 1}; expected 0 or 1"),
    (
        model("ReduceMax", IMAGE, ints(), noop_with_empty_axes=-(2**62)),
        f"noop_with_empty_axes = {-(2**62)}; expected 0 or 1",
    ),
]
"""What ONNX Runtime takes: no elements, factors that are not finite, flags of which it looks at some bits."""


@pytest.mark.parametrize(
    ("wrong", "message"), [*WRONG, *OF_NO_USE], ids=lambda value: value if isinstance(value, str) else ""
)
def test_refuses_what_onnx_forbids(wrong: onnx.ModelProto, message: str) -> None:
    operator = wrong.graph.node[0].op_type
    with pytest.raises(DamagedModel) as caught:
        import_onnx(wrong.SerializeToString())
    assert str(caught.value) == f"node 'node' ({operator}): {message}"
    assert caught.value.nodes == ("node",)


@pytest.mark.parametrize("wrong", [wrong for wrong, _ in WRONG], ids=[message for _, message in WRONG])
def test_onnx_runtime_refuses_it_too(wrong: onnx.ModelProto) -> None:
    onnxruntime.set_default_logger_severity(4)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        run_onnx(wrong, random_inputs(wrong, np.random.default_rng(0)))


def test_refuses_same_padding_of_a_dilated_pool() -> None:
    """ONNX's shape inference gives 3×3 results, ONNX Runtime 2×2."""
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [2, 2], "auto_pad": "SAME_UPPER"}
    with pytest.raises(DamagedModel) as caught:
        import_onnx(model("MaxPool", IMAGE, **pool).SerializeToString())
    assert str(caught.value) == (
        "node 'node' (MaxPool): auto_pad = 'SAME_UPPER' of a window with dilations = [2, 2]; expected pads, which all "
        "readers of ONNX understand alike"
    )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_refuses_padding_that_is_said_twice(auto_pad: str) -> None:
    """ONNX: pads "cannot be used simultaneously with auto_pad"; readers differ in which of them they take."""
    twice = model("Conv", IMAGE, weights(4, 8, 3, 3), auto_pad=auto_pad, pads=[0, 0, 0, 0])
    with pytest.raises(DamagedModel) as caught:
        import_onnx(twice.SerializeToString())
    assert str(caught.value) == (
        f"node 'node' (Conv): auto_pad = '{auto_pad}' and pads = [0, 0, 0, 0]; expected only one of them"
    )


@pytest.mark.parametrize(("taps", "is_right"), [(7, True), (8, False)])
def test_a_window_may_reach_as_far_beyond_the_end_as_it_moves(taps: int, is_right: bool) -> None:
    """With ceil_mode, a window of 7 over 6 elements that moves by 2 gives one result, as in ONNX Runtime."""
    pool = model("MaxPool", IMAGE, kernel_shape=[taps] * 2, strides=[2, 2], ceil_mode=1)
    if is_right:
        import_onnx(pool.SerializeToString())
        return
    with pytest.raises(DamagedModel, match="a window that fits the padded operand"):
        import_onnx(pool.SerializeToString())
