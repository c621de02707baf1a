"""Level 1 to level 2: each integer operator as loop nests with integer constants of the machine's widths.

The numbers are those of the plain QDQ graph: sums exact, one rounding for each operator, ties as the machine rounds.
uint8 tensors are shifted by 128 and are int8 from here on; every tensor is [N, C, H, W].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import CompileError
from compiler.graph import Graph, Operator, TensorType, describe, stored_shape
from compiler.multiplier import normalized, with_common_shift
from compiler.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from compiler.nest_expressions import Target, added, requantized, rescaled, source, sum_of_products
from compiler.number_format import NumberFormat, number_format
from compiler.simplify.weights import Weights
from isa.machine import Machine
from isa.numeric import IntegerType, Interval
from isa.program import Tensor
from isa.statement import Expr, Op, make

ACTIVATION = IntegerType(8, True)
WEIGHT = IntegerType(8, True)
UINT8_OFFSET = 128
"""What a stored value is less than its uint8."""

SPACE = ("n", "o", "y", "x")
"""The loops over a result, one for each dimension."""


def lower(graph: Graph, machine: Machine) -> NestProgram:
    """The nests of a simplified graph; raises CompileError for what no nest or number of the machine can express."""
    network = _Network(graph, number_format(machine))
    _name_buffers(network)
    for operator in graph.operators:
        if operator.kind in LOWERINGS:
            network.nests += LOWERINGS[operator.kind](operator, network)
    network.nests += _output_copies(network)
    return NestProgram(
        graph.name,
        tuple(network.nests),
        network.buffers,
        network.constants,
        network.constant_types,
        tuple(_input_tensor(name, network) for name in graph.inputs),
        tuple(_output_tensor(name, tensor, network) for name, tensor in graph.outputs.items()),
    )


@dataclass
class _Network:
    """What is known and made so far while a graph is lowered."""

    graph: Graph
    number: NumberFormat
    nests: list[Nest] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    buffer_of: dict[str, str] = field(default_factory=dict)  # tensor → buffer
    constants: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    constant_types: dict[str, IntegerType] = field(default_factory=dict)

    def add_constant(self, name: str, values: NDArray[Any], of: IntegerType) -> str:
        while name in self.constants or name in self.buffers:
            name += "'"
        self.constants[name] = values.astype(np.int64)
        self.constant_types[name] = of
        return name

    def values(self, constant: str) -> Interval:
        """The values that a constant really has."""
        array = self.constants[constant]
        return Interval(int(array.min()), int(array.max()))

    def shape(self, tensor: str) -> tuple[int, int, int, int]:
        return stored_shape(self.graph.tensors[tensor].shape, f"tensor {tensor!r}")

    def quantization(self, tensor: str) -> tuple[float, int]:
        """Scale, and zero point of the stored int8."""
        of = self.graph.tensors[tensor]
        assert of.quantization is not None
        return of.quantization.scale, of.quantization.zero_point - _offset(of)


def _offset(of: TensorType) -> int:
    return UINT8_OFFSET if of.dtype == "uint8" else 0


# -- buffers, inputs and outputs ---------------------------------------------------------------------------------------


def _name_buffers(network: _Network) -> None:
    """Give every quantised tensor its buffer: those the host sees have its names, a reshape shares its input's."""
    graph = network.graph
    roots: dict[str, str] = {name: name for name in graph.inputs}
    for operator in graph.operators:
        source = operator.inputs[0]
        if operator.kind in ("reshape", "dequantize", "quantize"):
            _require_same_storage(operator, network)
            roots |= {operator.outputs[0]: roots[source]} if source in roots else {}
        else:
            roots |= {name: name for name in operator.outputs}
    named: dict[str, str] = {name: name for name in graph.inputs}
    for name, tensor in graph.outputs.items():
        if tensor not in roots:
            raise CompileError(f"output {name!r} is constant; expected a result that depends on an input")
        named.setdefault(roots[tensor], name)
    for tensor, root in roots.items():
        network.buffer_of[tensor] = named.get(root, root)
        buffer = Buffer(named.get(root, root), network.shape(root), ACTIVATION)
        network.buffers[buffer.name] = buffer


