"""Random quantised operators at the edges of their numbers: zero points at the limits, accumulators near saturation.

Scales are random, so that few results lie half-way between two steps; the result's scale is such that the results fill
its range, or saturate a little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx

INT32 = 2**31 - 1


@dataclass(frozen=True)
class Case:
    """A model and what is special about it."""

    words: str
    model: onnx.ModelProto


def random_case(rng: Generator) -> Case:
    """One operator between quantised tensors."""
    make: Callable[[Generator], Case] = MAKERS[int(rng.integers(len(MAKERS)))]
    return make(rng)


# -- operators ---------------------------------------------------------------------------------------------------------


def conv(rng: Generator) -> Case:
    """Conv of any stride, padding, dilation and group, with a bias up to where the accumulator is full."""
    group = int(rng.choice([1, 1, 1, 2, 3, 0]))
    channels = int(rng.integers(1, 41)) if group == 1 else 1
    group = group or int(rng.integers(2, 34))  # 0: depthwise
    inputs, outputs = channels * group, group * int(rng.integers(1, 4 if group > 1 else 41))
    kernel, strides, dilations = ([int(v) for v in rng.integers(1, most, 2)] for most in (5, 4, 3))
    pads = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    least = [max(1, need - before - after) for need, before, after in zip(reach, pads[:2], pads[2:], strict=True)]
    size = [int(rng.integers(low, low + 9)) for low in least]
    builder, x = _begin(rng, (int(rng.integers(1, 3)), inputs, *size))
    shape = (outputs, channels, *kernel)
    w, terms, w_words = _weights(builder, shape, axis=0)
    operands = [x.name, w.name, *_bias(builder, rng, outputs, x, w, terms)]
    y = builder.node(
        "Conv", operands, name="conv", kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=group
    )
    words = f"conv x {x.shape} w {shape} group {group} strides {strides} dilations {dilations} pads {pads} {w_words}"
    return _end(builder, rng, y, words)


def qlinear_conv(rng: Generator) -> Case:
    """QLinearConv, whose zero points are all at random; integers in, integers out."""
    channels, outputs = int(rng.integers(1, 30)), int(rng.integers(1, 30))
    kernel, size = ([int(v) for v in rng.integers(low, high, 2)] for low, high in ((1, 4), (4, 10)))
    builder, activation = _builder(rng)
    x = builder.input("x", [1, channels, *size], helper.np_dtype_to_tensor_dtype(activation))
    info = np.iinfo(activation.name)
    terms = channels * kernel[0] * kernel[1]
    weight_scales = (0.01 * rng.uniform(0.5, 2, outputs)).astype(np.float32)
    values: dict[str, Any] = {
        "xs": np.float32(10 ** rng.uniform(-3, 1)),
        "xz": np.array(_zero_point(rng, int(info.min), int(info.max)), activation),
        "w": rng.integers(-128, 128, (outputs, channels, *kernel)).astype(np.int8),
        "ws": weight_scales,
        "wz": np.zeros(outputs, np.int8),
    }
    values["ys"] = np.float32(values["xs"] * 0.0123 * 74 * 74 * terms**0.5 / 40)
    values["yz"] = np.array(_zero_point(rng, int(info.min), int(info.max)), activation)
    values["b"] = rng.integers(-(2**20), 2**20, outputs).astype(np.int32)
    operands = [x, *(builder.constant(name, value) for name, value in values.items())]
    y = builder.node("QLinearConv", operands, name="conv", kernel_shape=kernel, pads=[int(kernel[0] > 1)] * 4)
    builder.output(y, "result", helper.np_dtype_to_tensor_dtype(activation))
    return Case(f"QLinearConv {activation} {channels} to {outputs} {kernel} on {size}", builder.build())


def gemm(rng: Generator) -> Case:
    """Gemm, either side of constants transposed or not, with a bias."""
    rows, depth, columns = (int(v) for v in rng.integers(1, 70, 3))
    builder, x = _begin(rng, (rows, depth))
    transposed = bool(rng.integers(2))
    shape = (columns, depth) if transposed else (depth, columns)
    w, _, words = _weights(builder, shape, axis=0 if transposed else 1)
    operands = [x.name, w.name, *_bias(builder, rng, columns, x, w, depth)]
    y = builder.node("Gemm", operands, name="gemm", transB=int(transposed))
    return _end(builder, rng, y, f"gemm [{rows}, {depth}] by {shape} {words}")


def add(rng: Generator) -> Case:
    """Sum or difference of two tensors whose scales are up to 2⁶ apart."""
    shape = (1, *(int(v) for v in rng.integers(1, 20, 3)))
    builder, a = _begin(rng, shape)
    b = _input(builder, rng, "b", shape, a.scale * float(2 ** rng.uniform(-6, 6)))
    operator = str(rng.choice(["Add", "Sub"]))
    y = builder.node(operator, [a.name, b.name], name="add")
    return _end(builder, rng, y, f"{operator} {shape} scales {a.scale:.4g} {b.scale:.4g}")


def multiply(rng: Generator) -> Case:
    """Product of two tensors."""
    shape = (1, *(int(v) for v in rng.integers(1, 20, 3)))
    builder, a = _begin(rng, shape)
    b = _input(builder, rng, "b", shape, float(10 ** rng.uniform(-3, 1)))
    return _end(builder, rng, builder.node("Mul", [a.name, b.name], name="mul"), f"Mul {shape}")


def average(rng: Generator) -> Case:
    """AveragePool with any padding, counted or not."""
    kernel, strides = ([int(v) for v in rng.integers(1, 5, 2)] for _ in range(2))
    pads = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    size = [k + int(rng.integers(0, 8)) for k in kernel]
    builder, x = _begin(rng, (1, int(rng.integers(1, 40)), *size))
    counted = int(rng.integers(2))
    y = builder.node(
        "AveragePool", [x.name], name="pool", kernel_shape=kernel, strides=strides, pads=pads, count_include_pad=counted
    )
    return _end(builder, rng, y, f"average x {x.shape} kernel {kernel} strides {strides} pads {pads} counted {counted}")


def largest(rng: Generator) -> Case:
    """MaxPool with padding and another scale after it."""
    kernel, strides = ([int(v) for v in rng.integers(1, 5, 2)] for _ in range(2))
    pads = [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    size = [k + int(rng.integers(0, 8)) for k in kernel]
    builder, x = _begin(rng, (1, int(rng.integers(1, 40)), *size))
    y = builder.node("MaxPool", [x.name], name="pool", kernel_shape=kernel, strides=strides, pads=pads)
    return _end(builder, rng, y, f"max x {x.shape} kernel {kernel} strides {strides} pads {pads}")


def requantise(rng: Generator) -> Case:
    """From one scale and zero point to another, with Relu or Clip on the way."""
    builder, x = _begin(rng, (1, *(int(v) for v in rng.integers(1, 20, 3))))
    operator = str(rng.choice(["Relu", "Identity"]))
    return _end(builder, rng, builder.node(operator, [x.name], name="op"), f"{operator} {x.shape}")


def transposed_conv(rng: Generator) -> Case:
    """ConvTranspose of any stride, padding and group."""
    group = int(rng.choice([1, 1, 2]))
    inputs, outputs = group * int(rng.integers(1, 20)), int(rng.integers(1, 20))
    kernel, strides = ([int(v) for v in rng.integers(1, 5, 2)] for _ in range(2))
    pads = [int(rng.integers(0, (size + 1) // 2)) for size in (*kernel, *kernel)]
    builder, x = _begin(rng, (1, inputs, *(int(v) for v in rng.integers(3, 8, 2))))
    shape = (inputs, outputs, *kernel)
    w, _, words = _weights(builder, shape, axis=1, per_channel=group == 1)
    y = builder.node(
        "ConvTranspose", [x.name, w.name], name="up", kernel_shape=kernel, strides=strides, pads=pads, group=group
    )
    return _end(
        builder, rng, y, f"transposed x {x.shape} w {shape} group {group} strides {strides} pads {pads} {words}"
    )


def broadcast(rng: Generator) -> Case:
    """Add, Sub, Mul, Max or Min of operands of which one is repeated along some dimensions."""
    shape = (1, *(int(v) for v in rng.integers(2, 20, 3)))
    small = tuple(size if rng.integers(2) else 1 for size in shape)
    builder, a = _begin(rng, shape)
    b = _input(builder, rng, "b", small, a.scale * float(2 ** rng.uniform(-2, 2)))
    operator = str(rng.choice(["Add", "Sub", "Mul", "Max", "Min"]))
    operands = [a.name, b.name] if rng.integers(2) else [b.name, a.name]
    return _end(builder, rng, builder.node(operator, operands, name="op"), f"{operator} {shape} with {small}")


def with_constant(rng: Generator) -> Case:
    """Add, Sub, Mul or Div by a number or one for each channel."""
    builder, x = _begin(rng, (1, *(int(v) for v in rng.integers(2, 20, 3))))
    operator = str(rng.choice(["Add", "Sub", "Mul", "Div"]))
    size = 100 * x.scale if operator in ("Add", "Sub") else 3.0
    counts = (1, x.shape[1], 1, 1) if rng.integers(2) else ()
    values = (rng.uniform(0.1, 1, counts) * rng.choice([-1, 1], counts) * size).astype(np.float32)
    y = builder.node(operator, [x.name, builder.constant("k", np.asarray(values))], name="op")
    return _end(builder, rng, y, f"{operator} {x.shape} by constants {values.shape}")


def function(rng: Generator) -> Case:
    """A function of one number."""
    names = ("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Softplus", "Exp", "Erf", "LeakyRelu", "Abs", "Neg")
    name = str(rng.choice(names))
    scale = float(10 ** rng.uniform(-2, -1)) if name == "Exp" else float(10 ** rng.uniform(-3, 0))
    builder, _ = _builder(rng)
    x = _input(builder, rng, "x", (1, *(int(v) for v in rng.integers(1, 20, 3))), scale)
    return _end(builder, rng, builder.node(name, [x.name], name="f"), f"{name} {x.shape} scale {scale:.4g}")


def concatenation(rng: Generator) -> Case:
    """Tensors of different scales beside each other."""
    shape = (1, *(int(v) for v in rng.integers(1, 20, 3)))
    axis = int(rng.integers(1, 4))
    builder, first = _begin(rng, shape)
    names = [first.name]
    for number in range(int(rng.integers(1, 4))):
        size = tuple(int(rng.integers(1, 20)) if at == axis else length for at, length in enumerate(shape))
        names.append(_input(builder, rng, f"x{number}", size, first.scale * float(2 ** rng.uniform(-2, 2))).name)
    return _end(builder, rng, builder.node("Concat", names, name="join", axis=axis), f"concat {shape} along {axis}")


def reduction(rng: Generator) -> Case:
    """ReduceMean or ReduceSum over height, width, both or channels."""
    builder, x = _begin(rng, (1, *(int(v) for v in rng.integers(1, 20, 3))))
    axes = [[2, 3], [2], [3], [1]][int(rng.integers(4))]
    keepdims, operator = int(rng.integers(2)), str(rng.choice(["ReduceMean", "ReduceSum"]))
    if operator == "ReduceMean":  # axes are an attribute in this opset
        y = builder.node(operator, [x.name], name="reduce", axes=axes, keepdims=keepdims)
    else:
        operands = [x.name, builder.constant("axes", np.array(axes, np.int64))]
        y = builder.node(operator, operands, name="reduce", keepdims=keepdims)
    return _end(builder, rng, y, f"{operator} {x.shape} over {axes} keepdims {keepdims}")


def resize(rng: Generator) -> Case:
    """Resize by whole factors, nearest or linear."""
    builder, x = _begin(rng, (1, *(int(v) for v in rng.integers(1, 10, 3))))
    factors = rng.integers(1, 4, 2)
    mode = str(rng.choice(["nearest", "linear"]))
    scales = builder.constant("scales", np.array([1, 1, *factors], np.float32))
    y = builder.node(
        "Resize", [x.name, "", scales], name="up", mode=mode, nearest_mode="floor",
        coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel",
    )  # fmt: skip
    return _end(builder, rng, y, f"resize {x.shape} {mode} by {factors.tolist()}")


def batched_matmul(rng: Generator) -> Case:
    """[B, M, K] by a constant [K, N]."""
    batch, rows, depth, columns = (int(v) for v in rng.integers(1, 24, 4))
    builder, x = _begin(rng, (batch, rows, depth))
    w, _, words = _weights(builder, (depth, columns), axis=1)
    y = builder.node("MatMul", [x.name, w.name], name="matmul")
    return _end(builder, rng, y, f"matmul {x.shape} by {w.shape} {words}")


MAKERS: Sequence[Callable[[Generator], Case]] = (
    conv,
    conv,
    conv,
    qlinear_conv,
    gemm,
    add,
    multiply,
    average,
    largest,
    requantise,
    transposed_conv,
    broadcast,
    with_constant,
    function,
    concatenation,
    reduction,
    resize,
    batched_matmul,
)

# -- tensors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tensor:
    """A dequantised tensor: its name, and what its integers mean."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero: int
    low: int
    high: int


