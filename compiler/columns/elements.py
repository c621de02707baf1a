"""Where the elements of a tensor are once its columns are joined."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import COLUMN, Graph


def with_columns_joined(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """[N, factor · C, H, W / factor] of [N, C, H, W]: the channels of `factor` columns after each other."""
    batch, channels, height, width = values.shape
    apart = values.reshape(batch, channels, height, width // factor, factor)
    return apart.transpose(0, 4, 1, 2, 3).reshape(batch, factor * channels, height, width // factor)


def with_columns_apart(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """[N, C, H, factor · W] of joined columns [N, factor · C, H, W]."""
    batch, channels, height, width = values.shape
    joined = values.reshape(batch, factor, channels // factor, height, width)
    return joined.transpose(0, 2, 3, 4, 1).reshape(batch, channels // factor, height, width * factor)


def joined_columns(before: Graph, after: Graph) -> dict[str, int]:
    """How many columns of a tensor are joined by the pass between two graphs, for each in which some are."""
    widths = {name: tensor.shape[COLUMN] for name, tensor in before.tensors.items() if len(tensor.shape) == 4}
    return {
        name: widths[name] // tensor.shape[COLUMN]
        for name, tensor in after.tensors.items()
        if name in widths and tensor.shape[COLUMN] != widths[name]
    }