def _require_same_storage(operator: Operator, network: _Network) -> None:
    before, after = network.shape(operator.inputs[0]), network.shape(operator.outputs[0])
    if before != after:
        raise CompileError(
            f"{describe(operator)}: the result {list(after)} is laid out otherwise than {list(before)}; expected a "
            "reshape that keeps [N, C, H, W], or one before a product with constant weights (Gemm, MatMul)"
        )


def _output_copies(network: _Network) -> list[Nest]:
    """A copy for every output whose buffer already has another name of the host's."""
    nests = []
    for name, tensor in network.graph.outputs.items():
        held = network.buffer_of[tensor]
        if held == name:
            continue
        network.buffers[name] = Buffer(name, network.shape(tensor), ACTIVATION)
        loops = _loops(network.shape(tensor))
        reads = {"a": Access(held, _identity())}
        nests.append(Nest(f"{name}.copy", (), loops, reads, Access(name, _identity()), _activation("a"), 0))
    return nests


def _input_tensor(name: str, network: _Network) -> Tensor:
    graph = network.graph
    of = graph.tensors[name]
    quantizers = [o for o in graph.operators if o.kind == "quantize" and o.inputs[0] == name]
    if of.dtype == "float32" and len(quantizers) > 1:
        raise CompileError(f"input {name!r} is quantised in {len(quantizers)} ways; expected one scale and zero point")
    if of.dtype == "float32" and quantizers:
        quantized = quantizers[0].outputs[0]
        _require_full_range(quantizers[0], graph.tensors[quantized])
    elif of.quantization is not None:
        quantized = name
    else:
        raise CompileError(f"input {name!r} does not reach an output; remove it from the model")
    scale, zero = network.quantization(quantized)
    return Tensor(name, of.shape, network.shape(name), of.dtype, scale, zero, 0, 0)


def _require_full_range(operator: Operator, of: TensorType) -> None:
    if (operator.attributes["low"], operator.attributes["high"]) != of.limits:
        raise CompileError(f"{describe(operator)}: the input is limited before it is quantised; limit it after")


def _output_tensor(name: str, tensor: str, network: _Network) -> Tensor:
    producer = network.graph.producers.get(tensor)
    quantized = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else tensor
    of = network.graph.tensors[tensor]
    scale, zero = network.quantization(quantized)
    return Tensor(name, of.shape, network.shape(tensor), of.dtype, scale, zero, 0, 0)


# -- loops and accesses ------------------------------------------------------------------------------------------------


def _loops(shape: Sequence[int], **reduce: int) -> tuple[NestLoop, ...]:
    outer = (NestLoop(name, trip) for name, trip in zip(SPACE, shape, strict=True))
    return (*outer, *(NestLoop(name, trip, True) for name, trip in reduce.items()))


def _affine(*terms: tuple[str, int], constant: int = 0) -> Affine:
    return Affine(terms, constant)


def _identity() -> tuple[Affine, ...]:
    return tuple(_affine((name, 1)) for name in SPACE)


def _activation(name: str) -> Expr:
    return source(name, ACTIVATION.interval)


@dataclass(frozen=True, slots=True)
class _Box:
    """A part of the result's [H, W]: first index and size."""

    y: int
    height: int
    x: int
    width: int


def _window_access(tensor: str, channel: str, operator: Operator, box: _Box, network: _Network, outside: int) -> Access:
    """[n, channel, y·stride + r·dilation - pad, x·stride + s·dilation - pad]; y and x count from the box's corner."""
    strides, pads, dilations = (operator.attributes[name] for name in ("strides", "pads", "dilations"))
    kernel = _kernel(operator, network)
    index, reaches_outside = [], False
    for loop, tap, axis, first, count in (("y", "r", 0, box.y, box.height), ("x", "s", 1, box.x, box.width)):
        constant = first * strides[axis] - pads[axis]
        last = constant + (count - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis]
        reaches_outside |= constant < 0 or last >= network.shape(tensor)[2 + axis]
        index.append(_affine((loop, strides[axis]), (tap, dilations[axis]), constant=constant))
    buffer = network.buffer_of[tensor]
    return Access(buffer, (_affine(("n", 1)), _affine((channel, 1)), *index), outside if reaches_outside else None)


