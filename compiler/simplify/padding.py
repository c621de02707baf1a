"""Pad: its padding becomes that of the convolution or pool that reads it, where both have the same value.

Example: Pad of one zero on each side, then a 3×3 Conv with pads 0, is that Conv with pads 1. On quantised tensors the
padding of a convolution is the zero point and that of a maximum the least integer, so the Pad must have this value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import COLUMN, ROW, Attribute, Operator, TensorType, stored_axis
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights
from tilewright.compiler.simplify.binary import MOST_DIMENSIONS
from tilewright.compiler.simplify.integer import EXACT_GRID, above, below, is_number, quantized_value
from tilewright.compiler.simplify.moves import taken_attributes
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.views import groups_of_four, joined_shape

REPEATING = ("edge", "reflect", "wrap")
"""Modes that repeat elements of the operand."""


def pad(operator: Operator, view: GraphView) -> Replacement | None:
    """ONNX's Pad, in three steps: repetitions and cuts; whole batches and channels; rows and columns.

    The value is in the units of the operand: real, or an integer.
    """
    source, result = operator.inputs[0], operator.outputs[0]
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        mode = attributes.text("mode", "constant")
    if mode not in ("constant", *REPEATING):
        raise CompileError(operator, f"mode = {mode!r} has no lowering", expected=", ".join(("constant", *REPEATING)))
    rank = len(view.type(source).shape)
    around = _pads(operator, rank, view)
    given = _constant(operator, 2, view)
    value = 0.0 if given is None else float(given.reshape(-1)[0])
    if math.isnan(value):
        raise CompileError(operator, "pads with NaN", expected="a number")
    if not around.any():
        return Replacement(aliases={result: source})
    if rank > MOST_DIMENSIONS:
        return _pad_of_view(operator, around, view)
    if rank < 1:
        raise CompileError(operator, "its operand has no dimensions", expected="1 or more")
    _require_possible(operator, around, mode, view.type(source).shape)
    chain = _Chain(operator, view)
    repeated = np.minimum(around, 0) if mode == "constant" else around
    if repeated.any():
        chain.take(repeated, mode)
    if mode == "constant":
        for axis, (before, after) in enumerate(np.maximum(around, 0).T.tolist()):
            if stored_axis(axis, rank) < ROW and before + after:
                chain.concat(axis, before, after, value)
        chain.pad(np.maximum(around, 0), value)
    return chain.replacement()


def _pad_of_view(operator: Operator, around: NDArray[np.int64], view: GraphView) -> Replacement:
    """A Pad of more than four dimensions, of the tensor seen as four, in which what is padded is not joined."""
    source, result = operator.inputs[0], operator.outputs[0]
    before, after = view.type(source), view.type(result)
    padded = [axis for axis, ends in enumerate(around.T) if ends.any()]
    hint = view.producer(source, "reshape")
    groups = groups_of_four(before.shape, () if hint is None else view.type(hint.inputs[0]).shape, alone=padded)
    if groups is None:
        fact = f"pads {len(padded)} of its operand's {len(before.shape)} dimensions"
        raise CompileError(operator, fact, expected=f"so few that the others can be joined to {MOST_DIMENSIONS}")
    whole, padding, grown = (view.fresh(f"{operator.name}.{part}") for part in ("whole", "padding", "grown"))
    tensors = {
        whole: replace(before, shape=joined_shape(before.shape, groups)),
        grown: replace(after, shape=joined_shape(after.shape, groups)),
    }
    ends = np.stack([around[:, list(group)].sum(axis=1) for group in groups], axis=1)
    value = operator.inputs[2:3]  # the axes behind it are those of the whole now
    operators = (
        Operator(f"{operator.name}.join", "reshape", (source,), (whole,), {}, operator.nodes),
        replace(operator, inputs=(whole, padding, *value), outputs=(grown,)),
        Operator(f"{operator.name}.part", "reshape", (grown,), (result,), {}, operator.nodes),
    )
    tensors[padding] = TensorType("int64", (ends.size,))
    return Replacement(operators, tensors, {padding: ends.ravel()})


def _require_possible(operator: Operator, around: NDArray[np.int64], mode: str, shape: tuple[int, ...]) -> None:
    """Raise CompileError where nothing is left, or a reflection is longer than what it reflects."""
    kept = np.array(shape) + np.minimum(around, 0).sum(axis=0)
    most = {"reflect": kept - 1, "wrap": kept}.get(mode, np.full(len(shape), np.iinfo(np.int64).max))
    if kept.min() < 1 or (around > most).any():
        raise CompileError(
            operator,
            f"pads = {around.ravel().tolist()} do not fit {list(shape)}",
            expected="something left, and repetitions no longer than it",
        )


def _pads(operator: Operator, rank: int, view: GraphView) -> NDArray[np.int64]:
    """[2, rank]: elements before and after, negative where some are cut off."""
    pads, axes = (_constant(operator, position, view) for position in (1, 3))
    along = range(rank) if axes is None else [int(axis) % rank for axis in axes.ravel()]
    around = np.zeros((2, rank), np.int64)
    if pads is not None:
        around[:, list(along)] = pads.reshape(2, -1)
    return around


class _Chain:
    """Operators one after the other, from an operator's first input to its output."""

    def __init__(self, operator: Operator, view: GraphView) -> None:
        self._operator, self._view = operator, view
        self._type = view.type(operator.inputs[0])
        self._made: list[Operator] = []
        self._tensors: dict[str, TensorType] = {}
        self._constants: dict[str, NDArray[Any]] = {}

    def take(self, around: NDArray[np.int64], mode: str) -> None:
        """Indices repeated beyond the ends, as numpy's pad of the same mode has them, or cut off at them."""
        taken, shape = {}, self._type.shape
        for axis, (size, (before, after)) in enumerate(zip(shape, around.T.tolist(), strict=True)):
            kept = np.arange(size)[max(0, -before) : size - max(0, -after)]
            indices = np.pad(kept, (max(0, before), max(0, after)), "edge" if mode == "constant" else mode)  # type: ignore[call-overload]
            taken[stored_axis(axis, len(shape))] = tuple(indices.tolist())
        self._add("take", taken_attributes(taken), tuple(int(size) for size in np.array(shape) + around.sum(axis=0)))

    def concat(self, axis: int, before: int, after: int, value: float) -> None:
        """Constants of one value before and after the tensor."""
        shape = list(self._type.shape)
        inputs = [self._source]
        for position, size in ((0, before), (len(inputs) + (before > 0), after)):
            if size:
                name = self._view.fresh(f"{self._operator.outputs[0]}.around{len(self._constants)}")
                piece = (*shape[:axis], size, *shape[axis + 1 :])
                self._tensors[name] = replace(self._type, shape=piece)
                self._constants[name] = np.full(piece, value, self._type.dtype)
                inputs.insert(position, name)
        shape[axis] += before + after
        self._add("concat", {"axis": stored_axis(axis, len(shape))}, tuple(shape), tuple(inputs))

    def pad(self, around: NDArray[np.int64], value: float) -> None:
        """A value around height and width."""
        shape = self._type.shape
        stored = {stored_axis(axis, len(shape)): ends for axis, ends in enumerate(around.T.tolist())}
        top, bottom = stored.get(ROW, (0, 0))
        left, right = stored.get(COLUMN, (0, 0))
        if top or left or bottom or right:
            grown = (
                size + (stored_axis(axis, len(shape)) >= ROW) * int(more)
                for axis, (size, more) in enumerate(zip(shape, around.sum(axis=0), strict=True))
            )
            self._add("pad", {"pads": (top, left, bottom, right), "value": value}, tuple(grown))

    def replacement(self) -> Replacement:
        last = replace(self._made[-1], outputs=self._operator.outputs)
        tensors = {name: self._tensors[name] for name in self._tensors if name not in self._made[-1].outputs}
        return Replacement((*self._made[:-1], last), tensors, self._constants)

    @property
    def _source(self) -> str:
        return self._made[-1].outputs[0] if self._made else self._operator.inputs[0]

    def _add(
        self, kind: str, attributes: Mapping[str, Attribute], shape: tuple[int, ...], inputs: tuple[str, ...] = ()
    ) -> None:
        result = self._view.fresh(f"{self._operator.outputs[0]}.{kind}{len(self._made)}")
        inputs = inputs or (self._source,)
        self._made.append(replace(self._operator, kind=kind, inputs=inputs, outputs=(result,), attributes=attributes))
        self._type = replace(self._type, shape=shape)
        self._tensors[result] = self._type


