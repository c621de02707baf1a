"""Float constants that are integers of the default type times a scale become such integers: the weights of products.

Files compute weights from quantised ones: parts put together, cut, mirrored, multiplied. The result is evaluated as
floats, and most often these are still a few integers times one scale, or one for each result of the product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Graph, Operator, Quantization
from tilewright.compiler.simplify.attributes import ConstantTensor, stored_weights
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.isa.program.stored_types import DEFAULT_TYPE

LOW, HIGH = DEFAULT_TYPE.limits

LEVELS = HIGH - LOW + 1
"""How many integers the default type holds."""

SINGLE_ROUNDING = 2.0**-24
"""How far, relatively, an integer times a scale may be from its value of single precision."""

SINGLE_ROUNDINGS = 2.0**-22
"""The same where a file multiplies, adds or divides a few times."""

HALF_ROUNDING = 2.0**-11
"""The same for values of half precision, which a file may convert to single precision."""

FLOATS = ("float32", "float16", "float64")


def quantized_weights(operator: Operator, view: GraphView) -> Replacement | None:
    """A product with float weights that are integers times scales reads these integers instead, dequantised."""
    for position in (1, 0) if operator.kind == "onnx.MatMul" else (1,):
        name = operator.inputs[position]
        values = view.constant(name)
        if values is None or values.dtype.name not in FLOATS or values.ndim < 2 or not values.size:
            continue
        found = found_weights(values, _axis_of_results(operator, position, values.ndim))
        if found is None:
            continue
        real, change = stored_weights(found, f"{name}.integers", view)
        inputs = tuple(real if at == position else each for at, each in enumerate(operator.inputs))
        return joined(change, Replacement((replace(operator, inputs=inputs),)))
    return None


def quantized_operand(operator: Operator, view: GraphView) -> Replacement | None:
    """An operator of two with a float constant that is integers times one scale reads these, dequantised."""
    for position, name in enumerate(operator.inputs):
        values = view.constant(name)
        found = None if values is None or view.type(name).quantization is not None else _found_operand(values)
        if found is not None:
            real, change = stored_weights(found, f"{name}.integers", view)
            inputs = tuple(real if at == position else each for at, each in enumerate(operator.inputs))
            return joined(change, Replacement((replace(operator, inputs=inputs),)))
    return None


def reads_float_constant(graph: Graph) -> bool:
    """Whether an operator of two was left with a float constant."""
    return any(
        name in graph.constants and graph.tensors[name].dtype in FLOATS
        for operator in graph.operators
        if operator.kind in BINARY
        for name in operator.inputs
    )


def _found_operand(values: NDArray[np.floating]) -> ConstantTensor | None:
    return found_weights(values, None) if values.dtype.name in FLOATS and values.size else None


def _axis_of_results(operator: Operator, position: int, rank: int) -> int | None:
    """The dimension of the weights that may have a scale for each index."""
    if operator.kind == "onnx.Conv":
        return 0
    if operator.kind == "onnx.Gemm":
        return 0 if operator.attributes.get("transB", 0) else 1
    if operator.kind == "onnx.MatMul" and rank == 2:
        return 1 if position else 0
    return None


def found_weights(values: NDArray[np.floating], axis: int | None) -> ConstantTensor | None:
    """Values as integers with one scale, or one for each index of an axis; None if they are not such integers.

    [0.02, -0.04, 0.06] is [1, -2, 3] times 0.02. What is meant differs by no more than the floats were rounded.
    """
    whole = _integers_of(values.ravel())
    if whole is not None:
        integers, scale, zero = whole
        return ConstantTensor(integers.reshape(values.shape), Quantization((scale,), (zero,)))
    if axis is None:
        return None
    rows = np.moveaxis(values, axis, 0)
    found = []
    for row in rows:
        each = _integers_of(row.ravel())
        if each is None:
            return None
        found.append(each)
    stacked = np.stack([integers for integers, _, _ in found]).reshape(rows.shape)
    quantization = Quantization(tuple(s for _, s, _ in found), tuple(z for _, _, z in found), axis)
    return ConstantTensor(np.ascontiguousarray(np.moveaxis(stacked, 0, axis)), quantization)


def _integers_of(values: NDArray[np.floating]) -> tuple[NDArray[Any], float, int] | None:
    """Values as integers of the default type, their scale, which is the largest that there is, and their zero point."""
    distinct, places = np.unique(values, return_inverse=True)
    if len(distinct) > LEVELS or not np.all(np.isfinite(distinct)):
        return None
    largest = float(np.abs(distinct).max())
    if largest == 0:
        return np.zeros(values.shape, DEFAULT_TYPE.dtype), 1.0, 0
    found = _steps(distinct, largest)
    if found is None:
        return None
    steps, scale = found
    zero = 0 if steps.min() >= LOW and steps.max() <= HIGH else int(LOW - min(0, steps.min()))
    return (steps + zero).astype(DEFAULT_TYPE.dtype)[places].reshape(values.shape), scale, zero


def _steps(distinct: NDArray[np.floating], largest: float) -> tuple[NDArray[np.int64], float] | None:
    """The least integers that these values are, and their scale as float32."""
    exact = distinct.astype(np.float64)
    counts = np.arange(1, LEVELS)
    steps = np.rint(exact / largest * counts[:, None])
    is_few = steps.max(axis=1).clip(min=0) - steps.min(axis=1).clip(max=0) < LEVELS
    for rounding in _roundings(exact):
        misses = np.abs(steps * (largest / counts)[:, None] - exact)
        is_near = np.all(misses <= 3 * rounding * np.abs(exact), axis=1)  # both it and the largest were rounded
        for at in np.flatnonzero(is_near & is_few):
            scale = _scale_of(steps[at], exact, rounding)
            if scale is not None:
                return steps[at].astype(np.int64), scale
    return None


def _roundings(exact: NDArray[np.float64]) -> tuple[float, ...]:
    """How far, relatively, integer times scale may be from these values; what they exactly are comes first."""
    with np.errstate(over="ignore"):
        halves = exact.astype(np.float16)
    is_half = np.array_equal(halves.astype(np.float64), exact)
    return (SINGLE_ROUNDING, SINGLE_ROUNDINGS, *((HALF_ROUNDING,) if is_half else ()))


def _scale_of(steps: NDArray[np.float64], exact: NDArray[np.float64], rounding: float) -> float | None:
    """A float32 scale with which all steps are the values to within a rounding; None if there is none."""
    is_some = steps != 0
    ratios = exact[is_some] / steps[is_some]
    low, high = ratios.max() * (1 - rounding), ratios.min() * (1 + rounding)
    middle = np.float32((low + high) / 2)
    near = (middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf)))
    fitting = [scale for scale in near if low <= float(scale) <= high and scale > 0]
    if not fitting:
        return None
    meant = exact.astype(np.float32)
    return float(max(fitting, key=lambda scale: int(np.sum(steps.astype(np.float32) * scale == meant))))


LONE_CONSTANT_RULES = dict.fromkeys(BINARY, (quantized_operand,))
"""Rules for float constants that no other rule has a use for."""
