"""The weights of a convolution that reads or gives joined columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import COLUMN, Graph, Operator, block_diagonal


@dataclass(frozen=True, slots=True)
class ColumnReach:
    """The columns that a convolution reads: `before` of its input are joined, and `after` of its result."""

    before: int
    after: int
    kernel: int
    stride: int
    pad: int
    dilation: int

    @property
    def columns(self) -> NDArray[np.int64]:
        """[after, kernel]: the column that each of the first columns of the result reads with each tap."""
        first = np.arange(self.after)[:, None] * self.stride - self.pad
        return first + np.arange(self.kernel)[None, :] * self.dilation

    @property
    def first(self) -> int:
        """The first of the joined columns that the first of the result reads; less than 0 in the padding."""
        return int(self.columns.min()) // self.before

    @property
    def taps(self) -> int:
        return int(self.columns.max()) // self.before - self.first + 1

    @property
    def step(self) -> int:
        """The stride over joined columns."""
        return self.after * self.stride // self.before

    @property
    def keeps_groups(self) -> bool:
        """Whether each column of a result reads the one in its place alone: then groups of channels stay groups."""
        return (self.kernel, self.stride, self.pad) == (1, 1, 0) and self.before == self.after


def reach_of(conv: Operator, graph: Graph, before: int, after: int) -> ColumnReach:
    """The reach of a convolution with constant weights, with so many columns joined before and after it."""
    attributes = conv.attributes
    kernel = graph.constants[conv.inputs[1]].shape[COLUMN]
    return ColumnReach(
        before, after, kernel, attributes["strides"][1], attributes["pads"][1], attributes["dilations"][1]
    )


def joined_weights(weights: NDArray[Any], zero: NDArray[Any], group: int, reach: ColumnReach) -> NDArray[Any]:
    """[after · O, before · I, R, taps] of [O, I / group, R, S]; of [O, I / group, R, 1] where groups stay groups.

    `zero` [O] is the integer that means 0 for each output channel.
    """
    if reach.keeps_groups:
        return np.tile(weights, (reach.after, 1, 1, 1))
    weights = block_diagonal(weights, group, zero)
    outputs, inputs, rows, _ = weights.shape
    joined = np.empty((reach.after, outputs, reach.before, inputs, rows, reach.taps), weights.dtype)
    joined[:] = zero[:, None, None, None, None]
    for place, read in enumerate(reach.columns):
        for tap, column in enumerate(read):
            word, within = divmod(int(column), reach.before)
            joined[place, :, within, :, :, word - reach.first] = weights[..., tap]
    return joined.reshape(reach.after * outputs, reach.before * inputs, rows, reach.taps)
