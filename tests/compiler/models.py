"""Small quantised ONNX models of one operator or a few, with random weights: what the compiler's tests compile.

Every model is in QDQ form, opset 17, IR 8: float32 input → QuantizeLinear → DequantizeLinear → operator(s) →
QuantizeLinear → DequantizeLinear → float32 output. Scales are chosen so that the outputs use most of their range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.host.products import with_exact_products

OPSET = 17
IR_VERSION = 8


class ModelBuilder:
    """Collects nodes and initialisers; tensors are passed around by name."""

    def __init__(self, rng: Generator, *, activation: type = np.int8) -> None:
        self.rng = rng
        self.activation = np.dtype(activation)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.count = 0

    def constant(self, name: str, value: Any) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op_type: str, inputs: Sequence[str], *, name: str = "", **attributes: Any) -> str:
        """Add a node with one output; returns that output's name, which is the node's name and `.out`."""
        self.count += 1
        name = name or f"{op_type.lower()}{self.count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [f"{name}.out"], name=name, **attributes))
        return f"{name}.out"

    def input(self, name: str, shape: Sequence[int], element: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, list(shape)))
        return name

    def output(self, tensor: str, name: str = "result", element: int = TensorProto.FLOAT) -> None:
        """Make a tensor the model's output, under the given name."""
        for node in self.nodes:
            for position, produced in enumerate(node.output):
                if produced == tensor:
                    node.output[position] = name
            for position, consumed in enumerate(node.input):
                if consumed == tensor:
                    node.input[position] = name
        self.outputs.append(helper.make_tensor_value_info(name, element, None))

    def random_zero(self) -> int:
        """A zero point of the activations' type, not at the ends."""
        zero = int(self.rng.integers(-100, 100))
        return zero if self.activation == np.int8 else zero + 128

    def quantize(self, tensor: str, scale: float, zero: int | None = None, name: str = "") -> str:
        """QuantizeLinear and DequantizeLinear of a float tensor; returns the dequantised tensor."""
        self.count += 1
        name = name or f"q{self.count}"
        zero = self.random_zero() if zero is None else zero
        s = self.constant(f"{name}.scale", np.float32(scale))
        z = self.constant(f"{name}.zero", np.array(zero, self.activation))
        quantized = self.node("QuantizeLinear", [tensor, s, z], name=f"{name}.quantize")
        return self.node("DequantizeLinear", [quantized, s, z], name=f"{name}.dequantize")

    def weights(self, name: str, shape: Sequence[int], *, axis: int = 0, per_channel: bool = True) -> tuple[str, float]:
        """Random symmetric int8 weights; returns the dequantised tensor and the largest scale."""
        values = self.rng.integers(-127, 128, size=tuple(shape)).astype(np.int8)
        counts = (shape[axis],) if per_channel else ()
        scales = np.asarray(self.rng.uniform(0.002, 0.02, size=counts), np.float32)
        zeros = np.zeros(counts, np.int8)
        inputs = [
            self.constant(f"{name}.weight", values),
            self.constant(f"{name}.weight_scale", scales),
            self.constant(f"{name}.weight_zero", zeros),
        ]
        attributes = {"axis": axis} if per_channel else {}
        return self.node("DequantizeLinear", inputs, name=f"{name}.weight_dq", **attributes), float(np.max(scales))

    def bias(self, name: str, count: int, scale: float, *, is_float: bool = False) -> str:
        """Random bias of the size of a few hundred products; int32 with a scale, or float."""
        values = self.rng.integers(-30000, 30000, size=count).astype(np.int32)
        if is_float:
            return self.constant(f"{name}.bias", values.astype(np.float32) * np.float32(scale))
        inputs = [
            self.constant(f"{name}.bias", values),
            self.constant(f"{name}.bias_scale", np.full(count, scale, np.float32)),
            self.constant(f"{name}.bias_zero", np.zeros(count, np.int32)),
        ]
        return self.node("DequantizeLinear", inputs, name=f"{name}.bias_dq", axis=0)

    def build(self, name: str = "model", opset: int = OPSET) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def pair(value: int | Sequence[int]) -> list[int]:
    """The two spatial sizes: one number stands for both."""
    return [value, value] if isinstance(value, int) else list(value)


