"""A program for one machine: instructions, constant data, region sizes, and what a host must know to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.encoding import Instruction, encode
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE_BITS, REGIONS, storage_bits
from tilewright.isa.program.stored_types import DEFAULT_TYPE, StoredType, stored_type
from tilewright.isa.program.windows import Windows


@dataclass(frozen=True, slots=True)
class Scales:
    """real = scale · (q - zero_point), one of each for every box of a tensor; boxes are counted in C order."""

    box: tuple[int, ...]  # elements along each dimension
    values: tuple[float, ...]
    zero_points: tuple[int, ...]

    def require_fit(self, shape: Sequence[int]) -> None:
        """Raise IsaError unless there is a scale and a zero point for each box of a tensor of this shape."""
        boxes = prod(self._counts(shape)) if len(self.box) == len(shape) else 0  # none fit
        if not len(self.values) == len(self.zero_points) == boxes or min(self.box, default=1) < 1:
            raise IsaError(
                f"boxes {list(self.box)} of {list(shape)}: expected as many dimensions, and a scale and a zero point "
                f"for each of {boxes} boxes, got {len(self.values)} and {len(self.zero_points)}"
            )

    def spread(self, shape: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scale and zero point of each element, as arrays that broadcast against a tensor of this shape."""
        scales, zeros = np.array(self.values, np.float32), np.array(self.zero_points, np.int64)
        return self._spread(scales, shape), self._spread(zeros, shape)

    def _spread(self, by_box: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        counts = self._counts(shape)
        spread = by_box.reshape(counts)
        for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
            if count > 1:
                spread = spread.repeat(self.box[axis], axis).take(range(size), axis)
        return spread

    def _counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many boxes lie along each dimension."""
        return tuple(max(1, -(-size // max(1, edge))) for size, edge in zip(shape, self.box, strict=True))


REGION_ALIGNMENT_BYTES = 4096

LEAST_SCALE = float(np.finfo(np.float32).smallest_subnormal)
GREATEST_SCALE = float(np.finfo(np.float32).max)
"""Scales are float32, as in ONNX."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the program, as the ONNX model names it and as it lies in its region.

    `shape` is the ONNX shape; `stored` is [N, C, H, W] with the same elements in the same C order (so a Flatten at an
    output, or a matrix as [N, C, 1, 1], costs nothing). In DRAM it is in blocks of `lanes` channels: shape
    [N, ceil(C / lanes), H, W, lanes], C order, from byte `offset` of its region; channels beyond C hold the zero
    point (inputs) or anything (outputs). Elements are those of isa/program/stored_types.py, little endian.
    `axes`, when it is not empty, says which dimension of the ONNX tensor becomes which: the host's array, transposed by
    it, has the elements in the stored order (images of [N, H, W, C] have axes 0, 3, 1, 2). With a `view`, the array
    is first seen as that shape: pixels [N, H · W · C] have the view [N, H, W, C]. An input with `windows` is stored as
    windows of the host's images: isa/program/windows.py says what [N, C, H, W] they are.
    A `dtype` of REALS is quantised on the way in and dequantised on the way out: real = scale · (q - zero_point),
    q of the type `integers`, or with a scale for each box where there are `scales` (`scale` is then 1, `zero_point` 0).
    Integers are stored as isa/program/stored_types.py says; `zero_point` is that of the stored ones.
    """

    name: str
    shape: tuple[int, ...]
    stored: tuple[int, int, int, int]
    dtype: str  # one of DTYPES
    scale: float
    zero_point: int
    offset: int
    lanes: int
    axes: tuple[int, ...] = ()
    windows: Windows | None = None
    integers: str = DEFAULT_TYPE.name  # one of INTEGERS: what a real is quantised to
    scales: Scales | None = None
    view: tuple[int, ...] = ()  # what `axes` turns, where it is not `shape`
    held: str = ""  # the integer type of its elements in DRAM, where it is not that of the table

    @property
    def kind(self) -> StoredType:
        """How its elements are stored."""
        return stored_type(self.dtype, self.integers, self.held)

    @property
    def element(self) -> IntegerType:
        """The integers that its stored elements are."""
        return self.kind.stored

    @property
    def element_bytes(self) -> int:
        """What an element takes in DRAM."""
        return max(BYTE_BITS, storage_bits(self.kind.element.bits)) // BYTE_BITS

    @property
    def bytes(self) -> int:
        """What the tensor takes of its region."""
        batch, channels, height, width = self.stored
        return batch * -(-channels // self.lanes) * height * width * self.lanes * self.element_bytes


def in_host_order(stored: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Elements in the stored order [N, C, H, W], or any shape of as many, as the host's array."""
    if not tensor.axes:
        return stored.reshape(tensor.shape)
    view = tensor.view or tensor.shape
    before = [view[axis] for axis in tensor.axes]
    return stored.reshape(before).transpose(np.argsort(tensor.axes)).reshape(tensor.shape)


def in_stored_order(array: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """The host's array, in any shape in which its elements are in the stored order."""
    if not tensor.axes:
        return array
    return array.reshape(tensor.view or tensor.shape).transpose(tensor.axes)


def require_elements(tensor: Tensor) -> None:
    """Raise IsaError unless the shape, the view and the axes are of just the elements that are stored."""
    stored = prod(tensor.stored) if tensor.windows is None else tensor.stored[0] * prod(tensor.windows.image)
    if prod(tensor.shape) != stored:
        raise IsaError(f"the shape {list(tensor.shape)} has {prod(tensor.shape)} elements, {stored} are stored")
    view = tensor.view or tensor.shape
    if prod(view) != prod(tensor.shape):
        raise IsaError(f"the view {list(view)} has {prod(view)} elements, the shape {prod(tensor.shape)}")
    if tensor.axes and sorted(tensor.axes) != list(range(len(view))):
        raise IsaError(f"the axes {list(tensor.axes)} are not each of 0 to {len(view) - 1} once")


def require_scales(tensor: Tensor) -> None:
    """Raise IsaError unless scales are positive numbers of 32 bits, zero points fit the stored integers, and `scales`
    fit the shape and stand alone."""
    if tensor.windows is not None and tensor.scales is not None:
        raise IsaError(f"{tensor.name}: an input with windows has one scale")
    if tensor.windows is not None and tensor.stored[1] % tensor.windows.column_elements:
        raise IsaError(
            f"{tensor.name}: {tensor.stored[1]} channels are not windows whose columns have "
            f"{tensor.windows.column_elements} elements; expected a multiple"
        )
    for scale in (tensor.scale, *(() if tensor.scales is None else tensor.scales.values)):
        if not LEAST_SCALE <= scale <= GREATEST_SCALE:
            raise IsaError(
                f"{tensor.name}: expected a scale from {LEAST_SCALE:.3g} to {GREATEST_SCALE:.3g}, as a float32 holds, "
                f"not {scale!r}"
            )
    limits = tensor.element.interval
    zeros = (tensor.zero_point, *(() if tensor.scales is None else tensor.scales.zero_points))
    if min(zeros) < limits.low or max(zeros) > limits.high:
        raise IsaError(f"{tensor.name}: zero points of {tensor.element} are from {limits.low} to {limits.high}")
    if tensor.scales is None:
        return
    tensor.scales.require_fit(tensor.shape)
    if (tensor.scale, tensor.zero_point) != (1, 0):
        raise IsaError(f"{tensor.name}: a tensor with a scale for each box has scale 1 and zero point 0 itself")


def element_scales(tensor: Tensor) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Scale and zero point of each element, as arrays that broadcast against the host's array."""
    if tensor.scales is not None:
        return tensor.scales.spread(tensor.shape)
    return np.array(tensor.scale, np.float32), np.array(tensor.zero_point, np.int64)


@dataclass(frozen=True, slots=True)
class Layer:
    """A run of instructions that serves the same ONNX nodes; ends where the next layer begins."""

    name: str
    first_instruction: int
    nodes: tuple[str, ...]
    macs: int  # multiply-accumulates of the ONNX operators, padding included; 0 for what has no products


MODEL = "model"
"""The entry of a program's metadata that names its model; the others are remarks about its layers."""


@dataclass(frozen=True)
class Program:
    """Everything a binary holds. `limits` are the bytes of each region; of `program` and `weights`, their lengths.

    `images` is how many a run takes along the first dimension of each input, none of which changes what another gives;
    None where that is not known.
    """

    machine: Machine
    instructions: tuple[Instruction, ...]
    weights: bytes
    workspace_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...] = ()
    provenance: tuple[int, ...] = ()  # per instruction: index into `layers`
    input_bytes: int = 0
    output_bytes: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)  # free text: the model's name and the like
    images: int | None = None

    @property
    def text(self) -> bytes:
        """The instructions as the machine fetches them."""
        return b"".join(map(encode, self.instructions))

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The bytes of each region."""
        return {
            "program": sum(instruction.format.bytes for instruction in self.instructions),
            "weights": len(self.weights),
            "workspace": self.workspace_bytes,
            "inputs": self.input_bytes,
            "outputs": self.output_bytes,
        }


def place_regions(limits: Mapping[str, int], first_address: int = 0) -> dict[str, int]:
    """Base address of each region: one after the other in the order of REGIONS, each on a 4 KiB boundary."""
    bases, address = {}, first_address
    for region in REGIONS:
        bases[region] = address
        address += -(-limits[region] // REGION_ALIGNMENT_BYTES) * REGION_ALIGNMENT_BYTES
    return bases


def dram_bytes(limits: Mapping[str, int]) -> int:
    """Bytes that hold all regions where `place_regions` puts them from address 0 on."""
    bases = place_regions(limits)
    return max(bases[region] + limits[region] for region in REGIONS)


def dram_image(program: Program, input_bytes: bytes = b"") -> NDArray[np.uint8]:
    """The DRAM before a run, regions where `place_regions` puts them: text, weights, `input_bytes`, the rest zero.

    Raises IsaError when there are more input bytes than the inputs region holds.
    """
    if len(input_bytes) > program.input_bytes:
        raise IsaError(f"got {len(input_bytes)} input bytes; the inputs region holds {program.input_bytes}")
    bases = place_regions(program.limits)
    image = np.zeros(dram_bytes(program.limits), np.uint8)
    for region, content in (("program", program.text), ("weights", program.weights), ("inputs", input_bytes)):
        image[bases[region] : bases[region] + len(content)] = np.frombuffer(content, np.uint8)
    return image
