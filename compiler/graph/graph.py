"""Level 1: operators on typed tensors with quantisation. Frozen; passes make new graphs.

Operators come in two kinds. `onnx.X` is ONNX's operator X with its attributes as the file has them. The others are the
canonical operators (see CANONICAL), with every attribute present:

    quantize(x) {low, high}     float → integer, as QuantizeLinear; then limited to low … high
    dequantize(q)               integer → float, as DequantizeLinear
    conv(x, w[, b]) {strides, pads, dilations, group}     convolution over [N, C, H, W]; w [O, I / group, R, S]
    add(a, b)    sub(a, b)    mul(a, b)    maximum(a, b)    minimum(a, b)          with broadcasting
    lookup(q) {table}           integer → integer: the table's entry for each value, from the least on; [C, values] has
                                one for each channel
    clamp(x) {low, high}    reshape(x)    affine(x, scale, offset)     per channel: x · scale + offset
    max_pool(x) {kernel, strides, pads, dilations}
    average_pool(x) {kernel, strides, pads, dilations, counts_padding}
    transpose(x) {axes}         dimension i of the result is dimension axes[i] of x
    pad(x) {pads, value}        value in the units of x: real, or an integer of its type
    conv_transpose(x, w[, b]) {strides, crops, dilations, group}    w as that of conv; crops: what goes at top and left
    interpolate(x) {rows, columns}    for each place of the result the first element, its weight, and that of the next
    space_to_depth(x) {block}    depth_to_space(x) {block, order}    as ONNX's; see pixel_blocks.py
    refold(x)                   rows joined to one, or one row cut: another height and width, elements in the same order
    concat(a, b, …) {axis}      along a dimension of [N, C, H, W]
    take(x) {batches, channels, rows, columns}    the operand's indices along each dimension of [N, C, H, W]; () is all
    rescale(q) {low, high}      integer → integer of another scale and zero point
    product(a, b) {is_transposed, factor}    y[n, l, 0, m] = factor · Σ a[n, k, 0, m] · b[n, l, 0, k]; b[n, k, 0, l] if
                                is_transposed; factor is a positive number
    softmax(x, kept) {mask}     exp(x) over the sum of exp(x), of the channels of [N, C, H, W]; where mask, an array of
                                [1 or N, C, H, W], is 0, x counts for nothing and the result is 0; () is no mask;
                                where kept, a tensor of [1 or N, C, 1 or H, 1 or W], is 0, too; kept may be left out
    normalize(x) {scale, bias, epsilon, is_centred}    of the channels of [N, C, H, W]: less their mean if is_centred,
                                over the root of their mean square and epsilon; then times scale, plus bias, which
                                are arrays of [1 or N, 1 or C, 1 or H, 1 or W]
    channel_max(x)              the largest of the channels of [N, C, H, W]
    permute(x) {shape, axes}    x seen as `shape`, of any rank, its elements in order; transposed by `axes`; then seen
                                as the result's shape

A canonical operator on quantised tensors means: dequantise its operands, compute in real numbers, quantise to the
result's type, limit to its `low` … `high`. Each tensor's quantisation is in its type. Of floats of few bits, numbers
are integers in steps of the type's least value, and a scale is that of a step. Pads are (top, left, bottom, right).
Operators on windows see a tensor as [N, C, H, W] whatever its rank (`stored_shape`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, Named, describe
from tilewright.isa.language.numeric import parse_integer_type
from tilewright.isa.program.program import Scales
from tilewright.isa.program.stored_types import FLOATS, STORED_TYPES

BATCH, CHANNEL, ROW, COLUMN = range(4)
"""The dimensions of a tensor as operators see it, [N, C, H, W]."""

WINDOW = ("kernel", "strides", "pads", "dilations")
TAKEN = ("batches", "channels", "rows", "columns")

MACS = "macs"
"""An attribute of a convolution with other weights than the model's, some of them 0: the model's multiplications."""

JOINED = "joined"
"""An attribute of a convolution: how many columns of the model's result are one column of its result."""

