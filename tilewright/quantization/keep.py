"""Which nodes of a network stay float: those that the user names, and the few that cost most.

A node in float reads and writes float32, so the tensors between it and another float node, or an output of the network,
are not quantised. Between two products it gains nothing: both sides of it have eight bits all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from tilewright.errors import InputError
from tilewright.isa.errors import did_you_mean
from tilewright.quantization.noise import LayerNoise, hurting

AUTO = "auto"
"""Stands for the layers that hurt most and gain from being float."""

PRODUCTS = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
"""What a machine is there for: kept in float only if named."""

WORTH_DB = 1.0
"""What AUTO keeps raises the ratio of the worst output by so much."""


@dataclass(frozen=True, slots=True)
class KeptFloat:
    """Nodes that stay float; `gain_db` is by how much the worst output gains, None where the user named them."""

    nodes: tuple[str, ...]
    gain_db: float | None


def named_nodes(model: onnx.ModelProto, names: Sequence[str]) -> Iterator[KeptFloat]:
    """The nodes that are meant by name or by operator; raises InputError for what there is not."""
    for name in names:
        nodes = tuple(node.name for node in model.graph.node if name in (node.name, node.op_type))
        if not nodes:
            kinds = sorted({node.op_type for node in model.graph.node})
            close = did_you_mean(name, [*kinds, *(node.name for node in model.graph.node)])
            raise InputError(
                f"--keep {name}: no node has this name or operator{close}; "
                f"expected a node's name, {AUTO}, or one of: {', '.join(kinds)}"
            )
        yield KeptFloat(nodes, None)


def costly_nodes(
    layers: Sequence[LayerNoise],
    outputs: Sequence[str],
    again: Callable[[Sequence[str]], Sequence[LayerNoise]],
) -> Iterator[KeptFloat]:
    """The nodes of the layers that hurt most, the worst first, of those whose outputs gain from it.

    `again` gives the layers of the network that is quantised anew with these nodes in float, too.
    """
    kept: list[str] = []
    best = _worst_output(layers, outputs)
    for layer in hurting(layers):
        if _is_product(layer):
            continue
        for nodes in dict.fromkeys((layer.nodes, _back_to_products(layer, layers))):
            ratio = _worst_output(again([*kept, *nodes]), outputs)
            if ratio >= best + WORTH_DB:
                yield KeptFloat(nodes, ratio - best)
                kept += nodes
                best = ratio
                break


def _is_product(layer: LayerNoise) -> bool:
    return bool(PRODUCTS & set(layer.operators))


def _back_to_products(layer: LayerNoise, layers: Sequence[LayerNoise]) -> tuple[str, ...]:
    """The nodes of a layer and of all before it, as far as the next products."""
    makers = {each.tensor: each for each in layers}
    found: dict[str, LayerNoise] = {}
    waiting = [layer]
    while waiting:
        each = waiting.pop()
        if each.tensor not in found and not _is_product(each):
            found[each.tensor] = each
            waiting += [makers[operand] for operand in each.operands]
    return tuple(node for each in layers if each.tensor in found for node in each.nodes)


def _worst_output(layers: Sequence[LayerNoise], outputs: Sequence[str]) -> float:
    """The least ratio of a float output; infinite if all are exact."""
    ratios = [layer.snr_db for layer in layers if layer.tensor in outputs and layer.snr_db is not None]
    return min(ratios, default=float("inf"))
