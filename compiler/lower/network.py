"""The state of a network while it is lowered, and the loops and accesses that all kinds of nests share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.arithmetic import (
    Arithmetic,
    Integers,
    NumberFormat,
    adds_scaled,
    adds_to_sums,
    arithmetic_of,
    normalized,
    turns_by_picking,
    vector_blocks,
    with_common_shift,
)
from tilewright.compiler.graph.graph import COLUMN, ROW, Graph, Operator, TensorType, fresh_name, stored_shape
from tilewright.compiler.lower.normalize_format import NormalizeFormat, normalize_format
from tilewright.compiler.lower.polynomials import PolynomialFormat, Polynomials, polynomial_format
from tilewright.compiler.lower.softmax_format import SoftmaxFormat, softmax_format
from tilewright.compiler.lower.sum_formats import BlockFormat, PiecesFormat, block_format, pieces_format
from tilewright.compiler.nest.expressions import Target, source
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, stored_dtype
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import FloatType, IntegerType, Interval
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import STORED_TYPES, StoredType

WORTH_A_REMARK = 0.1
"""In steps of a result: how far off the machine's multipliers may leave it before the user is told."""

SPACE = ("n", "o", "y", "x")
"""The loops over a result, one for each dimension."""


@dataclass(frozen=True)
class Spread:
    """Another buffer in which a tensor's channels lie as well, with gaps between them."""

    buffer: str
    channels: NDArray[np.int64]  # where each channel lies there
    width: int  # channels of that buffer


