"""Resize: nearest is a `take` of rows and columns, linear an `interpolate` with whole weights.

Source: https://onnx.ai/onnx/operators/onnx__Resize.html, opsets 11 to 21; coordinates in float32, as ONNX Runtime has
them. Example, linear by 2 with half_pixel: rows -0.25 0.25 0.75 1.25 … of the operand, so weights of 1/4 and 3/4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import COLUMN, ROW, Operator, stored_axis, stored_shape
from tilewright.compiler.simplify.attributes import SPATIAL, attributes_of
from tilewright.compiler.simplify.moves import taken_attributes
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

LARGEST_DENOMINATOR = 128
"""The largest denominator of the weights of a linear resize, so that the weights are small integers."""

WEIGHT_TOLERANCE = 1e-5
"""How far a weight computed in float32 may be from the fraction that it means."""


@dataclass(frozen=True, slots=True)
class _ResizedAxis:
    """One dimension: its elements before and after, and the factor between their coordinates."""

    size: int
    resized: int
    scale: np.float32


def resize(operator: Operator, view: GraphView) -> Replacement | None:
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    if view.constant(operator.inputs[0]) is not None:
        return None
    rank = len(source.shape)
    if rank not in (3, 4):
        raise CompileError(operator, f"its input has the shape {list(source.shape)}", expected="[N, C, H, W]")
    with attributes_of(operator) as attributes:
        mode = attributes.text("mode", "nearest")
        nearest = attributes.text("nearest_mode", "round_prefer_floor")
        coordinates = attributes.text("coordinate_transformation_mode", "half_pixel")
        axes = attributes.integers("axes") or tuple(range(rank))
        attributes.only("antialias", 0)
        attributes.only("keep_aspect_ratio_policy", "stretch")
        attributes.only("exclude_outside", 0)
        attributes.ignore("cubic_coeff_a", "extrapolation_value")  # of modes that are refused
    if mode not in ("nearest", "linear"):
        raise CompileError(operator, f"mode = {mode!r} has no lowering", expected="'nearest' or 'linear'")
    transform = _entry(operator, "coordinate_transformation_mode", coordinates, COORDINATES)
    dimensions = _dimensions(operator, source.shape, result.shape, [axis % rank for axis in axes], view)
    places = {axis: _places(transform, dimensions[axis]) for axis in range(SPATIAL, rank)}
    if mode == "nearest":
        pick = _entry(operator, "nearest_mode", nearest, NEAREST)
        taken = {stored_axis(a, rank): _clipped(map(pick, p), dimensions[a].size) for a, p in places.items()}
        made = replace(operator, kind="take", attributes=taken_attributes(taken))
    else:
        weights = {stored_axis(a, rank): _weights(operator, p, dimensions[a].size) for a, p in places.items()}
        rows, columns = weights.get(ROW, ()), weights[COLUMN]
        made = replace(operator, kind="interpolate", attributes={"rows": rows, "columns": columns})
    return Replacement((replace(made, inputs=operator.inputs[:1]),))


def drop_interpolate_of_all(operator: Operator, view: GraphView) -> Replacement | None:
    """An interpolation of reals that leaves every element as it is, is its operand."""
    if view.type(operator.outputs[0]).quantization is not None:
        return None
    sizes = stored_shape(view.type(operator.inputs[0]).shape)[ROW:]
    for name, size in zip(("rows", "columns"), sizes, strict=True):
        weights = operator.attributes[name]
        whole = tuple(n for i in range(size) for n in (i, 1, 0))
        if weights not in ((), whole):
            return None
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def _entry(
    operator: Operator, attribute: str, name: str, table: Mapping[str, Callable[..., np.float32]]
) -> Callable[..., np.float32]:
    if name not in table:
        raise CompileError(operator, f"{attribute} = {name!r} has no lowering", expected=", ".join(map(repr, table)))
    return table[name]


def _dimensions(
    operator: Operator, before: tuple[int, ...], after: tuple[int, ...], axes: Sequence[int], view: GraphView
) -> list[_ResizedAxis]:
    """Sizes and factors of all dimensions; raises CompileError for a resize of batches or channels."""
    given = _scales(operator, axes, view)
    dimensions = [
        _ResizedAxis(size, resized, np.float32(given.get(axis, resized / size)))
        for axis, (size, resized) in enumerate(zip(before, after, strict=True))
    ]
    if any(d.resized < 1 or not d.scale > 0 for d in dimensions):
        raise CompileError(operator, f"resizes to {list(after)}", expected="positive sizes and scales")
    if any(d.size != d.resized or d.scale != 1 for d in dimensions[:SPATIAL]):
        raise CompileError(operator, "resizes batches or channels", expected="height and width")
    return dimensions


def _scales(operator: Operator, axes: Sequence[int], view: GraphView) -> dict[int, float]:
    """The factor of each axis that the operator gives; none where it gives sizes."""
    name = operator.inputs[2] if len(operator.inputs) > 2 else ""
    if not name:
        return {}
    value = view.constant(name)
    if value is None:
        raise CompileError(operator, f"its scales {name!r} are computed", expected="constants")
    if value.size not in (0, len(axes)):
        raise CompileError(operator, f"{value.size} scales for {len(axes)} dimensions", expected="one each")
    return dict(zip(axes, map(float, value.ravel()), strict=False))


# -- coordinates -------------------------------------------------------------------------------------------------------


def _places(transform: Callable[[np.float32, _ResizedAxis], np.float32], axis: _ResizedAxis) -> list[np.float32]:
    """Where each index of the result lies between the operand's indices."""
    if axis.size == axis.resized and axis.scale == 1:
        return [np.float32(index) for index in range(axis.size)]
    return [np.float32(transform(np.float32(index), axis)) for index in range(axis.resized)]


