"""Level 2: each (fused) operator as a loop nest around one expression, the same form as an ISA instruction.

Example, a 3×3 convolution of 16 channels to 32 on 8×8, stride 1, padding 1, requantised:

    loops   n=1 o=32 y=8 x=8, reduce i=16 r=3 s=3
    reads   x: input[n, i, y + r - 1, x + s - 1], outside: -128      w: conv1.weight[o, i, r, s]
            bias: conv1.bias[o]    scale: conv1.scale[o]    shift: conv1.shift[o]
    result  conv1[n, o, y, x] = clamp(round_shift((sum(x * w) + bias) * scale, shift) + 3, -128, 127)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import IntegerType, type_of
from tilewright.isa.program.program import Tensor


def stored_dtype(element_type: IntegerType) -> np.dtype[Any]:
    """numpy's smallest integer type that holds a type's numbers; of floats of few bits, in steps of the type."""
    return type_of(element_type.values).dtype


@dataclass(frozen=True, slots=True)
class NestLoop:
    """One loop; its index runs from 0 to `trip` - 1."""

    name: str
    trip: int
    is_reduce: bool = False


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + Σ coefficient · loop index`: one dimension's index of an access."""

    terms: tuple[tuple[str, int], ...]  # (loop, coefficient), coefficients not zero, in loop order
    constant: int = 0

    def begun(self, starts: Mapping[str, int]) -> Affine:
        """The same with loops that count from 0 where they counted from these numbers; others are as they were."""
        return Affine(self.terms, self.constant + sum(by * starts.get(loop, 0) for loop, by in self.terms))

    def fixed(self, values: Mapping[str, int]) -> Affine:
        """The same without these loops, each at its value."""
        return Affine(tuple([term for term in self.terms if term[0] not in values]), self.begun(values).constant)


@dataclass(frozen=True, slots=True)
class Access:
    """Where a nest reads or writes a tensor in each iteration; `outside` is the value of elements beyond its bounds.

    A read with `outside` None never leaves the bounds. A dimension whose index names no loop stays at one place: a
    weight that is the same for every tap, an operand that is broadcast. `i - o` with `outside` 0 is a diagonal, such as
    the weights of a depthwise convolution. A result whose index has constants, or whose loops are shorter than the
    buffer, is a part of the buffer; other nests write the rest.
    """

    tensor: str
    index: tuple[Affine, ...]  # one per dimension
    outside: int | None = None

    def begun(self, starts: Mapping[str, int]) -> Access:
        """As `Affine.begun`, in all dimensions."""
        return replace(self, index=tuple([index.begun(starts) for index in self.index]))

    def fixed(self, values: Mapping[str, int]) -> Access:
        """As `Affine.fixed`, in all dimensions."""
        return replace(self, index=tuple([index.fixed(values) for index in self.index]))


@dataclass(frozen=True, slots=True)
class BufferPart:
    """An input of the program that is a region of a buffer, from the indices `first` on."""

    tensor: str
    first: tuple[int, ...]  # one per dimension


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor of the program that is computed or fed: 4-D activations [N, C, H, W] of an integer type.

    An element of a type of floats is its number, in steps of the type, as it is in constants and expressions.
    Its `parts` have the values of inputs, which stay where they are; no nest writes there.
    """

    name: str
    shape: tuple[int, ...]
    type: IntegerType
    parts: tuple[BufferPart, ...] = ()


@dataclass(frozen=True)
class Nest:
    """One operator (or a fusion of several): for every iteration, `result` takes the value of `expr`.

    The expression's SOURCE nodes are named as in `reads`, and it has no IMMEDIATE nodes. It has at most one reduction;
    of reductions across lanes, one may stand inside another, each over all iterations. `lanes_sum` and `lanes_max` have
    the value of their argument: they say that the reduction in it is over channels, which lie in lanes. A `lut(t, x)`
    looks up in the read t, a constant [C or 1, entries] whose access indexes all dimensions but the last. Its first
    entry is for -entries / 2, or for the least value of the type that x is wrapped to.
    Every node's `range` holds for all inputs. Weights are known, so that of a `sum` is its true bound.
    """

    name: str
    nodes: tuple[str, ...]  # ONNX nodes that it computes
    loops: tuple[NestLoop, ...]  # outermost first
    reads: Mapping[str, Access]
    result: Access
    expr: Expr
    macs: int  # multiply-accumulates of the ONNX operators, padding included
    layer: str = ""  # what it is a part of, where that has another name


@dataclass(frozen=True)
class NestProgram:
    """A whole network: nests in an order that computes every buffer before it is read.

    `constants` are integer arrays (weights [O, I, R, S]; bias int32, scale, shift [O]), each of the smallest
    integer type of numpy that holds its type. `inputs` and `outputs` describe buffers, called as these are, as the host
    sees them (`offset` and `lanes` are 0 at this level).
    """

    name: str
    nests: tuple[Nest, ...]
    buffers: Mapping[str, Buffer]
    constants: Mapping[str, NDArray[Any]]
    constant_types: Mapping[str, IntegerType]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    remarks: Mapping[str, str] = field(default_factory=dict)  # what a user should know, by what it is about

    @cached_property
    def writers(self) -> Mapping[str, Sequence[Nest]]:
        """Tensor → the nests whose result it is, in order."""
        found: dict[str, list[Nest]] = {}
        for nest in self.nests:
            found.setdefault(nest.result.tensor, []).append(nest)
        return found

    @cached_property
    def readers(self) -> Mapping[str, Sequence[Nest]]:
        """Tensor → the nests that read it, in order; a nest with several reads of it comes as often."""
        found: dict[str, list[Nest]] = {}
        for nest in self.nests:
            for access in nest.reads.values():
                found.setdefault(access.tensor, []).append(nest)
        return found

    @cached_property
    def positions_of_readers(self) -> Mapping[str, Sequence[int]]:
        """Tensor → the positions of the nests that read it, in order."""
        found: dict[str, list[int]] = {}
        for position, nest in enumerate(self.nests):
            for tensor in {access.tensor for access in nest.reads.values()}:
                found.setdefault(tensor, []).append(position)
        return found


def index_range(nest: Nest, access: Access, dimension: int) -> range:
    """The range of indices of a dimension, from the smallest to the largest that a nest reads."""
    trips = {loop.name: loop.trip for loop in nest.loops}
    index = access.index[dimension]
    ends = [by * (trips[loop] - 1) for loop, by in index.terms]
    low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
    return range(index.constant + low, index.constant + high + 1)
