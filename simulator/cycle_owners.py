"""Whose each cycle of a run is, and which engine worked: from when instructions started and retired.

A cycle belongs to the instruction that the array has in flight; if it has none, to that of the vector engine, then of a
load, then of a store. Of several in one engine it is the oldest, and a cycle with nothing in flight belongs to what
starts next. So a cycle in which a vector goes through the array belongs to that vector: an engine completes its
instructions in order, and the array takes the same number of cycles from each one's last vector to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.engine import Direction, Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import RunCounters
from tilewright.simulator.losses import Loss
from tilewright.simulator.templates.table import facet_of

IDLE = -1
"""In place of an engine's position in `in_flight_order`: nothing is in flight."""

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Stretches:
    """A run cut into stretches of cycles, each of one layer and one engine; stretch n is `times[n]` to `times[n + 1]`.

    A load of layer 0 in cycles 2 to 8, a product of layer 1 in 7 to 11: times 0 2 7 9 12, layer 0 0 1 1, and engine
    IDLE, that of loads, and twice the array. Every start and end is a cut, so neighbours may be alike.
    """

    times: NDArray[np.int64]
    layer: NDArray[np.int64]
    engine: NDArray[np.int64]  # a position in `order`, or IDLE
    order: tuple[Engine, ...]  # of the machine's engines, as `in_flight_order` has them

    def cycles(self, layers: int) -> NDArray[np.int64]:
        """Cycles [layer, engine]; the last column is of IDLE, and all of them are the run's."""
        found = np.zeros((layers, len(self.order) + 1), np.int64)
        np.add.at(found, (self.layer, self.engine), np.diff(self.times))
        return found

    def of_layer(self, layer: int) -> list[tuple[int, int]]:
        """The cycles of one layer, whatever the engine, as (first, one behind the last)."""
        is_own = np.concatenate([[False], self.layer == layer, [False]])
        edges = self.times[np.flatnonzero(is_own[1:] != is_own[:-1])].reshape(-1, 2)
        return [(int(first), int(end)) for first, end in edges]


def cycle_owners(program: Program, of_layer: Sequence[Sequence[int]], counters: RunCounters) -> Stretches:
    """The stretches of a run. `of_layer` are the instructions of each layer, as `instructions_of_layers` has them."""
    order = in_flight_order(program.machine)
    flights = [_oldest_in_flight(program, engine, counters) for engine in order]
    edges = [edge for _, begins, ends in flights for edge in (begins, ends)]
    times = np.unique(np.concatenate([np.array([0, counters.cycles], np.int64), *edges]))
    owner, engine = np.full(times.size - 1, NOBODY), np.full(times.size - 1, IDLE)
    for rank in reversed(range(len(order))):
        own, begins, ends = flights[rank]
        if own.size:
            latest = np.searchsorted(begins, times[:-1], side="right") - 1
            is_flying = (latest >= 0) & (times[:-1] < ends[latest])
            owner[is_flying], engine[is_flying] = own[latest[is_flying]], rank
    layer_of = np.zeros(len(program.instructions) + 1, np.int64)  # the last is for NOBODY: nothing is in flight at all
    for layer, indices in enumerate(of_layer):
        layer_of[list(indices)] = layer
    return Stretches(times, layer_of[_with_what_follows(owner)], engine, order)


def layer_span(program: Program, indices: Sequence[int], counters: RunCounters) -> tuple[int, int]:
    """The cycles from the first to the last in which a layer with these instructions has one in flight.

    Loads do not count, as they may come long before, unless there is nothing else. Spans of layers overlap.
    """
    loading = program.machine.dma(Direction.IN)
    own = [index for index in indices if program.instructions[index].engine not in loading] or indices
    if not own:
        return 0, 0
    return int(counters.started[own].min()), min(int(counters.retired[own].max()), counters.cycles)


def _oldest_in_flight(
    program: Program, engine: Engine, counters: RunCounters
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The instructions of an engine that ran, and from when to when each is the oldest in flight there; all ascend."""
    own = np.array([at for at, each in enumerate(program.instructions) if each.engine is engine], np.int64)
    ends = np.maximum.accumulate(np.minimum(counters.retired[own], counters.cycles))
    begins = np.maximum(counters.started[own], np.concatenate([[0], ends[:-1]])[: own.size])
    is_there = begins < ends
    return own[is_there], begins[is_there], ends[is_there]


def _with_what_follows(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Owners also where there are none: that of the next stretch with one, at the end that of the last."""
    known = np.flatnonzero(owner != NOBODY)
    if not known.size:
        return owner
    following = np.searchsorted(known, np.arange(owner.size))
    return np.asarray(owner[known[np.minimum(following, known.size - 1)]], np.int64)


def loss_of(engine: Engine) -> Loss:
    """What a cycle without a vector through an array is lost to when it belongs to an engine."""
    return facet_of(engine.template).loss(engine)


def in_flight_order(machine: Machine) -> tuple[Engine, ...]:
    """The machine's engines, the one first to which a cycle goes that several work in: as the causes stand in Loss."""
    order = list(Loss)
    return tuple(sorted(machine.engines.values(), key=lambda engine: order.index(loss_of(engine))))
