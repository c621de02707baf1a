"""Normalisation of rows to a variance of 1: `normalize`, which is over channels.

Sources: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html (Ba, Kiros and Hinton, 2016, arXiv:1607.06450),
https://onnx.ai/onnx/operators/onnx__RMSNormalization.html (Zhang and Sennrich, 2019, arXiv:1910.07467),
https://onnx.ai/onnx/operators/onnx__LpNormalization.html,
https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html (Ulyanov and others, 2016, arXiv:1607.08022),
https://onnx.ai/onnx/operators/onnx__GroupNormalization.html (Wu and He, 2018, arXiv:1803.08494).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Attribute, Operator, TensorType, fresh_name, spread_scales
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.over_channels import over_channels
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

Reals = NDArray[Any]


def layer_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """Along `axis` and all dimensions after it, then scaled and shifted element by element."""
    parameters = [_constant(name, view) if name else np.zeros(()) for name in (*operator.inputs[1:], "")[:2]]
    with attributes_of(operator) as attributes:
        axis, epsilon = attributes.integer("axis", -1), attributes.number("epsilon", 1e-5)
        attributes.only("stash_type", 1)
    if any(name in view.outputs or view.users(name) for name in operator.outputs[1:]):
        raise CompileError(operator, "its mean or its deviation is read, too", expected="only its first result")
    scale, bias = parameters
    if scale is None or bias is None:
        return None
    return _normalized(operator, view, axis, scale, bias, epsilon, is_centred=True)


def rms_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """As LayerNormalization, but nothing is taken from the values before, and nothing added after."""
    scale = _constant(operator.inputs[1], view)
    with attributes_of(operator) as attributes:
        axis, epsilon = attributes.integer("axis", -1), attributes.number("epsilon", 1e-5)
        attributes.only("stash_type", 1)
    if scale is None:
        return None
    return _normalized(operator, view, axis, scale, np.zeros(()), epsilon, is_centred=False)


def lp_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """To a Euclidean length of 1: the mean square of so many elements is their number times less than its sum."""
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1)
        attributes.only("p", 2)
    shape = view.type(operator.inputs[0]).shape
    scale = np.array(1 / sqrt(max(1, shape[axis])))
    return _normalized(operator, view, axis, scale, np.zeros(()), 0.0, is_centred=False, is_to_the_end=False)


def instance_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """Over the positions of each channel of [N, C, …], then scaled and shifted channel by channel."""
    with attributes_of(operator) as attributes:
        epsilon = attributes.number("epsilon", 1e-5)
    return _of_groups(operator, view, view.type(operator.inputs[0]).shape[CHANNEL], epsilon)


def group_normalization(operator: Operator, view: GraphView) -> Replacement | None:
    """Over the positions of a group's channels, then scaled and shifted channel by channel."""
    with attributes_of(operator) as attributes:
        epsilon, groups = attributes.number("epsilon", 1e-5), attributes.integer("num_groups", 1)
        attributes.only("stash_type", 1)
    return _of_groups(operator, view, groups, epsilon)


def _of_groups(operator: Operator, view: GraphView, groups: int, epsilon: float) -> Replacement | None:
    """`normalize` of [N, values of a group, 1, groups]: each group is a row, with scales and biases of its own.

    Example: [1, 6, 5, 5] in 3 groups is [1, 50, 1, 3]. The first 25 scales of a row are those of its first channel.
    """
    source, result = operator.inputs[0], operator.outputs[0]
    shape, known = view.type(source).shape, [_constant(name, view) for name in operator.inputs[1:]]
    if any(value is None for value in known) or view.constant(source) is not None:
        return None
    if len(shape) < 3 or groups < 1 or shape[CHANNEL] % groups:
        raise CompileError(operator, f"{groups} groups of {list(shape)}", expected="channels, in groups of equal size")
    if epsilon < 0:
        raise CompileError(operator, f"epsilon = {epsilon:g}", expected="no negative number")
    scale, bias = (
        _of_group_rows(operator, name, value, shape, groups)
        for name, value in zip(("scale", "bias"), known, strict=True)
        if value is not None
    )
    settings = {"scale": scale, "bias": bias, "epsilon": epsilon, "is_centred": True}
    batch, length = shape[0], prod(shape[1:]) // groups
    steps: list[tuple[str, Sequence[int], dict[str, Attribute]]] = [
        ("reshape", (batch, groups, length), {}),
        ("transpose", (batch, length, groups), {"axes": (0, 2, 1)}),
        ("reshape", (batch, length, 1, groups), {}),
        ("normalize", (batch, length, 1, groups), settings),
        ("reshape", (batch, length, groups), {}),
        ("transpose", (batch, groups, length), {"axes": (0, 2, 1)}),
        ("reshape", shape, {}),
    ]
    operators, types, name = [], dict[str, TensorType](), source
    for position, (kind, made_shape, given) in enumerate(steps):
        made = result if position == len(steps) - 1 else fresh_name(view.fresh(f"{operator.name}.{kind}"), types)
        types[made] = replace(view.type(result), shape=tuple(made_shape))
        operators.append(Operator(operator.name, kind, (name,), (made,), given, operator.nodes))
        name = made
    return Replacement(tuple(operators), types)