@dataclass
class LoweringNetwork:
    """A graph that is being lowered, what must be known of the machine, and the nests, buffers and constants so far."""

    graph: Graph
    arithmetic: Arithmetic
    machine: Machine
    lanes: int  # channels in a word of the machine
    group: int  # words of a pixel that lie together on chip
    adds_to_sums: bool  # whether several products can make one sum
    adds_scaled: bool  # whether it can multiply a matrix, and add two tensors with a scale each
    turns_by_picking: bool  # whether only products with constants exchange channels and pixels
    nests: list[Nest] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    buffer_of: dict[str, str] = field(default_factory=dict)  # tensor → buffer
    spreads: dict[str, Spread] = field(default_factory=dict)  # by buffer
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    constant_types: dict[str, IntegerType] = field(default_factory=dict)
    functions: dict[bytes, tuple[Polynomials, dict[str, str]]] = field(default_factory=dict)  # by what they give
    remarks: dict[str, str] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> BlockFormat | None:
        """How the machine adds up sums of blocks of weights with a scale each."""
        return block_format(self.machine)

    @cached_property
    def pieces(self) -> PiecesFormat | None:
        """None: no instruction adds up accumulators in more bits."""
        return pieces_format(self.machine)

    @cached_property
    def softmax(self) -> SoftmaxFormat:
        return softmax_format(self.machine, self.arithmetic)

    @cached_property
    def normalize(self) -> NormalizeFormat:
        return normalize_format(self.machine, self.softmax, self.arithmetic)

    @cached_property
    def polynomials(self) -> PolynomialFormat | None:
        """How the machine computes functions of activations that have no tables of all values."""
        return polynomial_format(self.machine, self.arithmetic.activation)

    @property
    def from_sums(self) -> NumberFormat:
        """The widths with which sums become activations."""
        return self.arithmetic.requantization(self.arithmetic.sum, self.arithmetic.activation)

    @property
    def from_activations(self) -> NumberFormat:
        """The widths with which activations become others."""
        return self.arithmetic.requantization(self.arithmetic.activation, self.arithmetic.activation)

    def stored(self, dtype: str) -> StoredType:
        """How the machine stores numbers of a file's type: as activations, if these hold them, else as sums."""
        row = STORED_TYPES[dtype]
        found = (row.held_in(element) for element in (self.arithmetic.activation, self.arithmetic.sum))
        return next((each for each in found if each is not None), row)

    def computes(self, dtype: str) -> bool:
        """Whether operators take numbers of a file's type: whether the machine's activations hold them."""
        return STORED_TYPES[dtype].is_computed and self.stored(dtype).element == self.arithmetic.activation

    def offset(self, tensor: str) -> int:
        """What is subtracted from a tensor's integers to store them."""
        dtype = self.graph.tensors[tensor].dtype
        return self.stored(dtype).offset if dtype in STORED_TYPES else 0

    def activation(self, name: str) -> Expr:
        """A read of activations, of which nothing else is known."""
        return source(name, self.arithmetic.activation.values)

    def unlimited(self, zero: int) -> Target:
        """A result that may have every value of an activation."""
        return Target(zero, self.arithmetic.activation.values.low, self.arithmetic.activation.values.high, self.floats)

    @property
    def floats(self) -> FloatType | None:
        """The type of activations, if that is one of floats."""
        return self.arithmetic.activation if isinstance(self.arithmetic.activation, FloatType) else None

    def multipliers(
        self, factors: NDArray[np.float64], number: NumberFormat, operator: Operator
    ) -> tuple[Integers, Integers]:
        """Scale and shift of each factor; a remark says so where the machine's fields leave results far off."""
        scales, shifts = normalized(factors, number, operator)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.abs(np.ldexp(scales.astype(np.float64), -shifts) / factors - 1)
        self._remark_on_precision(operator, number, float(np.nan_to_num(relative).max(initial=0)))
        return scales, shifts

    def common_multipliers(self, a: float, b: float, operator: Operator) -> tuple[int, int, int]:
        """Scales of two factors of activations and their one shift, with the same remark."""
        number = self.from_activations
        a_scale, b_scale, shift = with_common_shift(a, b, number, operator)
        errors = abs(math.ldexp(a_scale, -shift) - a), abs(math.ldexp(b_scale, -shift) - b)
        self._remark_on_precision(operator, number, sum(errors) / max(a, b, sum(errors)))
        return a_scale, b_scale, shift

    def _remark_on_precision(self, operator: Operator, number: NumberFormat, relative_error: float) -> None:
        steps = relative_error * precision_of(self.arithmetic.activation)
        if steps > WORTH_A_REMARK:
            self.remarks[f"precision of {operator.name}"] = (
                f"the machine's multipliers of {number.scale_bits} bits and shifts of up to "
                f"{number.max_shift} leave results up to {steps:.2g} steps off"
            )

    def add_constant(self, name: str, values: NDArray[Any], element_type: IntegerType) -> str:
        name = fresh_name(name, self.constants, self.buffers)
        self.constants[name] = values.astype(stored_dtype(element_type))
        self.constant_types[name] = element_type
        return name

    def stored_constant(self, tensor: str) -> str:
        """A quantised constant of the graph as the machine stores activations."""
        values = self.graph.constants[tensor].astype(np.int64) - self.offset(tensor)
        return self.add_constant(tensor, values.reshape(self.shape(tensor)), self.arithmetic.activation)

    def add_buffer(self, name: str, shape: tuple[int, int, int, int]) -> str:
        """A buffer of activations that stands for no tensor of the graph."""
        name = fresh_name(name, self.constants, self.buffers)
        self.buffers[name] = Buffer(name, shape, self.arithmetic.activation)
        return name

    def values(self, constant: str) -> Interval:
        """The interval from a constant's least value to its greatest."""
        array = self.constants[constant]
        return Interval(int(array.min()), int(array.max()))

    def shape(self, tensor: str) -> tuple[int, int, int, int]:
        return stored_shape(self.graph.tensors[tensor].shape, f"tensor {tensor!r}")

    def quantization(self, tensor: str) -> tuple[float, int]:
        """Scale, and zero point of the stored integers."""
        tensor_type = self.graph.tensors[tensor]
        assert tensor_type.quantization is not None
        return tensor_type.quantization.scale, tensor_type.quantization.zero_point - self.offset(tensor)


