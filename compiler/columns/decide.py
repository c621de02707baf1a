"""Joins columns where the exact cycle model finds that the layers around them then take fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.compiler.columns.join import with_joined_columns
from tilewright.compiler.columns.proposal import Joined, proposals
from tilewright.compiler.graph.graph import Graph
from tilewright.isa.machine.machine import Machine

Measure = Callable[[Graph], int | None]
"""The exact cycles of a network; None if the machine has no program for it."""

WORTH = 0.02
"""The least share of their cycles that layers, alone, must save for their columns to be joined."""

MOST_TRIED = 4
"""So many proposals are measured at the most."""


def join_columns(graph: Graph, machine: Machine, measure: Measure) -> Graph:
    """The graph with columns joined where that pays; the same graph where it does not."""
    decided: set[str] = set()
    for each in proposals(graph, machine)[:MOST_TRIED]:
        if not decided.isdisjoint(each.joined):
            continue
        region = region_of(graph, each.joined)
        before, after = measure(region), measure(with_joined_columns(region, each.joined, each.factor))
        if before is not None and after is not None and after < before * (1 - WORTH):
            graph = with_joined_columns(graph, each.joined, each.factor)
            decided |= each.joined
    return graph


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