def _kernel(operator: Operator, network: _Network) -> tuple[int, int]:
    if operator.kind == "conv":
        shape = network.graph.tensors[operator.inputs[1]].shape
        return shape[2], shape[3]
    kernel: tuple[int, int] = operator.attributes["kernel"]
    return kernel


def _whole(shape: Sequence[int]) -> _Box:
    return _Box(0, shape[2], 0, shape[3])


def _target(operator: Operator, network: _Network) -> Target:
    of = network.graph.tensors[operator.outputs[0]]
    _, zero = network.quantization(operator.outputs[0])
    offset = _offset(of)
    return Target(zero, operator.attributes["low"] - offset, operator.attributes["high"] - offset)


# -- operators ---------------------------------------------------------------------------------------------------------


def lower_conv(operator: Operator, network: _Network) -> list[Nest]:
    """sum(x · w) over input channels and taps, requantised with bias, scale and shift of each output channel."""
    x, w = operator.inputs[:2]
    result = network.shape(operator.outputs[0])
    (x_scale, x_zero), (y_scale, _) = network.quantization(x), network.quantization(operator.outputs[0])
    weights, w_scales = _symmetric_weights(operator, network)
    taps = weights.shape[0] * weights.shape[1] * weights.shape[2] * weights.shape[3]
    macs = taps * result[0] * result[2] * result[3]
    dense = _block_diagonal(weights, operator.attributes["group"])
    units = x_scale * w_scales
    bias = _integer_bias(operator, units, network) - x_zero * dense.sum(axis=(1, 2, 3))
    w_name = network.add_constant(f"{operator.name}.weight", dense, WEIGHT)
    weight_access = Access(w_name, tuple(_affine((name, 1)) for name in ("o", "i", "r", "s")))
    product = _Product(_whole(result), dense.shape[1:], weight_access, bias, units / y_scale, _sum_bounds(dense))
    return [_product_nest(operator.name, operator, product, macs, network)]


@dataclass(frozen=True)
class _Product:
    """A sum of products and its requantisation, for a box of the result."""

    box: _Box
    reduce: tuple[int, int, int]  # trips of i, r, s
    weights: Access
    bias: NDArray[np.int64]  # of each output channel
    factors: NDArray[np.float64]
    bounds: NDArray[np.int64]  # [2, O]: least and greatest sum


def _product_nest(name: str, operator: Operator, product: _Product, macs: int, network: _Network) -> Nest:
    number, box = network.number, product.box
    x, y = operator.inputs[0], operator.outputs[0]
    _, x_zero = network.quantization(x)
    target = _target(operator, network)
    bias = _bounded_bias(operator, product, target, number)
    scales, shifts = normalized(product.factors, number, describe(operator))
    parameters = {
        "bias": (bias, IntegerType(number.bias_bits, True)),
        "scale": (scales, IntegerType(number.scale_bits, False)),
        "shift": (shifts, IntegerType(number.shift_bits, False)),
    }
    reads = {"x": _window_access(x, "i", operator, box, network, outside=x_zero), "w": product.weights}
    leaves = {"w": source("w", network.values(product.weights.tensor))}
    for part, (values, of) in parameters.items():
        constant = network.add_constant(f"{name}.{part}", values, of)
        reads[part] = Access(constant, (_affine(("o", 1)),))
        leaves[part] = source(part, network.values(constant))
    bound = Interval(int(product.bounds[0].min()), int(product.bounds[1].max()))
    total = sum_of_products(_activation("x"), leaves["w"], bound)
    expr = requantized(total, leaves["bias"], leaves["scale"], leaves["shift"], target, number)
    n, o, _, _ = network.shape(y)
    i, r, s = product.reduce
    loops = _loops((n, o, box.height, box.width), i=i, r=r, s=s)
    corner = (0, 0, box.y, box.x)
    index = tuple(_affine((loop, 1), constant=first) for loop, first in zip(SPACE, corner, strict=True))
    return Nest(name, operator.nodes, loops, reads, Access(network.buffer_of[y], index), expr, macs)


