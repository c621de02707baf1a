"""Fetch, dispatch and the memory behind the bus."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import (
    AT_DISPATCHED,
    AT_RETIRING,
    AT_STARTED,
    ENGINE,
    ENGINE_COUNT,
    FETCH_OWNER,
    LOAD_OWNER,
    WAITS,
)
from tilewright.simulator.kernel.nests import wrapped

REFUSED = -2
"""Nothing can be dispatched, because the instruction waits for more instructions than there are before it."""


@part_of_kernel
def fetch_burst(p, s):
    """Beats of the burst that fetch asks for in this cycle, or 0."""
    beats = min(p.burst_beats, s.program_beats - s.beats_asked)
    return beats if s.fetch_reserved + beats <= p.fetch_buffer else 0


@part_of_kernel
def fetch_apart(p, s, t):
    """Fetch with a bus of its own: a beat a cycle, as soon as DRAM can answer, while there is room."""
    if s.beats_asked == s.program_beats:
        return
    if t < 1 + p.latency:
        s.has_progress = 1
    elif s.fetch_held < p.fetch_buffer:
        s.has_progress = 1
        s.beats_asked += 1
        s.beats_read += 1
        s.fetch_reserved += 1
        s.fetch_held += 1


@part_of_kernel
def step_dispatch(p, s, code, q):
    """Assemble and dispatch: the engine that an instruction is pushed to, -1, or REFUSED.

    The caller counts it in `dispatched` at the end of the cycle.
    """
    is_full = s.assembled == p.instruction_beats
    pushed = -1
    if is_full:
        i = s.dispatched_all
        for e in range(ENGINE_COUNT):
            if code[i, WAITS + e] > q[AT_DISPATCHED + e]:
                s.fault_instruction = i
                s.fault_count = code[i, WAITS + e]
                return REFUSED
        e = code[i, ENGINE]
        if q[AT_DISPATCHED + e] - q[AT_STARTED + e] < q[p.at_queue_depth + e]:
            pushed = e
            s.assembled = 0
            s.has_progress = 1
    if s.fetch_held > 0 and (not is_full or pushed >= 0):
        s.fetch_held -= 1
        s.fetch_reserved -= 1
        s.assembled += 1
        s.has_progress = 1
    return pushed


@part_of_kernel
def can_dispatch(p, s, code, q):
    """Whether assembly or dispatch goes on in this cycle, or refuses an instruction."""
    if s.assembled < p.instruction_beats:
        return s.fetch_held > 0
    i = s.dispatched_all
    for e in range(ENGINE_COUNT):
        if code[i, WAITS + e] > q[AT_DISPATCHED + e]:
            return True
    e = code[i, ENGINE]
    return q[AT_DISPATCHED + e] - q[AT_STARTED + e] < q[p.at_queue_depth + e]


@part_of_kernel
def request_read(p, s, q, t, owner, beats):
    """A request enters the address register in cycle t, and is accepted in t + 1."""
    slot = wrapped(s.read_head + s.read_count, p.read_slots)
    q[p.at_read_owner + slot] = owner
    q[p.at_read_first + slot] = max(t + 1 + p.latency, s.read_free)
    q[p.at_read_beats + slot] = beats
    s.read_count += 1
    s.read_free = q[p.at_read_first + slot] + beats


@part_of_kernel
def step_memory(p, s, q, t):
    """Deliver a read beat and a write response that come in this cycle; load takes a beat when it has room for it."""
    if s.read_count > 0:
        head = s.read_head
        is_refused = s.load_is_full and q[p.at_read_owner + head] == LOAD_OWNER
        if t >= q[p.at_read_first + head] and not is_refused:
            s.has_progress = 1
            s.beats_read += 1
            if q[p.at_read_owner + head] == FETCH_OWNER:
                s.fetch_held += 1
            else:
                s.load_buffer += 1
            q[p.at_read_beats + head] -= 1
            if q[p.at_read_beats + head] == 0:
                s.read_head = wrapped(head + 1, p.read_slots)
                s.read_count -= 1
    if s.response_count > 0 and t >= q[p.at_response_at + s.response_head]:
        s.has_progress = 1
        q[AT_RETIRING + p.dma_out] = q[p.at_response_last + s.response_head]
        s.response_head = wrapped(s.response_head + 1, p.response_slots)
        s.response_count -= 1
