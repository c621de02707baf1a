"""Transposed convolutions as nests: one product for each phase of the result.

Row y of the result is the sum of w[r] · x[i] over all y = stride·i + dilation·r - crop. Rows a stride apart use the
same taps: a phase. Example, stride 2, kernel 3, no crop: row 2q is w[2]·x[q - 1] + w[0]·x[q], row 2q + 1 is w[1]·x[q].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW, Operator
from tilewright.compiler.lower.network import LoweringNetwork, affine
from tilewright.compiler.lower.product_pieces import product_in_pieces
from tilewright.compiler.lower.products import (
    Product,
    integer_bias,
    product_nest,
    sum_bounds,
    symmetric_weights,
    weight_access,
)
from tilewright.compiler.nest.nest import Access, Affine, Nest


@dataclass(frozen=True, slots=True)
class Phase:
    """Rows (or columns) `first`, `first + stride`, … of a result: its row q reads rows q + start, q + start + step, ….

    `taps` are the kernel's rows for these, in that order; empty where no tap meets the phase.
    """

    first: int
    count: int
    taps: tuple[int, ...]
    start: int
    step: int

    def read(self, loop: str, tap: str) -> Affine:
        return affine((loop, 1), (tap, self.step), constant=self.start)

    def reach(self) -> range:
        """All rows that it reads, from the first to the last."""
        return range(self.start, self.start + self.count + self.step * (max(1, len(self.taps)) - 1))


def lower_conv_transpose(operator: Operator, network: LoweringNetwork) -> list[Nest]:
    """A product for each phase of rows and of columns, with the taps that meet it."""
    weights, scales = symmetric_weights(operator, network)
    result = network.shape(operator.outputs[0])
    rows, columns = (
        phases(weights.shape[axis], result[axis], operator.attributes, axis - ROW) for axis in (ROW, COLUMN)
    )
    count = len(rows) * len(columns)
    nests: list[list[Nest]] = []
    for row in rows:
        for column in columns:
            name = operator.name if count == 1 else f"{operator.name}.part{len(nests)}"
            used = weights[:, :, list(row.taps)][:, :, :, list(column.taps)]
            macs = used.size * result[BATCH] * row.count * column.count
            if not used.size:
                used = np.zeros((*weights.shape[:2], 1, 1), np.int64)
            product = _phase_product(operator, used, scales, row, column, network)
            pieces = product_in_pieces(name, operator, used, product, network)
            nests.append(pieces or [product_nest(name, operator, product, macs, network)])
    return [nest for phase in nests for nest in phase]


def _phase_product(
    operator: Operator, weights: NDArray[np.int64], scales: NDArray[np.float64], row: Phase, column: Phase,
    network: LoweringNetwork,
) -> Product:  # fmt: skip
    x, y = operator.inputs[0], operator.outputs[0]
    (x_scale, x_zero), (y_scale, _) = network.quantization(x), network.quantization(y)
    (_, inputs, height, width), (batches, channels, _, _) = network.shape(x), network.shape(y)
    leaves = any(
        reach.start < 0 or reach.stop > size for reach, size in ((row.reach(), height), (column.reach(), width))
    )
    down, along = operator.attributes["strides"]
    outer = (affine(("n", 1)), affine(("o", 1)))
    places = (affine(("y", down), constant=row.first), affine(("x", along), constant=column.first))
    read = (affine(("n", 1)), affine(("i", 1)), row.read("y", "r"), column.read("x", "s"))
    units = x_scale * scales
    return Product(
        (inputs, *weights.shape[2:]),
        weight_access(f"{operator.name}.weight", weights, operator.attributes["group"], network),
        (batches, channels, row.count, column.count),
        Access(network.buffer_of[x], read, x_zero if leaves else None),
        Access(network.buffer_of[y], (*outer, *places)),
        integer_bias(operator, units, network) - x_zero * weights.sum(axis=(1, 2, 3)),
        units / y_scale,
        sum_bounds(weights, network),
    )


def phases(kernel: int, size: int, attributes: Mapping[str, tuple[int, ...]], axis: int) -> list[Phase]:
    """The phases of one dimension of the result; those without a row are left out."""
    stride, dilation, crop = (attributes[name][axis] for name in ("strides", "dilations", "crops"))
    step = dilation // gcd(stride, dilation)
    found = []
    for first in range(min(stride, size)):
        taps = [tap for tap in range(kernel) if (first + crop - tap * dilation) % stride == 0]
        taps.reverse()
        start = (first + crop - taps[0] * dilation) // stride if taps else 0
        found.append(Phase(first, -(-(size - first) // stride), tuple(taps), start, step))
    return found
