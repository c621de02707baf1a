"""Orders of the steps of several layers, compiled: `emission.merge` says what each is, `emission.stepping` what the
columns of `s` and `q` are. All return whether some step could start whenever there were any left.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.compiler.emission.kernels.marks import NEVER
from tilewright.compiler.emission.kernels.stepping import has_room, is_open, start_of, start_step
from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel

NONE = -1
"""No queue, and no engine."""


@part_of_kernel
def can_go_on(s, q, queue):
    """Whether a queue has a step that waits for no other."""
    return q.heads[queue] < q.begins[queue + 1] and is_open(s, q.steps[q.heads[queue]])


@part_of_kernel
def front_from(s, q, front):
    """The first layer from there on that is not done."""
    engines = len(s.free)
    while True:
        for queue in range(front * engines, (front + 1) * engines):
            if q.heads[queue] < q.begins[queue + 1]:
                return front
        front += 1


@part_of_kernel
def start_first_of(s, q, queue, start):
    """Start the first step of a queue."""
    start_step(s, q.steps[q.heads[queue]], start)
    q.heads[queue] += 1


@kept_on_disk
def least_far(s, q, behind, progress):
    """Of the layer in front and so many `behind` it: what can start first; of several, what has come least far.

    `progress`: of each step, the share of its layer's work on its engine that comes before it.
    """
    engines, layers, front = len(s.free), len(behind), 0
    while s.done[0] < len(s.order):
        front = front_from(s, q, front)
        best, least, taken = NEVER, 0.0, NONE
        for engine in range(engines):
            for layer in range(front, min(front + behind[front] + 1, layers)):
                queue = layer * engines + engine
                if can_go_on(s, q, queue):
                    step = q.steps[q.heads[queue]]
                    start, own = start_of(s, step), progress[step]
                    if (start < best or (start == best and own < least)) and has_room(s, step, start):
                        best, least, taken = start, own, queue
        if taken == NONE:
            return False
        start_first_of(s, q, taken, best)
    return True


@part_of_kernel
def stands_still(s, gives, layer, engine, start, soonest):
    """Whether another engine that computes in a layer has nothing by then."""
    for other in range(len(s.free)):
        if other != engine and gives[layer, other] != NONE and soonest[other] > start:
            return True
    return False


@part_of_kernel
def find_soonest(s, q, first, last, soonest):
    """By engine, when it can start the first of its steps in some layers; NEVER if it has none that can."""
    engines = len(s.free)
    soonest[:] = NEVER
    for queue in range(first * engines, last * engines):
        if can_go_on(s, q, queue):
            engine = queue % engines
            soonest[engine] = min(soonest[engine], start_of(s, q.steps[q.heads[queue]]))


@kept_on_disk
def most_given(s, q, behind, gives, engines_of, soonest):
    """The layer in front goes first, unless an engine would stand still: then what gives it most work.

    `gives`: by layer and engine, as `merge.balanced` has it; NONE where the engine computes nothing. `engines_of`: by
    layer, its engines in the order in which they come first; NONE behind them.
    """
    engines, layers, front = len(s.free), len(behind), 0
    while s.done[0] < len(s.order):
        front = front_from(s, q, front)
        last = min(front + behind[front] + 1, layers)
        find_soonest(s, q, front, last, soonest)
        best, least, taken = NEVER, 0.0, NONE
        for layer in range(front, last):
            for place in range(engines):
                engine = engines_of[layer, place]
                if engine == NONE or not can_go_on(s, q, layer * engines + engine):
                    continue
                step = q.steps[q.heads[layer * engines + engine]]
                start, key = start_of(s, step), float(layer)
                if gives[layer, engine] != NONE and stands_still(s, gives, layer, engine, start, soonest):
                    key = -gives[layer, engine]
                if (start < best or (start == best and key < least)) and has_room(s, step, start):
                    best, least, taken = start, key, layer * engines + engine
        if taken == NONE:
            return False
        start_first_of(s, q, taken, best)
    return True


@part_of_kernel
def wanted(q, engine, first, last, in_order, next_of, late):
    """When layers in front will want an engine, as far as they are begun."""
    cycle = NEVER
    for layer in range(first, last):
        if late[layer] != NEVER and q.heads[layer] < q.begins[layer + 1]:
            following = next_of[q.heads[layer], engine]
            if following != NONE:
                cycle = min(cycle, in_order[following] + late[layer])
    return cycle


@kept_on_disk
def in_front(s, q, behind, in_order, next_of, late):
    """The layer in front goes first; others take an engine for which it has nothing to do.

    A layer is one queue. `in_order`: by operation, its start one layer after the other. `next_of`: by step and engine,
    the engine's next operation in the layer; NONE if it has no more. `late`: by layer, by how many cycles its last step
    came later than in the order of layers; NEVER as long as there is none.
    """
    for front in range(len(behind)):
        while q.heads[front] < q.begins[front + 1]:
            best, taken = start_of(s, q.heads[front]), front
            for layer in range(front + 1, min(front + behind[front] + 1, len(behind))):
                if can_go_on(s, q, layer):
                    step = q.heads[layer]
                    start, engine = start_of(s, step), s.engine[s.last[step]]
                    limit = min(best, wanted(q, engine, front, layer, in_order, next_of, late))
                    if start < limit and has_room(s, step, start):
                        best, taken = start, layer
            late[taken] = best - in_order[s.last[q.heads[taken]]]
            start_first_of(s, q, taken, best)
    return True
