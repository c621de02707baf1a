"""Reshapes and transpositions of a Concat that an input goes into: the host orders the input's elements instead.

Example, a cache of keys: [1, 6, 64, 48] and the token's own, joined to [1, 6, 65, 48] and transposed to [1, 6, 48, 65].
The host transposes the cache, and what is left to move is the token's own key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tilewright.compiler.graph.graph import Operator, stored_axis
from tilewright.compiler.simplify.kinds import REORDERING
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


def reorder_before_concat(operator: Operator, view: GraphView) -> Replacement | None:
    """transpose(concat(a, b)) → concat(transpose(a), transpose(b)), where a or b is an input. The same for reshape."""
    joint = operator.inputs[0]
    before = view.producer(joint, "concat")
    if before is None or not view.is_read_once(joint):
        return None
    if not any(is_from_host(name, view) for name in before.inputs):
        return None
    shape, result = view.type(joint).shape, view.type(operator.outputs[0])
    axis = _own_axis(before.attributes["axis"], len(shape))
    after = _axis_after(operator, axis, shape, result.shape)
    if after is None or len(result.shape) > 4:
        return None
    made, types = [], {}
    for position, name in enumerate(before.inputs):
        fresh = view.fresh(f"{operator.outputs[0]}.{position}")
        size = view.type(name).shape[axis]
        types[fresh] = replace(view.type(name), shape=(*result.shape[:after], size, *result.shape[after + 1 :]))
        made.append(replace(operator, name=f"{operator.name}.{position}", inputs=(name,), outputs=(fresh,)))
    given = {"axis": stored_axis(after, len(result.shape))}
    join = replace(before, inputs=tuple(types), outputs=operator.outputs, attributes=given)
    return Replacement((*made, join), types)


def reorder_before_rescale(operator: Operator, view: GraphView) -> Replacement | None:
    """transpose(rescale(q)) → rescale(transpose(q)), where q is an input that goes into a Concat. So with reshape."""
    middle, result = operator.inputs[0], operator.outputs[0]
    before = view.producer(middle, "rescale")
    if before is None or not is_ordered_for_concat(middle, result, view):
        return None
    ordered = view.fresh(f"{result}.ordered")
    made = replace(operator, inputs=before.inputs, outputs=(ordered,))
    tensor_type = replace(view.type(before.inputs[0]), shape=view.type(result).shape)
    return Replacement((made, replace(before, inputs=(ordered,), outputs=(result,))), {ordered: tensor_type})


def is_ordered_for_concat(name: str, result: str, view: GraphView) -> bool:
    """Whether a tensor is an input that the host orders, and a result of it goes into a Concat, in whatever order."""
    return is_from_host(name, view) and _goes_into_concat(result, view)


def _goes_into_concat(name: str, view: GraphView) -> bool:
    users = view.users(name)
    return bool(users) and all(
        user.kind == "concat" or (user.kind in (*REORDERING, "rescale") and _goes_into_concat(user.outputs[0], view))
        for user in users
    )


def is_from_host(name: str, view: GraphView) -> bool:
    """Whether a tensor is an input that only one operator reads, in whatever shape and steps: the host orders it."""
    while view.is_read_once(name):
        if name in view.inputs:
            return True
        producer = view.producer(name, "quantize", "rescale", *REORDERING)
        if producer is None:
            break
        name = producer.inputs[0]
    return False


def _own_axis(axis: int, rank: int) -> int:
    """The dimension of a tensor that a dimension of [N, C, H, W] is."""
    return [stored_axis(own, rank) for own in range(rank)].index(axis)


def _axis_after(operator: Operator, axis: int, shape: Sequence[int], result: Sequence[int]) -> int | None:
    """The dimension that the axis becomes; None where a reshape joins it with others."""
    if operator.kind == "transpose":
        return int(operator.attributes["axes"].index(axis))
    return next(
        (
            position
            for position, size in enumerate(result)
            if size == shape[axis] and prod(result[:position]) == prod(shape[:axis])
        ),
        None,
    )


REORDERED_CONCAT_RULES = dict.fromkeys(REORDERING, (reorder_before_concat, reorder_before_rescale))
