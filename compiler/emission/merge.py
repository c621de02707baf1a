"""Orders of the operations of several layers, each worked out by stepping through the machine without its loads.

`one_by_one` leaves the operations as they are. `balanced`, `front_first` and `row_by_row` mix the tiles of layers
behind each other. Loads come with the operation that needs them, as soon as they can; the scheduler moves them ahead.
Which step comes next is found in compiled loops (`kernels/merge.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.emission.ahead import Mix
from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.kernels.merge import NONE, in_front, least_far, most_given
from tilewright.compiler.emission.stepping import LayerSpan, Merged, Queues, Stepping
from tilewright.compiler.tile.accesses import Integers
from tilewright.isa.machine.engine import Dma

LAYERS_BESIDE = 2
"""So many layers behind the one in front may be begun."""

Floats = NDArray[np.float64]


def one_by_one(section: LayerSpan) -> Merged:
    """Each engine keeps the order of its operations."""
    state = Stepping(section)
    queues = Queues.of(state.engine_of, len(state.columns.free))
    none, nothing = np.zeros(1, np.int64), np.zeros(len(state.engine_of))
    return state.merged(least_far(state.columns, queues, none, nothing))


def balanced(section: LayerSpan) -> Merged:
    """The layer in front goes first, unless an engine would stand still: then that goes first which gives it most work.

    Example, a layer of products of which the vector engine has little to do, and behind it one of which it has much: as
    soon as the vector engine has nothing left, the array works for the second, and then goes on with the first.
    """
    state = Stepping(section)
    soonest = np.zeros(len(state.columns.free), np.int64)
    behind, given, engines = state.behind(LAYERS_BESIDE), _gives(state), _engines_of(state)
    return state.merged(most_given(state.columns, _by_engine(state), behind, given, engines, soonest))


def row_by_row(section: LayerSpan) -> Merged:
    """All layers that may run beside each other go on together: each engine takes what has come least far."""
    state = Stepping(section)
    queues = _by_engine(state)
    return state.merged(least_far(state.columns, queues, state.behind(LAYERS_BESIDE), _progress(state, queues)))


def front_first(section: LayerSpan) -> Merged:
    """The layer in front goes first; others take an engine for which it has nothing to do.

    An operation of a layer behind needs all that it reads, and words that stay free until its turn.
    """
    state = Stepping(section)
    behind = state.behind(LAYERS_BESIDE)
    queues, late = Queues.of(state.layer_of, len(behind)), np.full(len(behind), NEVER)
    in_order = np.array(section.in_order, np.int64)
    return state.merged(in_front(state.columns, queues, behind, in_order, _next_of(state), late))


def _by_engine(state: Stepping) -> Queues:
    """A queue for each engine and layer, those of a layer behind each other."""
    engines = len(state.columns.free)
    return Queues.of(state.layer_of * engines + state.engine_of, len(state.section.fronts) * engines)


def _progress(state: Stepping, queues: Queues) -> Floats:
    """For each step, the share of its queue's work that comes before it."""
    taken = state.columns.busy[state.columns.last][queues.steps]
    until = np.concatenate([[0], np.cumsum(taken)])
    lengths = np.diff(queues.begins)
    done = until[:-1] - np.repeat(until[queues.begins[:-1]], lengths)
    all_of_it = np.repeat(until[queues.begins[1:]] - until[queues.begins[:-1]], lengths)
    found = np.zeros(len(taken))
    found[queues.steps] = done / np.maximum(1, all_of_it)
    return found


def _gives(state: Stepping) -> Floats:
    """By layer and computing engine, the cycles of work for others that each of its own cycles there gives.

    Layers behind it of which the engine has nothing to do count as well. NONE where an engine computes nothing.
    """
    found = np.full((len(state.section.fronts), len(state.columns.free)), float(NONE))
    taken = state.columns.busy[state.columns.last].tolist()
    busy: list[dict[int, int]] = [{} for _ in found]
    for layer, engine, cycles in zip(state.layer_of.tolist(), state.engine_of.tolist(), taken, strict=True):
        if not isinstance(state.engines[engine].settings, Dma):
            busy[layer][engine] = busy[layer].get(engine, 0) + cycles
    for layer, own in enumerate(busy):
        for engine, cycles in own.items():
            others = sum(own.values()) - cycles
            for behind in busy[layer + 1 :]:
                if engine in behind:
                    break
                others += sum(behind.values())
            found[layer, engine] = others / max(1, cycles)
    return found


def _engines_of(state: Stepping) -> Integers:
    """By layer, its engines in the order in which they come first; NONE behind them."""
    found = np.full((len(state.section.fronts), len(state.columns.free)), NONE)
    of_layers: list[dict[int, None]] = [{} for _ in found]
    for layer, engine in zip(state.layer_of.tolist(), state.engine_of.tolist(), strict=True):
        of_layers[layer][engine] = None
    for layer, engines in enumerate(of_layers):
        found[layer, : len(engines)] = [*engines]
    return found


def _next_of(state: Stepping) -> Integers:
    """By step and engine, the next operation of the engine in the step's layer from there on; NONE if there is none."""
    found = np.full((len(state.engine_of), len(state.columns.free)), NONE)
    for engine in np.unique(state.engine_of):
        own = np.flatnonzero(state.engine_of == engine)
        following = own[np.minimum(np.searchsorted(own, np.arange(len(found))), len(own) - 1)]
        is_one = (following >= np.arange(len(found))) & (state.layer_of[following] == state.layer_of)
        found[is_one, engine] = state.columns.last[following[is_one]]
    return found


MERGES: Mapping[Mix, Callable[[LayerSpan], Merged]] = {
    Mix.BALANCED: balanced,
    Mix.FRONT_FIRST: front_first,
    Mix.ROW_BY_ROW: row_by_row,
}
"""What mixes layers in each way."""
