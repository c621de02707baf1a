"""Joins columns of tensors with few channels where the exact cycle model finds that layers then take fewer cycles.

An estimate proposes which. The network stays the same, with other shapes and other weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.columns.reach import ColumnReach, joined_weights, reach_of
from tilewright.compiler.graph.graph import (
    CHANNEL,
    COLUMN,
    JOINED,
    LEAK,
    MACS,
    Attribute,
    Graph,
    Operator,
    Quantization,
    TensorType,
    block_diagonal,
    fresh_name,
    model_macs,
    zeros_of,
)
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import mma_tile

Measure = Callable[[Graph], int | None]
"""The exact cycles of a network; None if the machine has no program for it."""

WORTH = 0.02
"""The least share of their cycles that layers, alone, must save for their columns to be joined."""

MOST_TRIED = 4
"""So many proposals are measured at the most."""


@dataclass(frozen=True, slots=True)
class MeasuredColumns:
    """A proposal, and the exact cycles of the layers around it as they are and with joined columns."""

    proposal: ColumnProposal
    before: int | None
    after: int | None

    @property
    def is_worth(self) -> bool:
        return self.before is not None and self.after is not None and self.after < self.before * (1 - WORTH)


def columns(graph: Graph, machine: Machine, measure: Measure) -> Graph:
    """The graph with columns joined where that pays; the same graph where it does not."""
    for each in measured(graph, machine, measure):
        if each.is_worth:
            graph = with_joined_columns(graph, each.proposal.joined, each.proposal.factor)
    return graph


def measured(graph: Graph, machine: Machine, measure: Measure) -> list[MeasuredColumns]:
    """The best proposals with their cycles. After one that is worth it, no other about the same tensors is measured."""
    found: list[MeasuredColumns] = []
    decided: set[str] = set()
    single: dict[Joined, int | None] = {}  # other numbers of columns may be proposed for the same tensors
    for proposal in proposals(graph, machine)[:MOST_TRIED]:
        if not decided.isdisjoint(proposal.joined):
            continue
        region = region_of(graph, proposal.joined)
        joined = with_joined_columns(region, proposal.joined, proposal.factor)
        if proposal.joined not in single:
            single[proposal.joined] = measure(region)
        found.append(MeasuredColumns(proposal, single[proposal.joined], measure(joined)))
        if found[-1].is_worth:
            decided |= proposal.joined
    return found


def region_of(graph: Graph, joined: Joined) -> Graph:
    """The operators that read or write some tensors, as a network of its own, with the host's quantisation before."""
    kept = [each for each in graph.operators if joined.intersection((*each.inputs, *each.outputs))]
    made = {name for each in kept for name in each.outputs}
    read = {name for each in kept for name in each.inputs if name}
    for each in graph.operators:
        if each.kind == "quantize" and each.outputs[0] in read - made:
            kept.insert(0, each)
            made.add(each.outputs[0])
            read.add(each.inputs[0])
    inputs = tuple(name for name in graph.tensors if name in read - made and name not in graph.constants)
    outside = {name for each in graph.operators if each not in kept for name in each.inputs}
    leaving = [name for each in kept for name in each.outputs if name in outside or name in graph.outputs.values()]
    names = {name: name for name in leaving if name not in joined}
    return replace(graph, operators=tuple(kept), inputs=inputs, outputs=names)


# -- which columns to join: an estimate, from the vectors that each layer streams through the array --------------------


BY_ELEMENT = ("add", "sub", "mul", "maximum", "minimum", "clamp", "rescale", "lookup")
"""Operators whose result has the columns of their operands."""

MOST_WEIGHTS = 1 << 22
"""A convolution that had more weights with joined columns keeps its own: few channels are not its trouble."""

Joined = frozenset[str]
"""Tensors whose columns are joined."""


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """Tensors of which so many columns are joined, and by how many cycles the layers around them should be faster."""

    joined: Joined
    factor: int
    saved: int


def proposals(graph: Graph, machine: Machine) -> list[ColumnProposal]:
    """What seems worth joining, the best first. Each can be taken alone; two may be about the same tensors."""
    found, factor = list[ColumnProposal](), 2
    while factor <= max(machine.array.cols, machine.lanes):
        found += _ColumnSearch(graph, machine, factor).found()
        factor *= 2
    return sorted(found, key=lambda each: (-each.saved, each.factor, sorted(each.joined)))