def _constant(operator: Operator, position: int, view: GraphView) -> NDArray[np.float64] | None:
    """An operand that must be constant; None where it is left out."""
    name = operator.inputs[position] if position < len(operator.inputs) else ""
    if not name:
        return None
    found = constant_weights(name, view)
    if found is None:
        raise CompileError(operator, f"{name!r} is computed", expected="constant pads and a constant value")
    return found.real


# -- beside the (de)quantisation ---------------------------------------------------------------------------------------


def pad_before_dequantize(operator: Operator, view: GraphView) -> Replacement | None:
    """pad(dequantize(q), v) → dequantize(pad(q, integer of v)), if v has one."""
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None:
        return None
    source = dequantize.inputs[0]
    tensor_type = view.type(source)
    assert tensor_type.quantization is not None
    steps = operator.attributes["value"] / tensor_type.quantization.scale
    if not math.isfinite(steps) or abs(steps - round(steps)) > EXACT_GRID:
        return None
    value = round(steps) + tensor_type.quantization.zero_point
    if not tensor_type.limits[0] <= value <= tensor_type.limits[1] or not is_number(value, tensor_type):
        return None
    attributes = {**operator.attributes, "value": float(value)}
    made = replace(operator, inputs=(source,), attributes=attributes)
    return below(dequantize, made, replace(tensor_type, shape=view.type(operator.outputs[0]).shape), view)


