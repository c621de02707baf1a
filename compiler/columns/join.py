"""Joins columns of some tensors: the same network, with other shapes and other weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.columns.proposal import Joined
from tilewright.compiler.columns.reach import ColumnReach, joined_weights, reach_of
from tilewright.compiler.fresh_names import fresh_name
from tilewright.compiler.graph.convolutions import model_macs, zeros_of
from tilewright.compiler.graph.graph import (
    COLUMN,
    JOINED,
    LEAK,
    MACS,
    Attribute,
    Graph,
    Operator,
    Quantization,
    TensorType,
)


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