class _ColumnSearch:
    """Looks for the tensors of which `factor` columns are best joined."""

    def __init__(self, graph: Graph, machine: Machine, factor: int) -> None:
        self._graph = graph
        self._factor = factor
        self._array, self._least = machine.array, mma_tile(machine.array)
        self._lanes = machine.lanes
        self._costs: dict[tuple[str, bool, bool], int] = {}
        self._hosts = frozenset(graph.outputs.values())

    def found(self) -> list[ColumnProposal]:
        """What each convolution with few channels asks for, as long as that saves cycles, in pieces that touch."""
        joined: Joined = frozenset()
        for conv in filter(self._has_few_channels, self._graph.operators):
            for wanted in (conv.outputs, (conv.inputs[0], *conv.outputs)):
                more = self._with_what_follows(joined, wanted)
                if more is not None and self._cost(more) < self._cost(joined):
                    joined = more
        pieces = list(self._pieces(joined))
        return [ColumnProposal(piece, self._factor, self._cost(frozenset()) - self._cost(piece)) for piece in pieces]

    def _has_few_channels(self, operator: Operator) -> bool:
        if operator.kind != "conv" or operator.inputs[1] not in self._graph.constants:
            return False
        return self._factor * self._graph.constants[operator.inputs[1]].shape[0] <= max(self._array.cols, self._lanes)

    def _pieces(self, joined: Joined) -> Iterator[Joined]:
        """Tensors that some operators have in common."""
        pieces: list[set[str]] = []
        for operator in self._graph.operators:
            touched = joined.intersection((*operator.inputs, *operator.outputs))
            if touched:
                others = [piece for piece in pieces if piece.isdisjoint(touched)]
                met = set(touched).union(*(piece for piece in pieces if not piece.isdisjoint(touched)))
                pieces = [*others, met]
        yield from map(frozenset, pieces)

    # -- what must be joined with others ---------------------------------------------------------------------------

    def _with_what_follows(self, joined: Joined, wanted: Iterable[str]) -> Joined | None:
        """These tensors and all that must be joined with them; None if one of them cannot be."""
        found, new = set(joined), list(wanted)
        while new:
            name = new.pop()
            if name in found:
                continue
            producer = self._graph.producers.get(name)
            if producer is None or not self._may_be_joined(name, producer):
                return None
            found.add(name)
            if producer.kind in BY_ELEMENT:
                new += self._computed(producer)
            for reader in self._graph.readers.get(name, ()):
                if reader.kind in BY_ELEMENT:
                    new += reader.outputs
                elif not self._is_conv(reader) or reader.inputs.count(name) > 1:
                    return None
                elif reader.attributes["strides"][1] % self._factor:
                    new += reader.outputs
        return frozenset(found)

    def _computed(self, operator: Operator) -> list[str]:
        return [name for name in operator.inputs if name and name not in self._graph.constants]

    def _may_be_joined(self, name: str, producer: Operator) -> bool:
        tensor = self._graph.tensors[name]
        is_whole = len(tensor.shape) == 4 and tensor.shape[COLUMN] % self._factor == 0
        if not is_whole or name in self._hosts or len(producer.outputs) != 1 or not _has_scales_of(tensor, CHANNEL):
            return False
        return self._is_conv(producer) or (producer.kind in BY_ELEMENT and self._is_by_element(producer, tensor))

    def _is_conv(self, operator: Operator) -> bool:
        """Whether an operator is a convolution whose weights can be other ones."""
        if operator.kind != "conv" or not all(name in self._graph.constants for name in operator.inputs[1:] if name):
            return False
        weights, group = self._graph.constants[operator.inputs[1]], operator.attributes["group"]
        constants = [self._graph.tensors[name] for name in operator.inputs[1:] if name]
        return weights.size * group * self._factor**2 <= MOST_WEIGHTS and all(_has_scales_of(c, 0) for c in constants)

    def _is_by_element(self, operator: Operator, tensor: TensorType) -> bool:
        """Whether all operands have the result's shape, or are a single number."""
        shapes = {self._graph.tensors[name].shape for name in filter(None, operator.inputs)}
        return all(shape == tensor.shape or prod(shape) == 1 for shape in shapes)

    # -- costs -----------------------------------------------------------------------------------------------------

    def _cost(self, joined: Joined) -> int:
        """The cycles of all operators."""
        return sum(self._cost_of(operator, joined) for operator in self._graph.operators)

    def _cost_of(self, operator: Operator, joined: Joined) -> int:
        """Cycles of an operator: vectors through the array, or words of its result, whichever are more."""
        output, shape = operator.outputs[0], self._graph.tensors[operator.outputs[0]].shape
        if len(shape) != 4 or not (operator.kind in BY_ELEMENT or self._is_conv(operator)):
            return 0
        key = output, operator.inputs[0] in joined, output in joined
        if key not in self._costs:
            before, after = (self._factor if is_joined else 1 for is_joined in key[1:])
            batch, channels, height, width = shape
            pixels = batch * height * width // after
            words = pixels * -(-channels * after // self._lanes)
            vectors = self._vectors(operator, before, after, pixels) if operator.kind == "conv" else 0
            self._costs[key] = max(words, vectors)
        return self._costs[key]

    def _vectors(self, conv: Operator, before: int, after: int, pixels: int) -> int:
        """Vectors through the array: all pixels for each weight tile in the boxes around those that are not zero."""
        name, group = conv.inputs[1], conv.attributes["group"]
        reach, zero = reach_of(conv, self._graph, before, after), zeros_of(name, self._graph)
        weights, zero = joined_weights(self._graph.constants[name], zero, group, reach), np.tile(zero, after)
        if reach.keeps_groups:
            weights = block_diagonal(weights, group * after, zero)
        outputs, inputs, rows, taps = weights.shape
        height, width = self._array.rows, self._array.cols
        units, blocks = -(-outputs // width), -(-inputs // height)
        is_used = np.zeros((units * width, blocks * height, rows, taps), bool)
        is_used[:outputs, :inputs] = weights != zero[:, None, None, None]
        tiles = np.any(is_used.reshape(units, width, blocks, height, rows, taps), axis=(1, 3))
        return sum(_box(taps) for unit in tiles for taps in unit) * max(pixels, self._least)


def _box(is_used: NDArray[np.bool_]) -> int:
    """The size of the smallest box around all that is used."""
    places = np.argwhere(is_used)
    return int(np.prod(np.ptp(places, axis=0) + 1)) if len(places) else 0


def _has_scales_of(tensor: TensorType, axis: int) -> bool:
    """Whether a tensor has one scale, or one for each index of this dimension."""
    return tensor.quantization is None or (tensor.quantization.axis in (None, axis) and not tensor.quantization.block)


# -- the graph with joined columns -------------------------------------------------------------------------------------


def with_joined_columns(graph: Graph, joined: Joined, factor: int) -> Graph:
    """The graph in which `factor` columns of these tensors are joined. They keep their names."""
    joining = _Joining(graph, joined, factor)
    operators = tuple(joining.operator(operator) for operator in graph.operators)
    return replace(graph, operators=operators, tensors=joining.tensors, constants=joining.constants)


class _Joining:
    """The tensors and constants so far."""

    def __init__(self, graph: Graph, joined: Joined, factor: int) -> None:
        self._graph = graph
        self._joined = joined
        self._factor = factor
        self.constants = dict(graph.constants)
        self.tensors = {
            name: _joined_type(tensor, factor) if name in joined else tensor for name, tensor in graph.tensors.items()
        }

    def operator(self, operator: Operator) -> Operator:
        """An operator with the weights, constants and attributes that joined columns take."""
        before, after = (
            self._factor if name in self._joined else 1 for name in (operator.inputs[0], operator.outputs[0])
        )
        if before == after == 1:
            return operator
        return self._conv(operator, before, after) if operator.kind == "conv" else self._by_element(operator)

    def _conv(self, conv: Operator, before: int, after: int) -> Operator:
        x, w, *bias = conv.inputs
        reach, weights = reach_of(conv, self._graph, before, after), self._graph.constants[w]
        w = self._constant(w, joined_weights(weights, zeros_of(w, self._graph), conv.attributes["group"], reach), after)
        bias = [b and self._constant(b, np.tile(self._graph.constants[b], after), after) for b in bias]
        return replace(conv, inputs=(x, w, *bias), attributes={**conv.attributes, **self._window(conv, reach)})

    def _window(self, conv: Operator, reach: ColumnReach) -> Mapping[str, Attribute]:
        """The attributes of a convolution that differ with joined columns."""
        attributes, width = conv.attributes, self._graph.tensors[conv.inputs[0]].shape[COLUMN] // reach.before
        columns = self._graph.tensors[conv.outputs[0]].shape[COLUMN]
        last = (columns // reach.after - 1) * reach.step + reach.taps + reach.first
        top, _, bottom, _ = attributes["pads"]
        return {
            "strides": (attributes["strides"][0], reach.step),
            "pads": (top, -reach.first, bottom, max(0, last - width)),
            "dilations": (attributes["dilations"][0], 1),
            "group": attributes["group"] * reach.after if reach.keeps_groups else 1,
            MACS: model_macs(conv, self._graph),
            JOINED: attributes.get(JOINED, 1) * reach.after,
            **({LEAK: attributes[LEAK] * reach.after} if len(attributes.get(LEAK, ())) > 1 else {}),
        }

    def _by_element(self, operator: Operator) -> Operator:
        if operator.kind != "lookup" or operator.attributes["table"].ndim == 1:
            return operator
        table = np.tile(operator.attributes["table"], (self._factor, 1))
        return replace(operator, attributes={**operator.attributes, "table": table})

    def _constant(self, name: str, values: NDArray[Any], times: int) -> str:
        """A constant with other values, and its scales so many times if it has several."""
        fresh, tensor = fresh_name(f"{name}.joined", self.tensors), self._graph.tensors[name]
        quantization = _repeated(tensor.quantization, times)
        self.constants[fresh] = values
        self.tensors[fresh] = replace(tensor, shape=values.shape, quantization=quantization)
        return fresh


def _joined_type(tensor: TensorType, factor: int) -> TensorType:
    batch, channels, height, width = tensor.shape
    shape = (batch, factor * channels, height, width // factor)
    return replace(tensor, shape=shape, quantization=_repeated(tensor.quantization, factor))


def _repeated(quantization: Quantization | None, times: int) -> Quantization | None:
    """Scales and zero points repeated for each column, where there is one for each channel."""
    if quantization is None or quantization.axis is None:
        return quantization
    return replace(quantization, scales=quantization.scales * times, zero_points=quantization.zero_points * times)