def quantize_before_pad(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(pad(x, v)) → pad(quantize(x), quantised v)."""
    before = view.producer(operator.inputs[0], "pad")
    if before is None:
        return None
    tensor_type = view.type(operator.outputs[0])
    value = quantized_value(before.attributes["value"], tensor_type)
    value = min(max(value, operator.attributes["low"]), operator.attributes["high"])
    return above(operator, replace(before, attributes={**before.attributes, "value": float(value)}), view)


# -- into the reader ---------------------------------------------------------------------------------------------------


def pad_into_reader(operator: Operator, view: GraphView) -> Replacement | None:
    """op(pad(q)) on integers → op(q) with the sum of both paddings, if the Pad has the value of op's padding."""
    before = view.producer(operator.inputs[0], "pad")
    padded = view.type(operator.inputs[0])
    if before is None or padded.quantization is None or view.type(operator.outputs[0]).quantization is None:
        return None
    outside = padded.limits[0] if operator.kind == "max_pool" else padded.quantization.zero_point
    if before.attributes["value"] != outside:
        return None
    attributes = dict(operator.attributes)
    if operator.kind == "average_pool":
        if any(attributes["pads"]) and not attributes["counts_padding"]:
            return None
        attributes["counts_padding"] = 1
    attributes["pads"] = tuple(a + b for a, b in zip(attributes["pads"], before.attributes["pads"], strict=True))
    source = before.inputs[0]
    types = (
        {} if view.type(source).quantization else {source: replace(view.type(source), quantization=padded.quantization)}
    )
    nodes = before.nodes + operator.nodes
    made = replace(operator, inputs=(source, *operator.inputs[1:]), attributes=attributes, nodes=nodes)
    return Replacement((made,), types)


PADDING_RULES = {
    "pad": (pad_before_dequantize,),
    "quantize": (quantize_before_pad,),
    "conv": (pad_into_reader,),
    "max_pool": (pad_into_reader,),
    "average_pool": (pad_into_reader,),
}
