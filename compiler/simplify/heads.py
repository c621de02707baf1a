"""Heads that are computed one feature after the other: pixels of their features, in place of channels of few.

A linear layer of one token, its features seen as heads, is [1, H · D] reshaped to [1, H, 1, D]: features would become
columns, one in a word. Exchanged, [1, D, 1, H], words of features stay words. What works element by element, and takes
and joins features, does so in any order of the dimensions: rotary embedding, for example. The exchange goes on to where
the heads are read.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import TAKEN, Operator, stored_shape
from tilewright.compiler.simplify.binary import BINARY, MOST_DIMENSIONS, before_spread
from tilewright.compiler.simplify.reordered_concats import is_from_host
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.compiler.simplify.transposes import EXCHANGED, exchange, exchanged_shape


def binary_of_heads(operator: Operator, view: GraphView) -> Replacement | None:
    """add(heads, b) → exchanged(add(exchanged(heads), exchanged(b))), if to exchange b moves nothing, or undoes it."""
    inputs = tuple(before_spread(name, view) for name in operator.inputs)
    if not any(_is_split(name, view) or _exchanged_from(name, view) for name in inputs):
        return None
    return _exchanged(replace(operator, inputs=inputs), view) if all(_is_easy(name, view) for name in inputs) else None


def take_of_heads(operator: Operator, view: GraphView) -> Replacement | None:
    """take(heads) → exchanged(take(exchanged(heads)))."""
    if not _is_split(operator.inputs[0], view):
        return None
    batches, channels, rows, columns = (operator.attributes[name] for name in TAKEN)
    given = dict(zip(TAKEN, (batches, columns, rows, channels), strict=True))
    return _exchanged(replace(operator, attributes=given), view)


def concat_of_heads(operator: Operator, view: GraphView) -> Replacement | None:
    """concat(exchanged(a), exchanged(b)) → exchanged(concat(a, b)), unless the host orders one of them."""
    if any(_exchanged_from(name, view) is None or is_from_host(name, view) for name in operator.inputs):
        return None
    given = {"axis": EXCHANGED.index(operator.attributes["axis"])}
    return _exchanged(replace(operator, attributes=given), view)


def _exchanged(operator: Operator, view: GraphView) -> Replacement:
    """An operator between exchanges; those of its operands that undo others are left out."""
    result = operator.outputs[0]
    turns, inputs, types = [], [], {}
    for name in operator.inputs:
        before = _exchanged_from(name, view)
        if before is None:
            before = view.fresh(f"{name}.exchanged")
            types[before] = replace(view.type(name), shape=exchanged_shape(view.type(name).shape))
            turns.append(exchange(f"{operator.name}.turn", name, before, operator))
        inputs.append(before)
    middle = view.fresh(f"{result}.exchanged")
    types[middle] = replace(view.type(result), shape=exchanged_shape(view.type(result).shape))
    made = replace(operator, inputs=tuple(inputs), outputs=(middle,))
    return Replacement((*turns, made, exchange(f"{operator.name}.back", middle, result, operator)), types)


def _is_split(name: str, view: GraphView) -> bool:
    """Whether a tensor is the channels of pixels that stand alone, seen as heads and their features."""
    before, shape = view.producer(name, "reshape"), view.type(name).shape
    if before is None or len(shape) != MOST_DIMENSIONS or len(view.type(before.inputs[0]).shape) > MOST_DIMENSIONS:
        return False
    n, heads, rows, features = shape
    return stored_shape(view.type(before.inputs[0]).shape) == (n, heads * features, 1, 1) and rows == 1 < min(
        heads, features
    )


def _exchanged_from(name: str, view: GraphView) -> str | None:
    """The tensor that a tensor is the exchange of, if it is one, and not the heads that were exchanged here."""
    before = view.producer(name, "transpose")
    is_exchange = before is not None and before.attributes["axes"] == EXCHANGED
    return before.inputs[0] if before is not None and is_exchange and not _is_split(before.inputs[0], view) else None


def _is_easy(name: str, view: GraphView) -> bool:
    """Whether the exchange of a tensor undoes another, keeps words, or moves nothing."""
    shape = view.type(name).shape
    if len(shape) != MOST_DIMENSIONS or view.constant(name) is not None:
        return False
    moved = [axis for axis in EXCHANGED if shape[axis] != 1]
    return moved == sorted(moved) or _is_split(name, view) or _exchanged_from(name, view) is not None


HEAD_RULES = {
    **dict.fromkeys(BINARY, (binary_of_heads,)),
    "take": (take_of_heads,),
    "concat": (concat_of_heads,),
}
"""Tried before an operand of one channel is spread over many."""