def add_conv(
    builder: ModelBuilder,
    x: str,
    channels_in: int,
    channels_out: int,
    kernel: int | Sequence[int] = 3,
    *,
    stride: int | Sequence[int] = 1,
    pads: Sequence[int] | None = None,
    dilations: int | Sequence[int] = 1,
    group: int = 1,
    relu: bool = False,
    bias: str = "int32",
    per_channel: bool = True,
    scale_in: float = 0.05,
    scale_out: float = 0.05,
    name: str = "conv",
    **attributes: Any,
) -> str:
    """Conv (and Relu) on a dequantised tensor, quantised; `bias` is int32, float or none."""
    height, width = pair(kernel)
    shape = [channels_out, channels_in // group, height, width]
    weight, weight_scale = builder.weights(name, shape, per_channel=per_channel)
    inputs = [x, weight]
    if bias != "none":
        inputs.append(builder.bias(name, channels_out, scale_in * weight_scale, is_float=bias == "float"))
    if "auto_pad" not in attributes:
        attributes["pads"] = list(pads) if pads is not None else [0, 0, 0, 0]
    y = builder.node(
        "Conv", inputs, name=name, kernel_shape=[height, width], strides=pair(stride), dilations=pair(dilations),
        group=group, **attributes,
    )  # fmt: skip
    if relu:
        y = builder.node("Relu", [y], name=f"{name}.relu")
    terms = (channels_in // group) * height * width
    return builder.quantize(y, scale_out * weight_scale * 73 * 73 * terms**0.5 / 15, name=f"{name}.q")


def conv_model(
    rng: Generator,
    channels_in: int = 3,
    channels_out: int = 5,
    size: int | Sequence[int] = 8,
    kernel: int | Sequence[int] = 3,
    stride: int | Sequence[int] = 1,
    pads: Sequence[int] | None = None,
    dilations: int | Sequence[int] = 1,
    group: int = 1,
    relu: bool = False,
    bias: str = "int32",
    batch: int = 1,
    activation: type = np.int8,
    per_channel: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """One convolution; `size` is the input's height and width."""
    builder = ModelBuilder(rng, activation=activation)
    x = builder.quantize(builder.input("x", [batch, channels_in, *pair(size)]), 0.1, name="x.q")
    y = add_conv(
        builder, x, channels_in, channels_out, kernel, stride=stride, pads=pads, dilations=dilations, group=group,
        relu=relu, bias=bias, per_channel=per_channel, **attributes,
    )  # fmt: skip
    builder.output(y)
    return rescaled(builder.build("conv"))


def residual_model(
    rng: Generator,
    channels: int = 8,
    size: int | Sequence[int] = 6,
    relu: bool = True,
    activation: type = np.int8,
    scales: tuple[float, float, float] = (0.05, 0.031, 0.06),
) -> onnx.ModelProto:
    """conv(x) + x, and relu: an Add of two tensors with two scales (of x, of the convolution, of the sum)."""
    builder = ModelBuilder(rng, activation=activation)
    x = builder.quantize(builder.input("x", [1, channels, *pair(size)]), scales[0], name="x.q")
    weight, _ = builder.weights("conv", [channels, channels, 3, 3])
    conv = builder.node("Conv", [x, weight], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = builder.quantize(conv, scales[1] * 6, name="conv.q")
    total = builder.node("Add", [y, x], name="add")
    if relu:
        total = builder.node("Relu", [total], name="relu")
    builder.output(builder.quantize(total, scales[2] * 6, name="add.q"))
    return rescaled(builder.build("residual"))


def pool_model(
    rng: Generator,
    op_type: str = "MaxPool",
    channels: int = 5,
    size: int | Sequence[int] = 8,
    kernel: int | Sequence[int] = 2,
    stride: int | Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    same_scale: bool = True,
    relu: bool = False,
    activation: type = np.int8,
    **attributes: Any,
) -> onnx.ModelProto:
    """One MaxPool, AveragePool, GlobalAveragePool or GlobalMaxPool."""
    builder = ModelBuilder(rng, activation=activation)
    zero = builder.random_zero()
    x = builder.quantize(builder.input("x", [1, channels, *pair(size)]), 0.1, zero, name="x.q")
    if not op_type.startswith("Global"):
        attributes |= {"kernel_shape": pair(kernel), "strides": pair(kernel if stride is None else stride)}
        if "auto_pad" not in attributes:
            attributes["pads"] = list(pads) if pads is not None else [0, 0, 0, 0]
    y = builder.node(op_type, [x], name="pool", **attributes)
    if relu:
        y = builder.node("Relu", [y], name="relu")
    scale, zero_out = (0.1, zero) if same_scale else (0.083, zero // 2)
    builder.output(builder.quantize(y, scale, zero_out, name="y.q"))
    return builder.build("pool")


def gemm_model(
    rng: Generator,
    rows: int = 1,
    inputs: int = 20,
    outputs: int = 7,
    op_type: str = "Gemm",
    bias: str = "int32",
    relu: bool = False,
    activation: type = np.int8,
    **attributes: Any,
) -> onnx.ModelProto:
    """Gemm (transB unless said otherwise) or MatMul with constant weights on a [rows, inputs] matrix."""
    builder = ModelBuilder(rng, activation=activation)
    x = builder.quantize(builder.input("x", [rows, inputs]), 0.1, name="x.q")
    if op_type == "Gemm":
        attributes = {"transB": 1} | attributes
    is_transposed = bool(attributes.get("transB"))
    shape = [outputs, inputs] if is_transposed else [inputs, outputs]
    weight, weight_scale = builder.weights("gemm", shape, axis=0 if is_transposed else 1)
    operands = [x, weight]
    if op_type == "Gemm" and bias != "none":
        operands.append(builder.bias("gemm", outputs, 0.05 * weight_scale, is_float=bias == "float"))
    y = builder.node(op_type, operands, name="gemm", **attributes)
    if relu:
        y = builder.node("Relu", [y], name="relu")
    builder.output(builder.quantize(y, 0.05 * weight_scale * 73 * 73 * inputs**0.5 / 15, name="gemm.q"))
    return rescaled(builder.build("gemm"))


def flatten_gemm_model(
    rng: Generator,
    channels: int = 4,
    size: int = 3,
    outputs: int = 6,
    layout: str = "Flatten",
    activation: type = np.int8,
) -> onnx.ModelProto:
    """[1, C, H, W] through Flatten or Reshape into a Gemm: the same as a convolution with a kernel of H × W."""
    builder = ModelBuilder(rng, activation=activation)
    x = builder.quantize(builder.input("x", [1, channels, size, size]), 0.1, name="x.q")
    if layout == "Flatten":
        flat = builder.node("Flatten", [x], name="flatten", axis=1)
    else:
        flat = builder.node("Reshape", [x, builder.constant("shape", np.array([1, -1], np.int64))], name="reshape")
    weight, weight_scale = builder.weights("gemm", [outputs, channels * size * size])
    y = builder.node("Gemm", [flat, weight], name="gemm", transB=1)
    builder.output(builder.quantize(y, 0.05 * weight_scale * 73 * 73 * size, name="gemm.q"))
    return rescaled(builder.build("flatten_gemm"))


def small_cnn(
    rng: Generator, channels: int = 8, size: int = 8, classes: int = 10, activation: type = np.int8, batch: int = 1
) -> onnx.ModelProto:
    """conv, strided conv, residual block, max pool, global average, flatten, dense: one of everything."""
    builder = ModelBuilder(rng, activation=activation)
    wide = 2 * channels
    low = -128 if builder.activation == np.int8 else 0
    x = builder.quantize(builder.input("image", [batch, 1, size, size]), 0.05, name="image.q")
    x = add_conv(builder, x, 1, channels, 3, pads=[1, 1, 1, 1], relu=True, name="conv1")
    x = add_conv(builder, x, channels, wide, 3, stride=2, pads=[1, 1, 1, 1], relu=True, scale_in=0.05, name="conv2")
    y = add_conv(builder, x, wide, wide, 3, pads=[1, 1, 1, 1], relu=True, name="block.conv1")
    y = add_conv(builder, y, wide, wide, 3, pads=[1, 1, 1, 1], name="block.conv2")
    x = builder.node("Relu", [builder.node("Add", [y, x], name="block.add")], name="block.relu")
    scale = 900.0
    x = builder.quantize(x, scale, low, name="block.q")
    x = builder.quantize(builder.node("MaxPool", [x], name="maxpool", kernel_shape=[2, 2], strides=[2, 2]), scale, low)
    x = builder.quantize(builder.node("GlobalAveragePool", [x], name="average"), scale / 2, low, name="average.q")
    x = builder.node("Flatten", [x], name="flatten")
    weight, weight_scale = builder.weights("dense", [classes, wide])
    x = builder.node("Gemm", [x, weight, builder.bias("dense", classes, scale * weight_scale)], name="dense", transB=1)
    builder.output(builder.quantize(x, scale * weight_scale * 100, name="logits.q"), "logits")
    return rescaled(builder.build("small_cnn"))


def rescaled(model: onnx.ModelProto, count: int = 4) -> onnx.ModelProto:
    """The same model with each activation's scale and zero point set from what a few random inputs reach.

    As a quantiser calibrates: the range of each QuantizeLinear's input, zero included, over all of int8 or uint8.
    A pair that copies another's scale (around a max pool) is calibrated by itself.
    """
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    produced = {output for node in model.graph.node for output in node.output}
    quantizers = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] in produced]
    for node in quantizers:
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        probe.graph.output.append(helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None))
        reached = [run_onnx(probe, random_inputs(model, np.random.default_rng(i)))[node.input[0]] for i in range(count)]
        low, high = min(0.0, *(float(r.min()) for r in reached)), max(1e-6, *(float(r.max()) for r in reached))
        limits = np.iinfo(values[node.input[2]].dtype)
        scale = (high - low) / (limits.max - limits.min)
        values[node.input[1]] = np.array(scale, np.float32)
        values[node.input[2]] = np.array(np.clip(round(limits.min - low / scale), limits.min, limits.max), limits.dtype)
        del model.graph.initializer[:]
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in values.items())
    return model


def random_inputs(model: onnx.ModelProto, rng: Generator) -> dict[str, NDArray[Any]]:
    """Inputs that reach all quantised values (and a little beyond) of a model of this file."""
    given = {t.name for t in model.graph.initializer}
    inputs: dict[str, NDArray[Any]] = {}
    for value in model.graph.input:
        if value.name in given:
            continue
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        match value.type.tensor_type.elem_type:
            case TensorProto.FLOAT:
                inputs[value.name] = rng.uniform(-12, 12, size=shape).astype(np.float32)
            case TensorProto.UINT8:
                inputs[value.name] = rng.integers(0, 256, size=shape).astype(np.uint8)
            case _:
                inputs[value.name] = rng.integers(-128, 128, size=shape).astype(np.int8)
    return inputs


def run_onnx(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What ONNX Runtime computes with every optimisation off, on one thread: the specification, on any processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    content = with_exact_products(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
