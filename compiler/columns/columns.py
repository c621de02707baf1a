"""Joins columns where the exact cycle model finds that the layers around them then take fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.compiler.columns.join import with_joined_columns
from tilewright.compiler.columns.proposal import ColumnProposal, Joined, proposals
from tilewright.compiler.graph.graph import Graph
from tilewright.isa.machine.machine import Machine

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