LEAK = "leak"
"""An attribute of a convolution: what negative sums are multiplied by, before rounding; one, or each channel's."""

FACTOR = "factor"
"""An attribute of a sum, difference or product of two tensors: what it is multiplied by, before it is rounded."""

BETWEEN = "between"
"""An attribute of an operator before whose own rounding others lie that the model has not: how many steps of its result
they can move it, in all."""

REAL = "real"
"""An attribute of a lookup of more values than a byte has: each result before it was rounded, in its own steps."""

ANY = range(1, 1 << 16)
"""Any number of inputs."""

CANONICAL: Mapping[str, tuple[Sequence[int], tuple[str, ...]]] = {
    "quantize": ((1,), ("low", "high")),
    "dequantize": ((1,), ()),
    "conv": ((2, 3), ("strides", "pads", "dilations", "group")),
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), ((2,), ())),
    "lookup": ((1,), ("table",)),
    "clamp": ((1,), ("low", "high")),
    "reshape": ((1,), ()),
    "affine": ((3,), ()),
    "max_pool": ((1,), WINDOW),
    "average_pool": ((1,), (*WINDOW, "counts_padding")),
    "transpose": ((1,), ("axes",)),
    "pad": ((1,), ("pads", "value")),
    "rescale": ((1,), ("low", "high")),
    "conv_transpose": ((2, 3), ("strides", "crops", "dilations", "group")),
    "interpolate": ((1,), ("rows", "columns")),
    "space_to_depth": ((1,), ("block",)),
    "depth_to_space": ((1,), ("block", "order")),
    "refold": ((1,), ()),
    "concat": (ANY, ("axis",)),
    "take": ((1,), TAKEN),
    "product": ((2,), ("is_transposed", "factor")),
    "permute": ((1,), ("shape", "axes")),
    "softmax": ((1, 2), ("mask",)),
    "normalize": ((1,), ("scale", "bias", "epsilon", "is_centred")),
    "channel_max": ((1,), ()),
}
"""Canonical operator → how many inputs it may have, and the attributes that it always has."""

Attribute = Any
"""int, float, str, a tuple of these, or a numpy array."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale · (q - zero_point): one scale and zero point for the tensor, or one for each index of `axis`.

    With a `block`, there is one for each so many indices of `axis` and each index of every other dimension, in C order.
    """

    scales: tuple[float, ...]  # as the model has them, values of float32
    zero_points: tuple[int, ...]
    axis: int | None = None
    block: int = 0

    @property
    def scale(self) -> float:
        """The scale of a tensor that has one."""
        assert self.axis is None
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        assert self.axis is None
        return self.zero_points[0]


def scales_of_parts(quantization: Quantization, shape: Sequence[int]) -> Scales:
    """Scales and zero points with the box of elements that each is for: (1, 1, 8, 8) for a channel of [1, 3, 8, 8]."""
    others = [1] * len(shape) if quantization.block else list(shape)
    box = tuple(max(1, quantization.block) if axis == quantization.axis else size for axis, size in enumerate(others))
    return Scales(box, quantization.scales, quantization.zero_points)


