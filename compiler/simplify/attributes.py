"""What rules read of an ONNX operator: its attributes, of which none is overlooked, and the constants of a product.

Attributes that nobody read are refused. Those that say how the kernel of a Conv or a pool moves become explicit:
strides, dilations and padding. Constant operands of products are seen through their DequantizeLinear, and put back
after a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, Operator, Quantization, TensorType, spread_scales
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


class Attributes:
    """The attributes of an ONNX operator, each to be read once, with the name and default that ONNX's schema gives."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self._left = dict(operator.attributes)

    def integer(self, name: str, default: int) -> int:
        return int(self._left.pop(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self._left.pop(name, default))

    def text(self, name: str, default: str) -> str:
        return str(self._left.pop(name, default))

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        value = self._left.pop(name, default)
        return None if value is None else tuple(int(item) for item in value)

    def array(self, name: str) -> NDArray[Any] | None:
        """An array that an earlier rule left, not the file."""
        value: NDArray[Any] | None = self._left.pop(name, None)
        return value

    def only(self, name: str, *allowed: int | str) -> None:
        """Read an attribute that may be left out or have one of these values; raises CompileError for others."""
        value = self._left.pop(name, allowed[0])
        if value not in allowed:
            raise CompileError(
                self.operator, f"{name} = {value!r} has no lowering", expected=" or ".join(map(repr, allowed))
            )

    def ignore(self, *names: str) -> None:
        """Attributes that do not change what the operator computes at inference."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        for name in self._left:
            raise CompileError(self.operator, f"attribute {name!r} has no lowering", remedy="remove it")


@contextmanager
def attributes_of(operator: Operator) -> Iterator[Attributes]:
    """The attributes of an operator; at the end of the block, every one must have been read."""
    attributes = Attributes(operator)
    yield attributes
    attributes.finish()


SPATIAL = 2
"""The first spatial dimension of a tensor [N, C, …], whatever its rank."""


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """How a kernel moves over [H, W]; pads are (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    @property
    def attributes(self) -> dict[str, Attribute]:
        return {"kernel": self.kernel, "strides": self.strides, "pads": self.pads, "dilations": self.dilations}


def read_window(
    attributes: Attributes, kernel: tuple[int, ...], source: TensorType, result: TensorType
) -> KernelWindow:
    """The window of a Conv or pool from its attributes; one spatial dimension is taken as the width."""
    operator, rank = attributes.operator, len(kernel)
    if rank not in (1, 2) or len(source.shape) != rank + 2:
        raise CompileError(operator, f"its input has the shape {list(source.shape)}", expected="[N, C, H, W]")
    ones = (1,) * rank
    strides = attributes.integers("strides") or ones
    dilations = attributes.integers("dilations") or ones
    pads = attributes.integers("pads") or (0,) * (2 * rank)
    auto_pad = attributes.text("auto_pad", "NOTSET")
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank or min(*strides, *dilations) < 1:
        raise CompileError(operator, f"strides, dilations or pads do not fit {rank} spatial dimensions")
    if min(pads) < 0:
        raise CompileError(operator, f"pads = {list(pads)}", expected="no negative padding")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(auto_pad, kernel, strides, dilations, source.shape[SPATIAL:], result.shape[SPATIAL:])
    elif auto_pad == "VALID":
        pads = (0,) * (2 * rank)
    elif auto_pad != "NOTSET":
        raise CompileError(operator, f"auto_pad = {auto_pad!r}", expected="NOTSET, SAME_UPPER, SAME_LOWER, VALID")
    height = (1,) * (2 - rank)
    no_pad = (0,) * (2 - rank)
    begin, end = no_pad + pads[:rank], no_pad + pads[rank:]
    return KernelWindow(
        (height + kernel)[:2],  # type: ignore[arg-type]
        (height + strides)[:2],  # type: ignore[arg-type]
        (begin + end)[:4],  # type: ignore[arg-type]
        (height + dilations)[:2],  # type: ignore[arg-type]
    )


def _same_pads(
    auto_pad: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    source: tuple[int, ...],
    result: tuple[int, ...],
) -> tuple[int, ...]:
    """Padding for a result of source / stride elements; the odd element is at the end (UPPER) or the start (LOWER)."""
    begin, end = [], []
    for k, s, d, i, o in zip(kernel, strides, dilations, source, result, strict=True):
        total = max(0, (o - 1) * s + (k - 1) * d + 1 - i)
        first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        begin.append(first)
        end.append(total - first)
    return (*begin, *end)


@dataclass(frozen=True)
class ConstantTensor:
    """A constant tensor: integers with what they mean, or floats (`quantization` is None)."""

    values: NDArray[Any]
    quantization: Quantization | None

    @property
    def real(self) -> NDArray[np.float64]:
        """What the values mean, precisely enough for any 32-bit integer."""
        if self.quantization is None:
            return self.values.astype(np.float64)
        scales, zeros = spread_scales(self.quantization, self.values.shape)
        return (self.values.astype(np.float64) - zeros) * scales


def constant_weights(name: str, view: GraphView) -> ConstantTensor | None:
    """The value of a constant, or of a constant that is dequantised; None for anything that is computed."""
    producer = view.producer(name, "dequantize")
    source = producer.inputs[0] if producer is not None else name
    value = view.constant(source)
    return None if value is None else ConstantTensor(value, view.type(source).quantization)


def reshaped(weights: ConstantTensor, shape: tuple[int, ...]) -> ConstantTensor | None:
    """A constant in another shape; None if its scales go along a dimension that the shape cuts or joins."""
    values, quantization = weights.values.reshape(shape), weights.quantization
    if quantization is None or quantization.axis is None:
        return ConstantTensor(values, quantization)
    before, after = ([axis for axis, size in enumerate(sizes) if size != 1] for sizes in (weights.values.shape, shape))
    same_sizes = [weights.values.shape[axis] for axis in before] == [shape[axis] for axis in after]
    if not same_sizes or quantization.axis not in before or quantization.block:
        return None
    return ConstantTensor(values, replace(quantization, axis=after[before.index(quantization.axis)]))


def stored_weights(weights: ConstantTensor, name: str, view: GraphView) -> tuple[str, Replacement]:
    """A constant of these weights: the name of the float tensor, and what has to be added to the graph."""
    quantization = weights.quantization
    constant = view.fresh(name)
    constant_type = TensorType(weights.values.dtype.name, weights.values.shape, quantization)
    if quantization is None:
        return constant, Replacement((), {constant: constant_type}, {constant: weights.values})
    real = view.fresh(f"{name}.real")
    operator = Operator(f"{name}.dequantize", "dequantize", (constant,), (real,))
    types = {constant: constant_type, real: TensorType("float32", constant_type.shape)}
    return real, Replacement((operator,), types, {constant: weights.values})