def _of_group_rows(
    operator: Operator, name: str, value: Reals, shape: Sequence[int], groups: int
) -> NDArray[np.float64]:
    """A parameter for each channel, as [1, values of a group, 1, groups]; [1, 1, 1, groups] of groups of one channel.

    Raises CompileError for one of another shape, or with other numbers.
    """
    channels = shape[CHANNEL]
    if value.shape != (channels,):
        raise CompileError(operator, f"its {name} is {list(value.shape)}", expected=f"one for {channels} channels")
    if not np.isfinite(value).all():
        raise CompileError(operator, f"its {name} is not finite", expected="finite numbers")
    rows = value.astype(np.float64).reshape(groups, -1)
    if rows.shape[1] > 1:
        rows = np.repeat(rows, prod(shape[2:]), axis=1)
    return np.ascontiguousarray(rows.T[None, :, None, :])


def _normalized(
    operator: Operator,
    view: GraphView,
    axis: int,
    scale: Reals,
    bias: Reals,
    epsilon: float,
    is_centred: bool,
    is_to_the_end: bool = True,
) -> Replacement | None:
    """`normalize` along an axis, or along it and all after it."""
    shape = view.type(operator.inputs[0]).shape
    if view.constant(operator.inputs[0]) is not None:
        return None
    axis %= max(1, len(shape))
    rows = shape[axis:] if is_to_the_end else shape[axis : axis + 1]
    if is_to_the_end and axis < len(shape) - 1:
        shape, axis = (prod(shape[:axis]), prod(rows)), 1
    if epsilon < 0:
        raise CompileError(operator, f"epsilon = {epsilon:g}", expected="no negative number")
    settings = {
        "scale": _of_rows(operator, "scale", scale, rows).reshape(1, -1, 1, 1),
        "bias": _of_rows(operator, "bias", bias, rows).reshape(1, -1, 1, 1),
        "epsilon": epsilon,
        "is_centred": is_centred,
    }
    return over_channels(operator, view, "normalize", settings, shape, axis)


def _of_rows(operator: Operator, name: str, value: Reals, rows: tuple[int, ...]) -> NDArray[np.float64]:
    """A parameter for each element of a row; raises CompileError for one of another shape, or with other numbers."""
    shape = value.shape
    if len(shape) > len(rows) or any(size not in (1, row) for size, row in zip(shape[::-1], rows[::-1], strict=False)):
        raise CompileError(operator, f"its {name} is {list(shape)}", expected=f"one for rows of {list(rows)}")
    if not np.isfinite(value).all():
        raise CompileError(operator, f"its {name} is not finite", expected="finite numbers")
    return np.broadcast_to(value, rows).reshape(-1).astype(np.float64)


def _constant(name: str, view: GraphView) -> Reals | None:
    """The real values of a constant, which may be quantised."""
    producer = view.producer(name, "dequantize")
    value = view.constant(name if producer is None else producer.inputs[0])
    if value is None or producer is None:
        return value
    quantization = view.type(producer.inputs[0]).quantization
    assert quantization is not None
    scales, zeros = spread_scales(quantization, value.shape)
    return (value - zeros) * scales