def _builder(rng: Generator) -> tuple[ModelBuilder, np.dtype[Any]]:
    builder = ModelBuilder(rng, activation=np.int8 if rng.integers(2) else np.uint8)
    return builder, builder.activation


def _begin(rng: Generator, shape: tuple[int, ...]) -> tuple[ModelBuilder, _Tensor]:
    builder, _ = _builder(rng)
    return builder, _input(builder, rng, "x", shape, float(10 ** rng.uniform(-4, 2)))


def _input(builder: ModelBuilder, rng: Generator, name: str, shape: tuple[int, ...], scale: float) -> _Tensor:
    """An input that is integers already: it reaches every one of them."""
    info = np.iinfo(builder.activation.name)
    zero = _zero_point(rng, int(info.min), int(info.max))
    x = builder.input(name, shape, helper.np_dtype_to_tensor_dtype(builder.activation))
    constants = [np.float32(scale), np.array(zero, builder.activation)]
    inputs = [x, *(builder.constant(f"{name}.{part}", value) for part, value in zip("sz", constants, strict=True))]
    dequantised = builder.node("DequantizeLinear", inputs, name=f"{name}.dequantize")
    return _Tensor(dequantised, shape, scale, zero, int(info.min), int(info.max))


def _zero_point(rng: Generator, low: int, high: int) -> int:
    """Often at a limit, or next to it."""
    return int(rng.choice([low, low + 1, high, high - 1, (low + high + 1) // 2, int(rng.integers(low, high + 1))]))


def _weights(
    builder: ModelBuilder, shape: tuple[int, ...], axis: int, per_channel: bool = True
) -> tuple[_Tensor, int, str]:
    """int8 weights with a scale for each output channel, or uint8 ones with one zero point; often at their limits."""
    rng = builder.rng
    is_signed = bool(rng.integers(3))
    info = np.iinfo(np.int8 if is_signed else np.uint8)
    values = rng.integers(info.min, info.max + 1, shape)
    if rng.integers(3) == 0:
        values = rng.choice([info.min, info.max], shape)
    zero = 0 if is_signed else int(rng.choice([128, int(rng.integers(1, 255))]))
    per_channel = per_channel and is_signed
    counts = (shape[axis],) if per_channel else ()
    scales = (10 ** rng.uniform(-4, 0) * rng.uniform(0.5, 2, counts)).astype(np.float32)
    constants = [values.astype(info.dtype), scales, np.full(counts, zero, info.dtype)]
    inputs = [builder.constant(f"w.{part}", np.asarray(value)) for part, value in zip("wsz", constants, strict=True)]
    attributes: dict[str, Any] = {"axis": axis} if per_channel else {}
    name = builder.node("DequantizeLinear", inputs, name="w.dequantize", **attributes)
    words = f"weights {info.dtype} zero {zero}"
    of = _Tensor(name, shape, float(np.max(scales)), zero, int(info.min), int(info.max))
    return of, int(np.prod(shape)) // shape[axis], words


def _bias(builder: ModelBuilder, rng: Generator, count: int, x: _Tensor, w: _Tensor, terms: int) -> list[str]:
    """None, a usual one, or one that nearly fills the accumulator; in integers of the products' scale."""
    kind = int(rng.integers(3))
    if kind == 0:
        return []
    largest = terms * max(x.high - x.zero, x.zero - x.low) * max(w.high - w.zero, w.zero - w.low)
    folded = terms * max(abs(x.zero), 128 + abs(x.zero - 128)) * 255
    room = INT32 - largest - folded
    reach = max(1, min(room, INT32 if kind == 2 else 50_000))
    low = int(0.9 * reach) if kind == 2 else 0
    values = rng.integers(low, reach + 1, count) * rng.choice([-1, 1], count)
    scales = numpy_helper.to_array(next(t for t in builder.initializers if t.name == "w.s"))
    constants = [values.astype(np.int32), (np.float32(x.scale) * scales).astype(np.float32)]
    inputs = [builder.constant(f"b.{part}", value) for part, value in zip("bs", constants, strict=True)]
    attributes: dict[str, Any] = {"axis": 0} if scales.ndim else {}
    return [builder.node("DequantizeLinear", inputs, name="b.dequantize", **attributes)]


def _end(builder: ModelBuilder, rng: Generator, y: str, words: str) -> Case:
    """Quantise the result so that it fills its range: with the zero point that it has, the larger side."""
    info = np.iinfo(builder.activation.name)
    zero = _zero_point(rng, int(info.min), int(info.max))
    builder.output(builder.quantize(y, 1.0, zero, name="y"), "result")
    model = builder.build()
    reached = _reached(model, y)
    above, below = max(float(reached.max()), 0.0), max(-float(reached.min()), 0.0)
    rooms = (int(info.max) - zero, zero - int(info.min))
    steps = [most / max(room, 1) for most, room in zip((above, below), rooms, strict=True)]
    # Where one side has no room, its values saturate, unless nothing is on the other side.
    usable = [step for step, room in zip(steps, rooms, strict=True) if room > 1 and step > 0] or [max(steps) or 1.0]
    scale = np.float32(max(usable) * rng.uniform(0.8, 1.1))
    for tensor in model.graph.initializer:
        if tensor.name == "y.scale":
            tensor.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), tensor.name))
    return Case(f"{builder.activation} {words} zero {zero}", model)


def _reached(model: onnx.ModelProto, tensor: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, None))
    runs = [run_onnx(probe, random_inputs(model, np.random.default_rng(seed)))[tensor].ravel() for seed in range(2)]
    return np.concatenate(runs)
