"""Operators over channels, along any dimension of their operand: the moves of elements around them.

The moves are the same as those around matrix products (compiler/simplify/computed_products.py), so that what stands
between two products stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Attribute, Operator, stored_shape
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


def over_channels(
    operator: Operator,
    view: GraphView,
    kind: str,
    attributes: Mapping[str, Attribute],
    shape: Sequence[int],
    axis: int,
    others: Sequence[str] = (),
) -> Replacement:
    """An operator along `axis` of its operand, which is seen as `shape`, as one of `kind` over channels.

    A last dimension becomes the channels by a transposition, any other by a reshape. `others` are operands that have
    their channels there already.
    """
    source, result = operator.inputs[0], operator.outputs[0]
    made = replace(operator, kind=kind, inputs=(source, *others), attributes=dict(attributes))
    if axis == 1 and len(shape) <= 4 and tuple(shape) == view.type(source).shape:
        return Replacement((made,))
    outer, along, inner = prod(shape[:axis]), prod(shape[axis : axis + 1]), prod(shape[axis + 1 :])
    if axis < 2 or axis < len(shape) - 1:
        return _ChannelOperators(made, view).through((outer, along, 1, inner), None, result)
    turned = (*range(axis - 1), axis, axis - 1)
    rows = shape[axis - 1]
    return _ChannelOperators(made, view).through((outer // max(1, rows), along, 1, rows), turned, result)


def as_channels(value: NDArray[Any], shape: Sequence[int], axis: int) -> NDArray[Any]:
    """A constant of the operand's shape as [N, C, H, W], where `over_channels` has the operand."""
    if axis == 1 and len(shape) <= 4:
        return value.reshape(stored_shape(tuple(shape)))
    outer, along, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if axis < 2 or axis < len(shape) - 1:
        return value.reshape(outer, along, 1, inner)
    rows = shape[axis - 1]
    return np.ascontiguousarray(value.swapaxes(axis - 1, axis)).reshape(outer // max(1, rows), along, 1, rows)


class _ChannelOperators:
    """The operators, one after the other, that take the place of one."""

    def __init__(self, operator: Operator, view: GraphView) -> None:
        self._operator = operator
        self._view = view
        self._change = Replacement()

    def through(self, stored: Sequence[int], axes: tuple[int, ...] | None, result: str) -> Replacement:
        """A transposition by `axes`, if any, a reshape to [N, C, H, W], the operator itself, and both back."""
        shape = self._view.type(self._operator.inputs[0]).shape
        name = self._operator.inputs[0]
        if axes is not None:
            name = self._add("turned", "transpose", name, [shape[axis] for axis in axes], axes=axes)
        moved = self._shape(name)
        name = self._add("stored", "reshape", name, stored)
        name = self._add("", self._operator.kind, name, stored, *self._operator.inputs[1:], **self._operator.attributes)
        if axes is None:
            return self._ended("reshape", name, result)
        name = self._add("unstored", "reshape", name, moved)
        return self._ended("transpose", name, result, axes=axes)  # an exchange of two undoes itself

    def _shape(self, name: str) -> Sequence[int]:
        return (self._change.tensors.get(name) or self._view.type(name)).shape

    def _add(
        self, suffix: str, kind: str, source: str, shape: Sequence[int], *others: str, **attributes: object
    ) -> str:
        made = self._view.fresh(f"{self._operator.name}.{suffix or kind}")
        tensor_type = replace(self._view.type(self._operator.outputs[0]), shape=tuple(shape))
        operator = self._made(suffix, kind, (source, *others), made, attributes)
        self._change = Replacement((*self._change.operators, operator), {**self._change.tensors, made: tensor_type})
        return made

    def _ended(self, kind: str, source: str, result: str, **attributes: object) -> Replacement:
        last = self._made("back", kind, (source,), result, attributes)
        return replace(self._change, operators=(*self._change.operators, last))

    def _made(
        self, suffix: str, kind: str, sources: tuple[str, ...], made: str, attributes: dict[str, object]
    ) -> Operator:
        name = f"{self._operator.name}.{suffix}" if suffix else self._operator.name
        return Operator(name, kind, sources, (made,), attributes, self._operator.nodes)