def spread_scales(quantization: Quantization, shape: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scales and zero points as arrays that broadcast against a tensor of a shape."""
    scales, zeros = scales_of_parts(quantization, shape).spread(shape)
    return scales.astype(np.float64), zeros.astype(np.float64)


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (numpy's name), shape, and for quantised tensors what the integers mean."""

    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and greatest value of an integer type; of floats of few bits, in steps of the type."""
        if self.dtype in FLOATS:
            return STORED_TYPES[self.dtype].limits
        limits = parse_integer_type(self.dtype).interval
        return limits.low, limits.high


@dataclass(frozen=True)
class Operator:
    """One operator; optional inputs that are left out are empty strings."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()  # ONNX nodes that it computes


@dataclass(frozen=True)
class Graph:
    """A network. Operators are in an order that computes each tensor before it is read; `tensors` has every tensor.

    `outputs` maps the host's name of an output to its tensor; inputs have the host's names.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: Mapping[str, TensorType]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    opset: int

    @cached_property
    def producers(self) -> Mapping[str, Operator]:
        """The operator that computes a tensor."""
        return {output: operator for operator in self.operators for output in operator.outputs}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[Operator]]:
        """The operators that read each tensor, in order and each once; unread tensors are left out."""
        found: dict[str, list[Operator]] = {}
        for operator in self.operators:
            for name in dict.fromkeys(operator.inputs):
                found.setdefault(name, []).append(operator)
        return found

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each tensor is read, graph outputs included; unread tensors are left out."""
        counts: dict[str, int] = {}
        for operator in self.operators:
            for name in operator.inputs:
                counts[name] = counts.get(name, 0) + 1
        for name in self.outputs.values():
            counts[name] = counts.get(name, 0) + 1
        return counts


def stored_shape(shape: tuple[int, ...], what: str | Named = "tensor") -> tuple[int, int, int, int]:
    """A tensor of any rank up to 4 as [N, C, H, W], elements in the same order.

    [N, C, H, W] stays, [N, C, L] → [N, C, 1, L], [N, C] → [N, C, 1, 1], [C] → [1, C, 1, 1], [] → [1, 1, 1, 1].
    """
    match shape:
        case (n, c, h, w):
            return n, c, h, w
        case (n, c, length):
            return n, c, 1, length
        case (n, c):
            return n, c, 1, 1
        case (c,):
            return 1, c, 1, 1
        case ():
            return 1, 1, 1, 1
    fact = f"{describe(what)} has {len(shape)} dimensions, {list(shape)}"
    raise CompileError(fact=fact, expected="at most 4: [N, C, H, W]")


def stored_axis(axis: int, rank: int) -> int:
    """The dimension of [N, C, H, W] that a dimension of a tensor becomes in `stored_shape`."""
    dimensions = {
        4: (BATCH, CHANNEL, ROW, COLUMN),
        3: (BATCH, CHANNEL, COLUMN),
        2: (BATCH, CHANNEL),
        1: (CHANNEL,),
    }
    return dimensions[rank][axis]


def has_scales_of_outputs(constant: str, graph: Graph) -> bool:
    """Whether weights have one scale and zero point, or one for each output channel: the form that is computed."""
    quantization = graph.tensors[constant].quantization
    return quantization is None or quantization.axis in (None, 0)


def zeros_of(constant: str, graph: Graph) -> NDArray[Any]:
    """[O]: the integer that means 0 for each output channel of weights that `has_scales_of_outputs`."""
    values, quantization = graph.constants[constant], graph.tensors[constant].quantization
    points = (0,) if quantization is None else quantization.zero_points
    return np.broadcast_to(np.array(points, values.dtype), values.shape[:1])


def block_diagonal(weights: NDArray[Any], group: int, zero: NDArray[Any]) -> NDArray[Any]:
    """[O, I, R, S] of [O, I / group, R, S]: weights for all input channels, `zero` [O] between the groups."""
    if group == 1:
        return weights
    outputs, own, rows, taps = weights.shape
    full = np.empty((group, outputs // group, group, own, rows, taps), weights.dtype)
    full[:] = zero.reshape(group, -1, 1, 1, 1, 1)
    each = np.arange(group)
    full[each, :, each] = weights.reshape(group, outputs // group, own, rows, taps)
    return full.reshape(outputs, group * own, rows, taps)


def model_macs(conv: Operator, graph: Graph) -> int:
    """The multiplications of the model's convolution, whatever weights this one has."""
    batch, _, height, width = stored_shape(graph.tensors[conv.outputs[0]].shape)
    return int(conv.attributes.get(MACS, graph.constants[conv.inputs[1]].size * batch * height * width))


def fresh_name(name: str, *taken: Container[str]) -> str:
    """The name, with as many primes as make it differ from all that are taken."""
    while any(name in names for names in taken):
        name += "'"
    return name


def numbered_name(name: str, taken: Mapping[str, object]) -> str:
    """The name, numbered from 2 on where it is taken."""
    candidates = [name, *(f"{name}{count}" for count in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)