def _symmetric_weights(operator: Operator, network: _Network) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Integer weights [O, I / group, R, S] with zero point 0, and the scale of each output channel."""
    name = operator.inputs[1]
    of, values = network.graph.tensors[name], network.graph.constants[name].astype(np.int64)
    assert of.quantization is not None
    offset = _offset(of)
    zeros = {zero - offset for zero in of.quantization.zero_points}
    if zeros != {0}:
        raise CompileError(
            f"{describe(operator)}: its weights have the zero point {min(zeros) + offset}; expected {offset}: "
            "quantise weights symmetrically (WeightSymmetric)"
        )
    if of.quantization.axis not in (None, 0):
        raise CompileError(
            f"{describe(operator)}: its weights have scales along another dimension than the output channels"
        )
    scales = np.broadcast_to(np.array(of.quantization.scales, np.float64), (values.shape[0],))
    return values - offset, scales


def _block_diagonal(weights: NDArray[np.int64], group: int) -> NDArray[np.int64]:
    """Weights of a grouped convolution with all input channels: [O, I / group, R, S] → [O, I, R, S], zeros between."""
    if group == 1:
        return weights
    outputs, inputs, height, width = weights.shape
    dense = np.zeros((group, outputs // group, group, inputs, height, width), np.int64)
    for index, part in enumerate(weights.reshape(group, outputs // group, inputs, height, width)):
        dense[index, :, index] = part
    return dense.reshape(outputs, group * inputs, height, width)


def _sum_bounds(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """[2, O]: the least and greatest sum of products with any activations."""
    low, high = ACTIVATION.interval.low, ACTIVATION.interval.high
    positive = np.maximum(weights, 0).sum(axis=(1, 2, 3))
    negative = np.minimum(weights, 0).sum(axis=(1, 2, 3))
    return np.stack([positive * low + negative * high, positive * high + negative * low])


def _integer_bias(operator: Operator, units: NDArray[np.float64], network: _Network) -> NDArray[np.int64]:
    """The bias of each output channel in units of input scale · weight scale."""
    if len(operator.inputs) < 3:
        return np.zeros(len(units), np.int64)
    name = operator.inputs[2]
    real = Weights(network.graph.constants[name], network.graph.tensors[name].quantization).real
    steps = np.divide(real, units, out=np.zeros(len(units)), where=units > 0)
    limit = float(1 << 62)
    return np.rint(np.clip(steps, -limit, limit)).astype(np.int64)


def _bounded_bias(operator: Operator, product: _Product, target: Target, number: NumberFormat) -> NDArray[np.int64]:
    """The biases within the machine's width.

    One that does not fit may be replaced by the nearest that does only if every sum is beyond the limits with either:
    dead channels of real networks are like that. Raises CompileError for others.
    """
    limits = IntegerType(number.bias_bits, True).interval
    bias = np.clip(product.bias, limits.low, limits.high)
    least, greatest = ((bias + bound) * product.factors + target.zero for bound in product.bounds)
    is_same = (bias == product.bias) | np.where(product.bias > 0, least > target.high + 1, greatest < target.low - 1)
    if not np.all(is_same):
        channel = int(np.argmin(is_same))
        raise CompileError(
            f"{describe(operator)}: the bias of channel {channel} with the input's zero point folded in is "
            f"{int(product.bias[channel])}; expected {limits.low} to {limits.high}"
        )
    return bias


def lower_average_pool(operator: Operator, network: _Network) -> list[Nest]:
    """The mean as a product with an identity matrix, each tap alike; one nest for each size of window that counts.

    Without padding, or when padding counts, all windows are of one size; otherwise those at the edges have their own
    scale: rows and columns with equal counts make boxes.
    """
    x, y = operator.inputs[0], operator.outputs[0]
    (x_scale, x_zero), (y_scale, _) = network.quantization(x), network.quantization(y)
    result, channels = network.shape(y), network.shape(x)[1]
    kernel = _kernel(operator, network)
    boxes = [
        (_Box(top, height, left, width), rows * columns)
        for top, height, rows in _count_runs(operator, 0, network)
        for left, width, columns in _count_runs(operator, 1, network)
    ]
    w_name = network.add_constant(f"{operator.name}.weight", np.eye(channels)[:, :, None, None], WEIGHT)
    weights = Access(w_name, (_affine(("o", 1)), _affine(("i", 1)), _affine(), _affine()))
    taps = kernel[0] * kernel[1]
    bounds = np.array([[ACTIVATION.interval.low], [ACTIVATION.interval.high]]) * np.full(channels, taps)
    bias = np.full(channels, -x_zero * taps, np.int64)
    nests = []
    for position, (box, count) in enumerate(boxes):
        factors = np.full(channels, x_scale / (y_scale * count))
        product = _Product(box, (channels, *kernel), weights, bias, factors, bounds)
        name = operator.name if len(boxes) == 1 else f"{operator.name}.part{position}"
        nests.append(_product_nest(name, operator, product, 0, network))
    assert sum(box.height * box.width for box, _ in boxes) == result[2] * result[3]
    return nests


def _count_runs(operator: Operator, axis: int, network: _Network) -> list[tuple[int, int, int]]:
    """(first index, length, count) for each run of output indices along H or W whose windows count as many elements."""
    size = network.shape(operator.inputs[0])[2 + axis]
    begin, end = operator.attributes["pads"][axis], operator.attributes["pads"][2 + axis]
    first, last = (-begin, size + end) if operator.attributes["counts_padding"] else (0, size)
    stride, dilation = operator.attributes["strides"][axis], operator.attributes["dilations"][axis]
    counts = []
    for index in range(network.shape(operator.outputs[0])[2 + axis]):
        taps = (index * stride - begin + tap * dilation for tap in range(operator.attributes["kernel"][axis]))
        counts.append(sum(first <= tap < last for tap in taps))
    if min(counts) == 0:
        raise CompileError(f"{describe(operator)}: a window lies wholly in the padding; expected less padding")
    runs, position = [], 0
    for count, group in groupby(counts):
        length = len(list(group))
        runs.append((position, length, count))
        position += length
    return runs


def lower_max_pool(operator: Operator, network: _Network) -> list[Nest]:
    """max_over(x) over the taps; what lies outside never wins."""
    x, y = operator.inputs[0], operator.outputs[0]
    result = network.shape(y)
    r, s = _kernel(operator, network)
    reads = {"a": _window_access(x, "o", operator, _whole(result), network, outside=ACTIVATION.interval.low)}
    expr = make(Op.MAX_OVER, _activation("a"))
    access = Access(network.buffer_of[y], _identity())
    return [Nest(operator.name, operator.nodes, _loops(result, r=r, s=s), reads, access, expr, 0)]


def lower_add(operator: Operator, network: _Network) -> list[Nest]:
    """Both operands centred, scaled with one shift, added, rounded once."""
    (a_scale, a_zero), (b_scale, b_zero) = (network.quantization(name) for name in operator.inputs)
    y_scale, _ = network.quantization(operator.outputs[0])
    a, b, shift = with_common_shift(a_scale / y_scale, b_scale / y_scale, network.number, describe(operator))
    target = _target(operator, network)
    expr = added(_activation("a"), a_zero, a, _activation("b"), b_zero, b, shift, target, network.number)
    return [_elementwise(operator, expr, network)]


def lower_rescale(operator: Operator, network: _Network) -> list[Nest]:
    (a_scale, a_zero), (y_scale, _) = (network.quantization(name) for name in (*operator.inputs, *operator.outputs))
    scales, shifts = normalized(np.array([a_scale / y_scale]), network.number, describe(operator))
    target = _target(operator, network)
    expr = rescaled(_activation("a"), a_zero, int(scales[0]), int(shifts[0]), target, network.number)
    return [_elementwise(operator, expr, network)]


def _elementwise(operator: Operator, expr: Expr, network: _Network) -> Nest:
    """A nest that reads each operand where it writes; a dimension of size 1 is read again and again (broadcasting)."""
    y = operator.outputs[0]
    result = network.shape(y)
    reads = {}
    for name, operand in zip(("a", "b"), operator.inputs, strict=False):
        sizes = network.shape(operand)
        index = tuple(
            _affine() if size == 1 < trip else _affine((loop, 1))
            for loop, size, trip in zip(SPACE, sizes, result, strict=True)
        )
        reads[name] = Access(network.buffer_of[operand], index)
    access = Access(network.buffer_of[y], _identity())
    return Nest(operator.name, operator.nodes, _loops(result), reads, access, expr, 0)


LOWERINGS: Mapping[str, Callable[[Operator, _Network], list[Nest]]] = {
    "conv": lower_conv,
    "average_pool": lower_average_pool,
    "max_pool": lower_max_pool,
    "add": lower_add,
    "rescale": lower_rescale,
}
