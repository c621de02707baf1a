"""Networks whose constants are computed in the file: weights put together from parts, operators on constants only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from tests.compiler.models import ModelBuilder, rescaled

CHANNELS, SIZE = 8, 4


@dataclass(frozen=True)
class Stored:
    """How integers and their scales are stored: int8, or uint8 with a zero point; one scale, or one for each result."""

    dtype: type = np.int8
    per_channel: bool = False

    def dequantized(self, builder: ModelBuilder, shape: Sequence[int], axis: int) -> str:
        """Random integers of a shape behind a DequantizeLinear, with scales along an axis."""
        rng, name = builder.rng, f"w{builder.count}"
        counts = (shape[axis],) if self.per_channel else ()
        low, high = (-100, 101) if self.dtype == np.int8 else (3, 250)
        zeros = np.zeros(counts, self.dtype) if self.dtype == np.int8 else np.full(counts, 128, self.dtype)
        inputs = [
            builder.constant(f"{name}.q", rng.integers(low, high, tuple(shape)).astype(self.dtype)),
            builder.constant(f"{name}.s", rng.uniform(0.005, 0.02, counts).astype(np.float32)),
            builder.constant(f"{name}.z", zeros),
        ]
        return builder.node("DequantizeLinear", inputs, axis=axis if self.per_channel else 0)


def numbers(builder: ModelBuilder, values: Sequence[int]) -> str:
    builder.count += 1
    return builder.constant(f"n{builder.count}", np.array(values, np.int64))


def floats(builder: ModelBuilder, values: float | NDArray[np.float32]) -> str:
    builder.count += 1
    return builder.constant(f"f{builder.count}", np.asarray(values, np.float32))


Make = Callable[[ModelBuilder, Stored, Sequence[int], int], str]
"""Weights of a shape, whose results are along an axis, from stored integers."""


def _with(shape: Sequence[int], axis: int, size: int) -> list[int]:
    return [size if at == axis else each for at, each in enumerate(shape)]


def _concat(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    half = _with(shape, axis, shape[axis] // 2)
    return b.node("Concat", [stored.dequantized(b, half, axis), stored.dequantized(b, half, axis)], axis=axis)


def _slice(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    whole = stored.dequantized(b, _with(shape, axis, 2 * shape[axis]), axis)
    limits = [numbers(b, [1]), numbers(b, [1 + shape[axis]]), numbers(b, [axis])]
    return b.node("Slice", [whole, *limits])


def _split(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    whole = stored.dequantized(b, _with(shape, axis, 2 * shape[axis]), axis)
    first = b.node("Split", [whole, numbers(b, [shape[axis]] * 2)], axis=axis)
    b.nodes[-1].output.append(f"{first}.second")
    return f"{first}.second"


def _gather(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    return b.node("Gather", [stored.dequantized(b, shape, axis), numbers(b, list(range(shape[axis]))[::-1])], axis=axis)


def _repeated(kind: str) -> Make:
    def make(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
        one = stored.dequantized(b, _with(shape, axis, 1), axis)
        target = shape if kind == "Expand" else _with([1] * len(shape), axis, shape[axis])
        return b.node(kind, [one, numbers(b, target)])

    return make


def _pad(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    smaller = stored.dequantized(b, _with(shape, axis, shape[axis] - 1), axis)
    ends = [0] * len(shape) + _with([0] * len(shape), axis, 1)
    return b.node("Pad", [smaller, numbers(b, ends)])


def _one(kind: str, *operands: float) -> Make:
    def make(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
        return b.node(kind, [stored.dequantized(b, shape, axis), *(floats(b, each) for each in operands)])

    return make


def _per_channel_mul(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    factors = b.rng.uniform(0.5, 2, _with([1] * len(shape), axis, shape[axis])).astype(np.float32)
    return b.node("Mul", [stored.dequantized(b, shape, axis), floats(b, factors)])


def _cast(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    return b.node("Cast", [stored.dequantized(b, shape, axis)], to=TensorProto.FLOAT)


def _through_half(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    half = b.node("Cast", [stored.dequantized(b, shape, axis)], to=TensorProto.FLOAT16)
    return b.node("Cast", [half], to=TensorProto.FLOAT)


def _qdq_twice(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    return b.quantize(stored.dequantized(b, shape, axis), 0.02, 0)


def _mirrored(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    limits = [numbers(b, [-1]), numbers(b, [-1000]), numbers(b, [axis]), numbers(b, [-1])]
    return b.node("Slice", [stored.dequantized(b, shape, axis), *limits])


def _turned(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    last = len(shape) - 1
    order = [last, *range(1, last), 0]
    turned = stored.dequantized(b, [shape[at] for at in order], order.index(axis))
    back = b.node("Transpose", [turned], perm=order)
    return b.node("Neg", [back])


def _shaped(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    lifted = stored.dequantized(b, [1, *shape], axis + 1)
    return b.node("Abs", [b.node("Squeeze", [lifted, numbers(b, [0])])])


def _stored_float(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    return floats(b, b.rng.integers(-100, 101, tuple(shape)).astype(np.float32) * np.float32(0.013))


def _from_int(b: ModelBuilder, stored: Stored, shape: Sequence[int], axis: int) -> str:
    integers = b.constant(f"i{b.count}", b.rng.integers(-100, 101, tuple(shape)).astype(np.int8))
    return b.node("Mul", [b.node("Cast", [integers], to=TensorProto.FLOAT), floats(b, 0.013)])


WEIGHTS: dict[str, Make] = {
    "concat": _concat,
    "slice": _slice,
    "split": _split,
    "gather": _gather,
    "expand": _repeated("Expand"),
    "tile": _repeated("Tile"),
    "pad": _pad,
    "mul": _one("Mul", 2.5),
    "mul of each channel": _per_channel_mul,
    "div": _one("Div", 3),
    "neg": _one("Neg"),
    "relu": _one("Relu"),
    "cast": _cast,
    "through float16": _through_half,
    "quantised twice": _qdq_twice,
    "mirrored": _mirrored,
    "turned": _turned,
    "shaped": _shaped,
    "stored as float": _stored_float,
    "cast from int8": _from_int,
}
"""How weights are computed of stored integers."""


@dataclass(frozen=True)
class Product:
    """An operator with weights [shape]; their results lie along `axis`."""

    kind: str
    shape: tuple[int, ...]
    axis: int
    attributes: tuple[tuple[str, object], ...] = ()


PRODUCTS = {
    "conv": Product("Conv", (6, CHANNELS, 3, 3), 0, (("pads", [1, 1, 1, 1]),)),
    "depthwise": Product("Conv", (CHANNELS, 1, 3, 3), 0, (("group", CHANNELS),)),
    "grouped": Product("Conv", (6, CHANNELS // 2, 1, 1), 0, (("group", 2),)),
    "transposed": Product("ConvTranspose", (CHANNELS, 6, 2, 2), 1, (("strides", [2, 2]),)),
    "matmul": Product("MatMul", (CHANNELS, 6), 1),
    "gemm": Product("Gemm", (CHANNELS, 6), 1),
    "gemm of rows": Product("Gemm", (6, CHANNELS), 0, (("transB", 1),)),
}

STORED = {
    "int8": Stored(),
    "int8 by channel": Stored(per_channel=True),
    "uint8": Stored(np.uint8),
    "uint8 by channel": Stored(np.uint8, per_channel=True),
}

NOT_ONE_SCALE = [("transposed", "concat"), ("transposed", "mul of each channel")]
"""ConvTranspose takes one scale for all its weights."""


def weight_forms() -> list[tuple[str, str, str]]:
    """Products, how their weights are computed, and how these are stored, where one scale by result is enough."""
    return [
        (made, form, stored)
        for made, form, stored in product(PRODUCTS, WEIGHTS, STORED)
        if (made, form) not in NOT_ONE_SCALE and not (made == "transposed" and STORED[stored].per_channel)
    ]


def with_computed_weights(made: str, form: str, stored: str, opset: int = 17) -> onnx.ModelProto:
    """One product with computed weights, between quantisers."""
    builder, of = ModelBuilder(np.random.default_rng([*f"{made} {form} {stored}".encode()])), PRODUCTS[made]
    is_image = "Conv" in of.kind
    x = builder.quantize(builder.input("x", [1, CHANNELS, SIZE, SIZE] if is_image else [3, CHANNELS]), 0.05, 3)
    weights = WEIGHTS[form](builder, STORED[stored], of.shape, of.axis)
    y = builder.node(of.kind, [x, weights], **dict(of.attributes))
    builder.output(builder.quantize(y, 0.3, -4))
    return rescaled(builder.build(opset=opset))


# -- operators on constants only ---------------------------------------------------------------------------------------

SHAPE = (1, CHANNELS, SIZE, SIZE)


def _constant(b: ModelBuilder, shape: Sequence[int] = SHAPE) -> str:
    return Stored().dequantized(b, shape, 1)


def _of_constants(kind: str, *shapes: Sequence[int], **attributes: object) -> Callable[[ModelBuilder], str]:
    return lambda b: b.node(kind, [_constant(b, shape) for shape in shapes], **attributes)


CONSTANTS: dict[str, Callable[[ModelBuilder], str]] = {
    "Conv": _of_constants("Conv", SHAPE, (CHANNELS, CHANNELS, 3, 3), pads=[1, 1, 1, 1]),
    "Add": _of_constants("Add", SHAPE, SHAPE),
    "Sub": _of_constants("Sub", SHAPE, SHAPE),
    "Mul": _of_constants("Mul", SHAPE, SHAPE),
    "Sigmoid": _of_constants("Sigmoid", SHAPE),
    "HardSwish": _of_constants("HardSwish", SHAPE),
    "MatMul": _of_constants("MatMul", SHAPE, SHAPE),
    "Softmax": _of_constants("Softmax", SHAPE, axis=1),
    "Concat": _of_constants("Concat", (1, 3, SIZE, SIZE), (1, CHANNELS - 3, SIZE, SIZE), axis=1),
    "Gather": lambda b: b.node("Gather", [_constant(b), numbers(b, list(range(CHANNELS))[::-1])], axis=1),
    "MaxPool": _of_constants("MaxPool", SHAPE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool": _of_constants("AveragePool", SHAPE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "GlobalAveragePool": _of_constants("GlobalAveragePool", SHAPE),
    "ReduceMean": lambda b: b.node("ReduceMean", [_constant(b)], axes=[2, 3]),
    "Transpose": _of_constants("Transpose", SHAPE, perm=[0, 1, 3, 2]),
    "Resize": lambda b: b.node(
        "Resize", [_constant(b, (1, CHANNELS, 2, 2)), "", floats(b, np.array([1, 1, 2, 2], np.float32))], mode="nearest"
    ),
}
"""Operators whose operands are all constant."""

INTEGERS = ("Gather", "MaxPool", "GlobalAveragePool", "ReduceMean", "Transpose", "Resize")
"""Those whose results, of eight-bit integers times a scale, are such again, or one number for each channel."""

READERS = ("Add", "Mul", "Concat")


def with_constant_operator(kind: str, reader: str, is_quantised: bool = True) -> onnx.ModelProto:
    """A convolution whose result meets that of an operator on constants, in QDQ form or as float."""
    builder = ModelBuilder(np.random.default_rng([*f"{kind} {reader}".encode()]))
    x = builder.quantize(builder.input("x", SHAPE), 0.05, 3)
    weights = Stored().dequantized(builder, (CHANNELS, CHANNELS, 1, 1), 0)
    y = builder.quantize(builder.node("Conv", [x, weights]), 0.1, 2)
    constant = CONSTANTS[kind](builder)
    if is_quantised:
        constant = builder.quantize(constant, 0.02, -3)
    is_small = kind in ("GlobalAveragePool", "ReduceMean") and reader == "Concat"
    if is_small:
        constant = builder.node("Expand", [constant, numbers(builder, SHAPE)])
    attributes = {"axis": 1} if reader == "Concat" else {}
    builder.output(builder.quantize(builder.node(reader, [y, constant], **attributes), 0.2, 1))
    return rescaled(builder.build())


# -- equal subgraphs ---------------------------------------------------------------------------------------------------


def with_equal_branches(are_shared: bool, sums: str = "Add") -> onnx.ModelProto:
    """Two equal branches of two convolutions, of the same or of equal constants, and their sum."""
    builder = ModelBuilder(np.random.default_rng(8))
    x = builder.quantize(builder.input("x", SHAPE), 0.05, 3)

    def branch(number: int) -> str:
        rng, y = np.random.default_rng(9), x
        for layer, zero in enumerate((3, -5)):
            name = f"layer{layer}" if are_shared else f"layer{layer}.{number}"
            if not are_shared or number == 0:
                values = rng.integers(-100, 101, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
                builder.constant(f"{name}.q", values)
                builder.constant(f"{name}.s", np.float32(0.01))
                builder.constant(f"{name}.z", np.int8(0))
            weights = builder.node("DequantizeLinear", [f"{name}.q", f"{name}.s", f"{name}.z"])
            y = builder.quantize(builder.node("Conv", [y, weights], pads=[1, 1, 1, 1]), 0.5, zero)
        return y

    total = builder.node(sums, [branch(0), branch(1)])
    builder.output(builder.quantize(total, 1.0, 0))
    return builder.build()
