"""Which elements of a network's tensors every program must compute, because an output follows from them.

Of each tensor that is a box: some channels times some rows times some columns. Where readers need more than one box
holds, the larger one stands for both, so that what is needed is never too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.codesign.bounds.channels import (
    CONSTANT,
    MIXING,
    PAIRS,
    POOLS,
    SAME,
    ChannelNumbers,
    is_still,
)
from tilewright.codesign.bounds.windows import Mask, read_by
from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, stored_shape


@dataclass(frozen=True)
class Need:
    """Channels, rows and columns of a tensor that are needed."""

    channels: Mask
    rows: Mask
    columns: Mask

    @property
    def size(self) -> int:
        return int(self.channels.sum()) * int(self.rows.sum()) * int(self.columns.sum())

    @property
    def is_all(self) -> bool:
        return bool(self.channels.all() and self.rows.all() and self.columns.all())

    def beside(self, other: Need) -> Need:
        """A box of what either needs: all of it where they differ along one axis only, else the larger one."""
        own, others = self._axes, other._axes
        differ = [at for at, (a, b) in enumerate(zip(own, others, strict=True)) if not np.array_equal(a, b)]
        if len(differ) < 2 and self.size and other.size:
            return Need(*(a | b for a, b in zip(own, others, strict=True)))
        return self if self.size >= other.size else other

    @property
    def _axes(self) -> tuple[Mask, Mask, Mask]:
        return self.channels, self.rows, self.columns


def needed(graph: Graph, numbers: ChannelNumbers) -> dict[str, Need]:
    """What is needed of each tensor; of one that is not in it, nothing that is known of."""
    found = {tensor: _whole(graph, tensor) for tensor in graph.outputs.values() if _is_seen(graph, tensor)}
    for operator in reversed(graph.operators):
        need = found.get(operator.outputs[0])
        if need is None or not need.size:
            continue
        for tensor, own in _operands(operator, need, graph, numbers):
            if _is_seen(graph, tensor):
                found[tensor] = found[tensor].beside(own) if tensor in found else own
    return found


def _operands(operator: Operator, need: Need, graph: Graph, numbers: ChannelNumbers) -> Iterator[tuple[str, Need]]:
    """What is needed of each operand of an operator for what is needed of its result."""
    x = operator.inputs[0]
    match operator.kind:
        case _ if numbers.of(operator.outputs[0]) is None:
            return
        case kind if kind in SAME or is_still(operator, graph):
            yield x, _varying(need, operator, numbers)
        case kind if kind in POOLS:
            own = _varying(need, operator, numbers)
            yield x, Need(own.channels, *read_by(operator, graph, own.rows, own.columns))
        case kind if kind in PAIRS:
            own = _varying(need, operator, numbers)
            yield from ((name, _broadcast(own, graph, name)) for name in dict.fromkeys(operator.inputs))
        case "pad":
            yield x, _inside(need, operator, graph)
        case "interpolate" if need.is_all and _is_whole(operator, graph):
            yield x, _whole(graph, x)
        case "conv" if operator.name in numbers.rows:
            yield x, _of_conv(operator, need, graph, numbers)
        case "concat" if operator.attributes["axis"] == CHANNEL:
            yield from _of_concat(operator, need, graph)
        case "take":
            yield from _of_take(operator, need, graph)
        case kind if (kind in MIXING or kind in ("concat", "product")) and need.is_all:
            yield from ((name, _whole(graph, name)) for name in operator.inputs if name and _is_seen(graph, name))


def _is_seen(graph: Graph, tensor: str) -> bool:
    return len(graph.tensors[tensor].shape) <= 4


def _whole(graph: Graph, tensor: str) -> Need:
    _, *sizes = stored_shape(graph.tensors[tensor].shape)
    return Need(*(np.ones(size, bool) for size in sizes))


def _varying(need: Need, operator: Operator, numbers: ChannelNumbers) -> Need:
    """Without the channels that are constant whatever the operands are."""
    own = numbers.of(operator.outputs[0])
    assert own is not None
    return Need(need.channels & (own != CONSTANT), need.rows, need.columns)


def _broadcast(need: Need, graph: Graph, tensor: str) -> Need:
    """Of an operand of which one element may be there for many."""
    _, *sizes = stored_shape(graph.tensors[tensor].shape)
    axes = (need.channels, need.rows, need.columns)
    return Need(*(np.array([axis.any()]) if size == 1 else axis for axis, size in zip(axes, sizes, strict=True)))


def _inside(need: Need, operator: Operator, graph: Graph) -> Need:
    """What is needed of a tensor with padding, without the padding."""
    top, left, *_ = operator.attributes["pads"]
    _, _, height, width = stored_shape(graph.tensors[operator.inputs[0]].shape)
    return Need(need.channels, need.rows[top : top + height], need.columns[left : left + width])


def _is_whole(operator: Operator, graph: Graph) -> bool:
    """Whether an interpolation reads every row and column of its operand."""
    _, _, *sizes = stored_shape(graph.tensors[operator.inputs[0]].shape)
    for name, size in zip(("rows", "columns"), sizes, strict=True):
        weights = operator.attributes[name]
        read = (
            {first for first, own in zip(weights[::3], weights[1::3], strict=True) if own}
            if weights
            else set(range(size))
        )
        if len(read) < size:
            return False
    return True


def _of_conv(operator: Operator, need: Need, graph: Graph, numbers: ChannelNumbers) -> Need:
    """The inputs that have a weight in some channel of the result, and the rows and columns under its windows.

    Only taps that are in use count, in the box that they are in.
    """
    weights, group = numbers.centred(operator.inputs[1]), operator.attributes["group"]
    count = stored_shape(graph.tensors[operator.inputs[0]].shape)[CHANNEL]
    used = (weights != 0)[need.channels]
    of_group = np.flatnonzero(need.channels) // (len(weights) // group)
    channels = np.zeros((group, count // group), bool)
    np.logical_or.at(channels, of_group, used.any(axis=(2, 3)))
    rows, columns = read_by(operator, graph, need.rows, need.columns)
    if not used.any(axis=(0, 1)).all():  # a tap that no channel uses reads nothing
        rows, columns = np.zeros_like(rows), np.zeros_like(columns)
    return Need(channels.reshape(-1), rows, columns)


def _of_concat(operator: Operator, need: Need, graph: Graph) -> Iterator[tuple[str, Need]]:
    first = 0
    for name in operator.inputs:
        count = stored_shape(graph.tensors[name].shape)[CHANNEL]
        yield name, Need(need.channels[first : first + count], need.rows, need.columns)
        first += count


def _of_take(operator: Operator, need: Need, graph: Graph) -> Iterator[tuple[str, Need]]:
    """The elements that are taken and needed; nothing where not all batches are."""
    batches, *sizes = stored_shape(graph.tensors[operator.inputs[0]].shape)
    if len(set(operator.attributes["batches"]) or range(batches)) < batches:
        return
    masks = []
    axes = (need.channels, need.rows, need.columns)
    for name, axis, size in zip(("channels", "rows", "columns"), axes, sizes, strict=True):
        taken = np.array(operator.attributes[name] or range(size))
        mask = np.zeros(size, bool)
        mask[taken[axis]] = True
        masks.append(mask)
    yield operator.inputs[0], Need(*masks)
