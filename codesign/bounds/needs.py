"""What any program of a network must do: the products of convolutions and matrices, and the weights that it reads.

What a program may leave out is not counted: products with weights that are zero, with padding and with constants; what
no output needs; what is computed twice, or of channels that are the same. It is counted in the simplified graph, so
what the compiler's rules take out of a network is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.codesign.bounds.channels import CONSTANT, ChannelNumbers, WeightRows
from tilewright.codesign.bounds.needed import Need, needed
from tilewright.codesign.bounds.windows import reads
from tilewright.codesign.points.network import Network
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, stored_shape
from tilewright.compiler.partition.front import simplified_part, source_of
from tilewright.compiler.partition.parts import whole_network
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import BYTE_BITS


@dataclass(frozen=True, slots=True)
class Needs:
    """What any program of a network must do: products, and bytes of weights to read."""

    products: int
    weight_bytes: int


NOTHING = Needs(0, 0)


def needs_of(network: Network, weight: IntegerType) -> Needs:
    """What a network needs of a machine with weights of a type.

    Nothing is known of one that the compiler cannot read, or that no machine runs as a whole: the compiler says why.
    """
    try:
        source = source_of(network.content, network.shapes, network.session)
        graph = simplified_part(source, whole_network(source), network.session).made
    except CompileError:
        return NOTHING
    return NOTHING if graph is None else needs_of_graph(graph, weight)


def needs_of_graph(graph: Graph, weight: IntegerType) -> Needs:
    """What a simplified graph needs of a machine with weights of a type."""
    numbers = ChannelNumbers(graph, weight)
    of_tensors = needed(graph, numbers)
    counted: set[int] = set()
    weights: dict[bytes, int] = {}
    products = 0
    for operator in graph.operators:
        need = of_tensors.get(operator.outputs[0])
        if need is None:
            continue
        if operator.name in numbers.rows:
            rows = _new(numbers.rows[operator.name], need, counted)
            if operator.inputs[0] not in numbers.spread:
                products += _products_of_conv(operator, rows, need, graph)
            weights |= {row.tobytes(): int(np.count_nonzero(row)) for row in rows if _takes_memory(row)}
        elif operator.kind == "product" and need.is_all and numbers.spread.isdisjoint(operator.inputs):
            products += _products_of_tensors(operator, numbers, graph)
    return Needs(products, -(-sum(weights.values()) * weight.bits // BYTE_BITS))


def _new(rows: WeightRows, need: Need, counted: set[int]) -> list[NDArray[np.int64]]:
    """The weights of the channels that are needed and that nothing else has computed: they are noted in `counted`."""
    found = []
    for number, row, is_needed in zip(rows.numbers.tolist(), rows.weights, need.channels.tolist(), strict=True):
        if is_needed and number != CONSTANT and number not in counted:
            counted.add(number)
            found.append(row)
    return found


def _takes_memory(row: NDArray[np.int64]) -> bool:
    """Whether weights [I, R, S] are to be read: those that are all one number may be an immediate, or none."""
    used = row[row != 0]
    return bool(used.size and (used != used[0]).any())


def _products_of_conv(operator: Operator, rows: list[NDArray[np.int64]], need: Need, graph: Graph) -> int:
    """Weights that are not zero, each as often as its tap is inside of the tensor: 2 + 3 + 2 for 3, padded by 1."""
    if not rows:
        return 0
    batches, *_ = stored_shape(graph.tensors[operator.outputs[0]].shape)
    by_tap = sum((np.count_nonzero(row, axis=0) for row in rows), np.zeros(rows[0].shape[1:], np.int64))
    down = (reads(operator, graph, 0)[need.rows] >= 0).sum(axis=0)
    along = (reads(operator, graph, 1)[need.columns] >= 0).sum(axis=0)
    return batches * int(down @ by_tap @ along)


def _products_of_tensors(operator: Operator, numbers: ChannelNumbers, graph: Graph) -> int:
    """Of two computed tensors, unless they have parts in common."""
    a, b = (numbers.of(name) for name in operator.inputs)
    if a is None or b is None or not a.all() or not b.all():
        return 0
    if len(np.unique(np.concatenate([a, b]))) < len(a) + len(b):
        return 0
    summed = stored_shape(graph.tensors[operator.inputs[0]].shape)[CHANNEL]
    return prod(graph.tensors[operator.outputs[0]].shape) * summed
