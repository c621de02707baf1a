"""Which channels of a network's tensors may hold the same, or a constant: a program may compute one for all of them.

Channels get numbers, as in global value numbering: those with one number follow from the same inputs in the same way.
Equal numbers promise nothing, unequal ones do: whatever a compiler finds out, it cannot get one channel from another
for nothing. Example, x [1, 2, H, W] with the numbers 1 2: concat(x, relu(x)) has 1 2 1 2, and a convolution with the
weights [[3, 0, -3, 0], [0, 0, 0, 0]] of it the numbers 0 0: both of its channels are constant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.codesign.bounds.windows import tap_counts
from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, stored_shape, zeros_of
from tilewright.isa.language.numeric import IntegerType

CONSTANT = 0
"""The number of a channel that is the same for all inputs."""

Numbers = NDArray[np.int64] | None
"""One for each channel; None where nothing is known of a tensor."""

SAME = frozenset({"quantize", "dequantize", "clamp", "rescale", "lookup", "affine"})
"""Operators of one operand that give a channel for each channel: it keeps its number, for it may be the same."""

SPREADING = frozenset({"pad", "interpolate"})
"""Operators whose result has constants beside its elements, or elements that repeat or follow from their neighbours."""

POOLS = frozenset({"max_pool", "average_pool"})
PAIRS = frozenset({"add", "sub", "mul", "maximum", "minimum"})
MIXING = frozenset(
    {"reshape", "transpose", "permute", "refold", "space_to_depth", "depth_to_space"}
    | {"softmax", "normalize", "channel_max"}
)  # fmt: skip
"""Operators whose channels follow from all channels of all operands."""

PLACES = ("batches", "rows", "columns")


@dataclass(frozen=True)
class WeightRows:
    """A convolution's weights [O, inputs that differ, R, S] as a program needs them, with the result's numbers [O]."""

    weights: tuple[NDArray[np.int64], ...]  # of each channel of the result
    numbers: NDArray[np.int64]


def channels(shape: Sequence[int]) -> int | None:
    """How many channels a tensor of a shape has; None of one that operators do not see as [N, C, H, W]."""
    return stored_shape(tuple(shape))[CHANNEL] if len(shape) <= 4 else None


class ChannelNumbers:
    """The numbers of all tensors of a graph, and its convolutions' weights as weights of a machine's type."""

    def __init__(self, graph: Graph, weight: IntegerType) -> None:
        self._graph = graph
        self._weight = weight
        self._known: dict[object, int] = {}
        self.rows: dict[str, WeightRows] = {}  # by convolution, of those of which something is known
        self.spread: set[str] = set()  # tensors in which elements may repeat, or be constant, within a channel
        self._of: dict[str, Numbers] = {name: self._fresh(name) for name in graph.inputs}
        for operator in graph.operators:
            for name in operator.outputs:
                self._of[name] = self._result(operator)
                if _spreads(operator, graph) or not self.spread.isdisjoint(operator.inputs):
                    self.spread.add(name)

    def of(self, tensor: str) -> Numbers:
        if tensor in self._of:
            return self._of[tensor]
        count = channels(self._graph.tensors[tensor].shape)
        return None if count is None else np.zeros(count, np.int64)  # a constant

    def _number(self, *facts: object) -> int:
        return self._known.setdefault(facts, len(self._known) + 1)

    def _fresh(self, tensor: str) -> Numbers:
        """Numbers that no other channel has."""
        count = channels(self._graph.tensors[tensor].shape)
        return None if count is None else np.array([self._number(tensor, at) for at in range(count)], np.int64)

    def _result(self, operator: Operator) -> Numbers:
        kind, inputs = operator.kind, [self.of(name) for name in operator.inputs if name]
        known = [each for each in inputs if each is not None]
        if len(known) < len(inputs) or len(operator.outputs) != 1:
            return None
        if kind in SAME or is_still(operator, self._graph):
            return self._same(operator, known[0])
        if kind in SPREADING:
            return known[0]
        if kind in POOLS:
            return self._each(kind, repr(sorted(operator.attributes.items())), known[0])
        if kind in PAIRS:
            return self._pairs(operator, known[0], known[1])
        if kind == "conv":
            return self._conv(operator, known[0])
        if kind == "concat" and operator.attributes["axis"] == CHANNEL:
            return np.concatenate(known)
        if kind == "take":
            return known[0][list(operator.attributes["channels"])] if operator.attributes["channels"] else known[0]
        if kind in MIXING or kind in ("concat", "product"):
            return self._mixed(operator, known)
        return None

    def _same(self, operator: Operator, numbers: NDArray[np.int64]) -> Numbers:
        """Unless what the operator does to a channel leaves a constant."""
        match operator.kind:
            case "lookup":
                table = np.atleast_2d(operator.attributes["table"])
                is_constant = (table == table[:, :1]).all(axis=1)
                return np.where(np.broadcast_to(is_constant, numbers.shape), CONSTANT, numbers)
            case "affine":
                scale = self._graph.constants.get(operator.inputs[1])
                return None if scale is None or not np.all(scale) else numbers
            case _ if operator.attributes.get("low", 0) == operator.attributes.get("high", 1):
                return np.zeros_like(numbers)
        return numbers

    def _each(self, kind: str, how: str, *operands: NDArray[np.int64]) -> NDArray[np.int64]:
        """A channel of the result follows from that of each operand; of constants comes a constant."""
        columns = list(zip(*(each.tolist() for each in operands), strict=True))
        return np.array([self._number(kind, how, *each) if any(each) else CONSTANT for each in columns], np.int64)

    def _pairs(self, operator: Operator, a: NDArray[np.int64], b: NDArray[np.int64]) -> Numbers:
        constants = [self._graph.constants[name] for name in operator.inputs if name in self._graph.constants]
        if constants and operator.kind != "add" and operator.kind != "sub":
            return None  # times 0, or more than any value
        count = max(len(a), len(b))
        a, b = (np.broadcast_to(each, count) for each in (a, b))
        found = self._each(operator.kind, "", a, b)
        return np.where(a == b, CONSTANT, found) if operator.kind == "sub" else found

    def _mixed(self, operator: Operator, operands: Sequence[NDArray[np.int64]]) -> Numbers:
        """Nothing is known of what is made of channels that may be the same, or constant."""
        numbers = np.concatenate(operands)
        if len(np.unique(numbers)) < len(numbers) or not numbers.all():
            return None
        return self._fresh(operator.outputs[0])

    # -- convolutions --------------------------------------------------------------------------------------------------

    def _conv(self, operator: Operator, numbers: NDArray[np.int64]) -> Numbers:
        name, group = operator.inputs[1], operator.attributes["group"]
        if name not in self._graph.constants:
            return None
        weights = self.centred(name)
        of_groups = numbers.reshape(group, -1)
        results_of_group = len(weights) // group
        rows, found = [], []
        how = repr([operator.attributes[key] for key in ("strides", "pads", "dilations")])
        for at, own in enumerate(of_groups):
            distinct, places = np.unique(own, return_inverse=True)
            for row in weights[at * results_of_group : (at + 1) * results_of_group]:
                needed = _merged(row, distinct, places)
                rows.append(needed)
                facts = _digest(needed[needed.any(axis=(1, 2))]), _digest(distinct[needed.any(axis=(1, 2))])
                found.append(self._number(how, *facts) if needed.any() else CONSTANT)
        self.rows[operator.name] = WeightRows(tuple(rows), np.array(found, np.int64))
        return self.rows[operator.name].numbers

    def centred(self, name: str) -> NDArray[np.int64]:
        """A constant's weights [O, I, R, S] less their zero points.

        Where they do not fit a weight then, one number may be taken out of all of them, which takes one row of products
        for all channels. It may be any: those that are most often the same count as nothing.
        """
        zeros = zeros_of(name, self._graph).astype(np.int64)
        weights: NDArray[np.int64] = self._graph.constants[name].astype(np.int64) - zeros.reshape(-1, 1, 1, 1)
        held = self._weight.interval
        if weights.min(initial=0) >= held.low and weights.max(initial=0) <= held.high:
            return weights
        found, counts = np.unique(weights[weights != 0], return_counts=True)
        return np.where(weights == found[np.argmax(counts)], 0, weights)


def _spreads(operator: Operator, graph: Graph) -> bool:
    """Whether elements of the result may repeat within a channel though those of the operands do not."""
    match operator.kind:
        case "take":
            return any(len(set(chosen)) < len(chosen) for chosen in map(operator.attributes.__getitem__, PLACES))
        case "conv" | "max_pool" | "average_pool":
            return not all(map(np.all, tap_counts(operator, graph)))  # windows wholly in the padding
    return operator.kind in SPREADING


def is_still(operator: Operator, graph: Graph) -> bool:
    """Whether a reshape leaves each element where [N, C, H, W] has it."""
    names = (*operator.inputs, *operator.outputs) if operator.kind == "reshape" else ()
    shapes = [graph.tensors[name].shape for name in names]
    return bool(shapes) and max(map(len, shapes)) <= 4 and len(set(map(stored_shape, shapes))) == 1


def _merged(row: NDArray[np.int64], distinct: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The weights [I, R, S] of a result as those of the inputs that differ; none for inputs that are constant."""
    if len(distinct) == len(places):
        merged = row[np.argsort(places)]
    else:
        merged = np.zeros((len(distinct), *row.shape[1:]), np.int64)
        np.add.at(merged, places, row)
    if distinct[0] == CONSTANT:
        merged = merged.copy()
        merged[0] = 0
    return merged


def _digest(array: NDArray[np.int64]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()
