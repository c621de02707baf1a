"""One small quantised network, written in each form in which exporters write such networks.

Two convolutions, their sum, the average of the image and a dense layer. Its integers, scales and zero points are the
same in every form, so its results are, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.importers.tflite.files import Tensor, TfliteFile

SIZE, CHANNELS, INSIDE, CLASSES = 10, 3, 8, 5

MICROSOFT = "com.microsoft"

IR_VERSION = 8

IR_VERSION_OF_OPSET_21 = 10


@dataclass(frozen=True)
class Quantised:
    """A scale and the zero point of int8 values; uint8 values are 128 more."""

    scale: float
    zero: int

    def zero_as(self, dtype: np.dtype[Any]) -> int:
        return self.zero if dtype.kind == "i" else self.zero + 128


IMAGE = Quantised(2**-6, 3)
FIRST = Quantised(0.06, -128)
SECOND = Quantised(0.09, 5)
SUM = Quantised(0.11, -20)
SCORES = Quantised(0.15, 11)


@dataclass(frozen=True)
class Weights:
    """Integers [out, in, height, width], or [out, in] of the dense layer; int32 biases; a scale for each result."""

    values: NDArray[np.int8]
    bias: NDArray[np.int32]
    scales: NDArray[np.float32]


def weights(name: str, shape: Sequence[int], per_channel: bool) -> Weights:
    """Random weights, the same for the same name."""
    rng = np.random.default_rng([*name.encode()])
    count = shape[0] if per_channel else 1
    scales = np.full(count, 0.01, np.float32) if count == 1 else rng.uniform(0.004, 0.02, count).astype(np.float32)
    values = rng.integers(-127, 128, tuple(shape)).astype(np.int8)
    return Weights(values, rng.integers(-2000, 2000, shape[0]).astype(np.int32), scales)


def network(per_channel: bool) -> dict[str, Weights]:
    """The weights of the three layers."""
    shapes = {"first": (INSIDE, CHANNELS, 3, 3), "second": (INSIDE, INSIDE, 1, 1), "dense": (CLASSES, INSIDE)}
    return {name: weights(name, shape, per_channel) for name, shape in shapes.items()}


@dataclass(frozen=True)
class Form:
    """How the network is written.

    `kind` is `qdq`, `qcdq` (with a Clip of the integers in each pair, as Brevitas writes it), `qoperator` or `tflite`.
    `domain` is that of QuantizeLinear and DequantizeLinear. `last` has the image as [N, H, W, C]; `is_real` takes and
    gives floats.
    `constants` says where ONNX has them: `initialisers`, `nodes`, or `inputs` for initialisers that are inputs as well.
    """

    kind: str
    dtype: str = "int8"
    opset: int = 17
    last: bool = False
    is_real: bool = True
    constants: str = "initialisers"
    per_channel: bool = True
    has_relu: bool = True
    weights: str = "int8"
    domain: str = ""

    @property
    def name(self) -> str:
        """What pytest shows of it."""
        layout, values = "last" if self.last else "first", "float" if self.is_real else "integer"
        per = "channel" if self.per_channel else "tensor"
        relu = "" if self.has_relu else "-norelu"
        domain = f"-{self.domain}" if self.domain else ""
        form = f"{self.kind}{self.opset}-{self.dtype}-{layout}-{values}-{self.constants}-{per}-{self.weights}"
        return f"{form}{relu}{domain}"

    def model(self) -> bytes:
        """The file."""
        return tflite_file(self) if self.kind == "tflite" else onnx_file(self)

    def image(self, integers: NDArray[np.int8]) -> NDArray[Any]:
        """The input that stands for int8 values [N, C, H, W]."""
        turned = integers.transpose(0, 2, 3, 1) if self.last else integers
        return np.ascontiguousarray(self._values(turned, IMAGE))

    def scores(self, result: NDArray[Any]) -> NDArray[np.int8]:
        """The int8 values that a result stands for."""
        if self.is_real:
            result = np.rint(result / np.float32(SCORES.scale)) + SCORES.zero
        elif self.dtype == "uint8":
            result = result.astype(np.int16) - 128
        return result.reshape(CLASSES).astype(np.int8)

    def _values(self, integers: NDArray[np.int8], of: Quantised) -> NDArray[Any]:
        if self.is_real:
            return ((integers.astype(np.float32) - of.zero) * np.float32(of.scale)).astype(np.float32)
        return integers if self.dtype == "int8" else (integers.astype(np.int16) + 128).astype(np.uint8)


# -- ONNX --------------------------------------------------------------------------------------------------------------


@dataclass
class _Onnx:
    """Collects what a model consists of; tensors are passed by name."""

    form: Form
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    kept: dict[str, onnx.TensorProto] = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.form.dtype)

    def constant(self, name: str, value: Any) -> str:
        tensor = numpy_helper.from_array(np.asarray(value), name)
        if self.form.constants == "nodes" and name not in self.kept:
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}.constant", value=tensor))
        self.kept[name] = tensor
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        made = helper.make_node(kind, list(inputs), [f"{name}.out"], name=name, domain=domain, **attributes)
        self.nodes.append(made)
        return f"{name}.out"

    def scale(self, name: str, of: Quantised) -> list[str]:
        """The scale and the zero point of a tensor."""
        zero = np.array(of.zero_as(self.dtype), self.dtype)
        return [self.constant(f"{name}.scale", np.float32(of.scale)), self.constant(f"{name}.zero", zero)]

    def quantize(self, x: str, name: str, of: Quantised) -> str:
        made = self.node("QuantizeLinear", [x, *self.scale(name, of)], f"{name}.quantize", self.form.domain)
        return self.clipped(made, name, np.iinfo(self.dtype).min, np.iinfo(self.dtype).max, self.dtype)

    def dequantize(self, x: str, name: str, of: Quantised) -> str:
        return self.node("DequantizeLinear", [x, *self.scale(name, of)], f"{name}.dequantize", self.form.domain)

    def clipped(self, x: str, name: str, low: int, high: int, dtype: np.dtype[Any]) -> str:
        """Integers within limits, in a form that says so."""
        if self.form.kind != "qcdq":
            return x
        limits = zip(("low", "high"), (low, high), strict=True)
        bounds = [self.constant(f"{name}.{side}", np.array(limit, dtype)) for side, limit in limits]
        return self.node("Clip", [x, *bounds], f"{name}.clip")

    def stored_weights(self, name: str, of: Weights) -> list[str]:
        """The weights, their scales and zero points: three constants."""
        values, zeros = of.values, np.zeros(of.scales.shape, np.int8)
        if self.form.weights == "uint8":
            values, zeros = ((each.astype(np.int16) + 128).astype(np.uint8) for each in (values, zeros))
        one = (lambda each: each) if self.form.per_channel else (lambda each: each[0])
        return [
            self.constant(f"{name}.weight", values),
            self.constant(f"{name}.weight_scale", one(of.scales)),
            self.constant(f"{name}.weight_zero", one(zeros)),
        ]

    def dequantized_weights(self, name: str, of: Weights, source: Quantised) -> list[str]:
        """The weights and the bias of a layer as floats, dequantised in the graph."""
        axis = {"axis": 0} if self.form.per_channel else {}
        scales = np.float32(source.scale) * of.scales
        bias = [
            self.constant(f"{name}.bias", of.bias),
            self.constant(f"{name}.bias_scale", scales if self.form.per_channel else scales[0]),
        ]
        values, *meaning = self.stored_weights(name, of)
        values = self.clipped(values, f"{name}.weight", -127, 127, np.dtype(np.int8))
        weight = self.node(
            "DequantizeLinear", [values, *meaning], f"{name}.weight_dequantize", self.form.domain, **axis
        )
        return [weight, self.node("DequantizeLinear", bias, f"{name}.bias_dequantize", self.form.domain, **axis)]


def onnx_file(form: Form) -> bytes:
    """The network in ONNX."""
    made, layers = _Onnx(form), network(form.per_channel)
    x = "x"
    if form.last:
        x = made.node("Transpose", [x], "turn", perm=[0, 3, 1, 2])
    if form.is_real:
        x = made.quantize(x, "image", IMAGE)
    y = (_with_integers if form.kind == "qoperator" else _with_floats)(made, layers, x)
    if form.is_real:
        y = made.dequantize(y, "scores", SCORES)
    made.nodes[-1].output[0] = "y"
    element = TensorProto.FLOAT if form.is_real else helper.np_dtype_to_tensor_dtype(made.dtype)
    shape = [1, SIZE, SIZE, CHANNELS] if form.last else [1, CHANNELS, SIZE, SIZE]
    inputs = [helper.make_tensor_value_info("x", element, shape)]
    if form.constants == "inputs":
        inputs += [helper.make_tensor_value_info(name, t.data_type, t.dims) for name, t in made.kept.items()]
    kept = [] if form.constants == "nodes" else list(made.kept.values())
    results = [helper.make_tensor_value_info("y", element, [1, CLASSES])]
    opsets = [helper.make_opsetid("", form.opset), helper.make_opsetid(MICROSOFT, 1)]
    version = IR_VERSION if form.opset < 21 else IR_VERSION_OF_OPSET_21
    graph = helper.make_graph(made.nodes, "network", inputs, results, kept)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version).SerializeToString(deterministic=True)


def _with_floats(made: _Onnx, layers: dict[str, Weights], x: str) -> str:
    """Float operators between DequantizeLinear and QuantizeLinear."""
    x = made.dequantize(x, "image", IMAGE)
    first = made.node(
        "Conv", [x, *made.dequantized_weights("first", layers["first"], IMAGE)], "first", pads=[1, 1, 1, 1]
    )
    if made.form.has_relu:
        first = made.node("Relu", [first], "relu")
    first = made.dequantize(made.quantize(first, "first", FIRST), "first", FIRST)
    second = made.node("Conv", [first, *made.dequantized_weights("second", layers["second"], FIRST)], "second")
    second = made.dequantize(made.quantize(second, "second", SECOND), "second", SECOND)
    total = made.node("Add", [first, second], "add")
    total = made.dequantize(made.quantize(total, "sum", SUM), "sum", SUM)
    mean = made.node("GlobalAveragePool", [total], "mean")
    mean = made.dequantize(made.quantize(mean, "mean", SUM), "mean", SUM)
    flat = made.node("Flatten", [mean], "flat")
    scores = made.node("Gemm", [flat, *made.dequantized_weights("dense", layers["dense"], SUM)], "dense", transB=1)
    return made.quantize(scores, "scores", SCORES)


def _with_integers(made: _Onnx, layers: dict[str, Weights], x: str) -> str:
    """Operators of integers: ONNX's own, and ONNX Runtime's where it has none."""

    def conv(x: str, name: str, source: Quantised, to: Quantised, **attributes: Any) -> str:
        scales = [*made.scale(f"{name}.in", source), *made.stored_weights(name, layers[name])]
        bias = made.constant(f"{name}.bias", layers[name].bias)
        return made.node("QLinearConv", [x, *scales, *made.scale(f"{name}.to", to), bias], name, **attributes)

    first = conv(x, "first", IMAGE, FIRST, pads=[1, 1, 1, 1])
    second = conv(first, "second", FIRST, SECOND)
    operands = [first, *made.scale("add.a", FIRST), second, *made.scale("add.b", SECOND), *made.scale("add.c", SUM)]
    total = made.node("QLinearAdd", operands, "add", MICROSOFT)
    ends = [*made.scale("mean.in", SUM), *made.scale("mean.to", SUM)]
    mean = made.node("QLinearGlobalAveragePool", [total, *ends], "mean", MICROSOFT, channels_last=0)
    flat = made.node("Flatten", [mean], "flat")
    dense = [*made.scale("dense.in", SUM), *made.stored_weights("dense", layers["dense"])]
    bias = made.constant("dense.bias", layers["dense"].bias)
    return made.node("QGemm", [flat, *dense, bias, *made.scale("dense.to", SCORES)], "dense", MICROSOFT, transB=1)


def float_file(opset: int) -> onnx.ModelProto:
    """The network in float32, not quantised, in an opset of ONNX. Its nodes have meant the same since opset 7."""
    made, layers = _Onnx(Form("qdq", opset=opset)), network(per_channel=True)

    def parameters(name: str, source: Quantised) -> list[str]:
        of = layers[name]
        scales = of.scales.reshape(-1, *(1 for _ in of.values.shape[1:]))
        bias = (of.bias * of.scales * source.scale).astype(np.float32)
        return [made.constant(f"{name}.weight", of.values * scales), made.constant(f"{name}.bias", bias)]

    first = made.node("Conv", ["x", *parameters("first", IMAGE)], "first", pads=[1, 1, 1, 1])
    first = made.node("Relu", [first], "relu")
    total = made.node("Add", [first, made.node("Conv", [first, *parameters("second", FIRST)], "second")], "add")
    flat = made.node("Flatten", [made.node("GlobalAveragePool", [total], "mean")], "flat")
    made.node("Gemm", [flat, *parameters("dense", SUM)], "dense", transB=1)
    made.nodes[-1].output[0] = "y"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])
    graph = helper.make_graph(made.nodes, "network", [x], [y], list(made.kept.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)


# -- TFLite ------------------------------------------------------------------------------------------------------------


def tflite_file(form: Form) -> bytes:
    """The network in TFLite, which has images as [N, H, W, C] and one kind of constants."""
    file, layers, dtype = TfliteFile(), network(form.per_channel), np.dtype(form.dtype)

    def tensor(name: str, shape: Sequence[int], of: Quantised) -> Tensor:
        return file.tensor(name, shape, of.scale, of.zero_as(dtype), dtype)

    def parameters(name: str, source: Quantised) -> list[Tensor]:
        of, values = layers[name], layers[name].values
        if values.ndim == 4:
            values = values.transpose(0, 2, 3, 1)
        zeros: list[int] = []
        if form.weights == "uint8":
            values, zeros = (values.astype(np.int16) + 128).astype(np.uint8), [128] * len(of.scales)
        scales = [float(np.float32(source.scale) * scale) for scale in of.scales]
        weight = file.constant(f"{name}.weight", np.ascontiguousarray(values), of.scales, zeros)
        return [weight, file.constant(f"{name}.bias", of.bias, scales)]

    image, inside = (1, SIZE, SIZE, CHANNELS), (1, SIZE, SIZE, INSIDE)
    if form.is_real:
        real = file.input("x", image, None, dtype=np.float32)
        x = tensor("image", image, IMAGE)
        file.operator("QUANTIZE", [real], x, "QuantizeOptions")
    else:
        x = file.input("x", image, IMAGE.scale, IMAGE.zero_as(dtype), dtype)
    first, second = tensor("first", inside, FIRST), tensor("second", inside, SECOND)
    total, mean = tensor("sum", inside, SUM), tensor("mean", (1, 1, 1, INSIDE), SUM)
    ones = {"StrideW": 1, "StrideH": 1}
    relu = {"FusedActivationFunction": int(form.has_relu)}
    file.operator("CONV_2D", [x, *parameters("first", IMAGE)], first, "Conv2DOptions", Padding=0, **ones, **relu)
    file.operator("CONV_2D", [first, *parameters("second", FIRST)], second, "Conv2DOptions", Padding=0, **ones)
    file.operator("ADD", [first, second], total, "AddOptions")
    window = {"FilterWidth": SIZE, "FilterHeight": SIZE, "Padding": 1, **ones}
    file.operator("AVERAGE_POOL_2D", [total], mean, "Pool2DOptions", **window)
    scores = tensor("scores", (1, CLASSES), SCORES)
    file.operator("FULLY_CONNECTED", [mean, *parameters("dense", SUM)], scores, "FullyConnectedOptions")
    if not form.is_real:
        return file.content(scores)
    result = file.tensor("y", (1, CLASSES), None, dtype=np.float32)
    file.operator("DEQUANTIZE", [scores], result, "DequantizeOptions")
    return file.content(result)