HALF = np.float32(0.5)


def _half_pixel(x: np.float32, axis: _ResizedAxis) -> np.float32:
    return (x + HALF) / axis.scale - HALF


def _symmetric(x: np.float32, axis: _ResizedAxis) -> np.float32:
    adjustment = np.float32(axis.resized) / (axis.scale * np.float32(axis.size))
    center = np.float32(axis.size) / np.float32(2)
    return center * (np.float32(1) - adjustment) + (x + HALF) / axis.scale - HALF


def _align_corners(x: np.float32, axis: _ResizedAxis) -> np.float32:
    return np.float32(0) if axis.resized == 1 else x * np.float32(axis.size - 1) / np.float32(axis.resized - 1)


COORDINATES: Mapping[str, Callable[[np.float32, _ResizedAxis], np.float32]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x, axis: _half_pixel(x, axis) if axis.resized > 1 else np.float32(0),
    "asymmetric": lambda x, axis: x / axis.scale,
    "align_corners": _align_corners,
    "tf_half_pixel_for_nn": lambda x, axis: (x + HALF) / axis.scale,
}
"""coordinate_transformation_mode → the position in the operand that an index of the result stands for."""


def _round_prefer_ceil(x: np.float32) -> np.float32:
    return np.float32(np.floor(x + HALF))


NEAREST: Mapping[str, Callable[[np.float32], np.float32]] = {
    "round_prefer_floor": lambda x: np.float32(np.ceil(x - HALF)),
    "round_prefer_ceil": _round_prefer_ceil,
    "floor": lambda x: np.float32(np.floor(x)),
    "ceil": lambda x: np.float32(np.ceil(x)),
}
"""nearest_mode → which index a place between two indices is rounded to."""


def _clipped(places: map[np.float32], size: int) -> tuple[int, ...]:
    return tuple(min(max(int(place), 0), size - 1) for place in places)


def _weights(operator: Operator, places: Sequence[np.float32], size: int) -> tuple[int, ...]:
    """For each place an index of the operand, its weight, and the weight of the next index."""
    found: list[int] = []
    for place in places:
        inside = min(max(float(place), 0.0), float(size - 1))
        first = math.floor(inside + WEIGHT_TOLERANCE)
        beyond = Fraction(inside - first).limit_denominator(LARGEST_DENOMINATOR)
        if abs(float(beyond) - (inside - first)) > WEIGHT_TOLERANCE:
            raise CompileError(
                operator,
                f"a weight of {inside - first:g} is no fraction of small whole numbers",
                expected="a resize by whole factors",
            )
        found += (first, beyond.denominator - beyond.numerator, beyond.numerator)
    return tuple(found)


RESIZE_RULES = {"interpolate": (drop_interpolate_of_all,)}