def network_of(graph: Graph, machine: Machine) -> LoweringNetwork:
    """A graph of which nothing is lowered yet, and what lowering has to know of the machine."""
    arithmetic = arithmetic_of(machine)
    return LoweringNetwork(
        graph,
        arithmetic,
        machine,
        machine.lanes,
        vector_blocks(machine),
        adds_to_sums(machine),
        adds_scaled(machine),
        turns_by_picking(machine),
    )


def precision_of(element: IntegerType) -> int:
    """How many steps the greatest value is from the least; of floats, how many steps a value is that has all bits."""
    return 2 << element.mantissa_bits if isinstance(element, FloatType) else element.interval.span


def padded_channels(channels: int, network: LoweringNetwork) -> int:
    """The channels of whole vectors."""
    vector = network.lanes * network.group
    return -(-channels // vector) * vector


def result_scales(tensor_type: TensorType) -> NDArray[np.float64]:
    """The scale of a result, or that of each channel."""
    assert tensor_type.quantization is not None
    return np.array(tensor_type.quantization.scales, np.float64)


# -- loops and accesses ------------------------------------------------------------------------------------------------


def result_loops(shape: Sequence[int], **reduce: int) -> tuple[NestLoop, ...]:
    outer = (NestLoop(name, trip) for name, trip in zip(SPACE, shape, strict=True))
    return (*outer, *(NestLoop(name, trip, True) for name, trip in reduce.items()))


def affine(*terms: tuple[str, int], constant: int = 0) -> Affine:
    return Affine(terms, constant)


def identity_index() -> tuple[Affine, ...]:
    return tuple(affine((name, 1)) for name in SPACE)


@dataclass(frozen=True, slots=True)
class SpatialBox:
    """A part of the result's [H, W]: first index and size."""

    y: int
    height: int
    x: int
    width: int


def window_access(
    tensor: str, channel: str, operator: Operator, box: SpatialBox, network: LoweringNetwork, outside: int
) -> Access:
    """[n, channel, y·stride + r·dilation - pad, x·stride + s·dilation - pad]; y and x count from the box's corner."""
    strides, pads, dilations = (operator.attributes[name] for name in ("strides", "pads", "dilations"))
    kernel = kernel_of(operator, network)
    index, reaches_outside = [], False
    sizes = network.shape(tensor)[ROW:]
    for loop, tap, axis, first, count in (("y", "r", 0, box.y, box.height), ("x", "s", 1, box.x, box.width)):
        constant = first * strides[axis] - pads[axis]
        last = constant + (count - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis]
        reaches_outside |= constant < 0 or last >= sizes[axis]
        index.append(affine((loop, strides[axis]), (tap, dilations[axis]), constant=constant))
    buffer = network.buffer_of[tensor]
    return Access(buffer, (affine(("n", 1)), affine((channel, 1)), *index), outside if reaches_outside else None)


def kernel_of(operator: Operator, network: LoweringNetwork) -> tuple[int, int]:
    if operator.kind == "conv":
        _, _, height, width = network.graph.tensors[operator.inputs[1]].shape
        return height, width
    kernel: tuple[int, int] = operator.attributes["kernel"]
    return kernel


def whole(shape: Sequence[int]) -> SpatialBox:
    return SpatialBox(0, shape[ROW], 0, shape[COLUMN])


def target_of(operator: Operator, network: LoweringNetwork) -> Target:
    result_type = network.graph.tensors[operator.outputs[0]]
    assert result_type.quantization is not None and len(set(result_type.quantization.zero_points)) == 1
    offset = network.offset(operator.outputs[0])
    zero = result_type.quantization.zero_points[0] - offset
    low, high = (
        operator.attributes.get(name, limit) for name, limit in zip(("low", "high"), result_type.limits, strict=True)
    )
    return Target(zero, low - offset, high - offset, network.floats)
