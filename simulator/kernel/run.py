"""One cycle of the whole machine, the start of instructions, and a run from its first cycle to its last."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import kept_on_disk, part_of_kernel
from tilewright.simulator.kernel.dispatch import (
    REFUSED,
    can_dispatch,
    fetch_apart,
    fetch_burst,
    request_read,
    step_dispatch,
    step_memory,
)
from tilewright.simulator.kernel.layout import (
    AT_ACTIVITY,
    AT_CAN_TAKE,
    AT_COMPLETED,
    AT_COUNTERS,
    AT_DISPATCHED,
    AT_RETIRING,
    AT_STARTED,
    AT_WAITED,
    BUSY,
    COUNTERS,
    DONE,
    ENGINE_COUNT,
    FETCH_OWNER,
    IDLE,
    LOAD_OWNER,
    MMA_ASKS,
    STUCK,
    WAIT,
    WAIT_FAULT,
    WAITS,
)
from tilewright.simulator.kernel.load import start_load, step_load
from tilewright.simulator.kernel.mma import start_mma, step_mma, vector_port, weight_port
from tilewright.simulator.kernel.nests import wrapped
from tilewright.simulator.kernel.ports import arbitrate_reads, arbitrate_writes, grant_vector
from tilewright.simulator.kernel.store import start_store, step_store, store_port
from tilewright.simulator.kernel.vec import ask_sources, may_issue, result_port, start_vec, step_vec

FAR = 1 << 62
"""A cycle later than the last one of any run."""

READY, ABSENT = -1, -2
"""What an engine's next instruction waits for: nothing; or there is no such instruction yet."""


@part_of_kernel
def array_is_alone(p, s, code, q):
    """Whether nothing but the array can change anything before an instruction starts or completes."""
    if p.is_apart or p.ideal_engines:
        return False
    if s.read_count or s.response_count or s.vec_active or s.result_count:
        return False
    if s.load_active or s.load_buffer or s.load_burst_count or s.words_left or s.writer_held:
        return False
    if (
        q[AT_STARTED + p.dma_in] != q[AT_COMPLETED + p.dma_in]
        or q[AT_STARTED + p.dma_out] != q[AT_COMPLETED + p.dma_out]
    ):
        return False
    if s.packed != q[AT_STARTED + p.dma_in] or fetch_burst(p, s) > 0:
        return False
    return not can_dispatch(p, s, code, q)


@part_of_kernel
def step_engines(p, s, code, q, t, is_alone):
    """Requests, arbitration and what every engine and the address channel do in cycle t; or the array, if alone."""
    slot = s.slot
    c_read_port, c_write_port = q[p.at_c_read + slot], q[p.at_c_write + slot]
    q[p.at_c_read + slot] = -1
    w_port = weight_port(p, s, code, q)
    q[p.at_ask + MMA_ASKS] = vector_port(p, s, code, q, t)
    can_issue, others_ask = False, False
    if not is_alone:
        can_issue = may_issue(p, s, code, t)
        q[p.at_ask + p.requesters - 1] = store_port(p, s, code, q)
        others_ask = can_issue or q[p.at_ask + p.requesters - 1] >= 0
    if others_ask:
        ask_sources(p, s, code, q, can_issue)
        arbitrate_reads(p, q, c_read_port, w_port)
    else:
        grant_vector(p, q, c_read_port, w_port)
    step_mma(p, s, code, q, t, w_port, c_write_port)
    if not is_alone:
        step_others(p, s, code, q, t, c_write_port, can_issue)


@part_of_kernel
def step_others(p, s, code, q, t, c_write_port, can_issue):
    """What all but the array do in cycle t."""
    vec_port = result_port(p, s, q, t)
    load_port = s.writer_port if s.writer_held else -1
    vec_written, load_written = arbitrate_writes(p, c_write_port, vec_port, load_port)
    step_vec(p, s, code, q, t, can_issue, vec_written)
    fetched = 0 if p.is_apart else fetch_burst(p, s)
    s.load_is_full = s.load_buffer >= p.dma_in_beats
    loaded = step_load(p, s, code, q, fetched > 0, load_written)
    step_store(p, s, code, q, t)
    if fetched > 0:
        request_read(p, s, q, t, FETCH_OWNER, fetched)
        s.beats_asked += fetched
        s.fetch_reserved += fetched
        s.has_progress = 1
    elif loaded > 0:
        request_read(p, s, q, t, LOAD_OWNER, loaded)


@part_of_kernel
def resting(q, e):
    """The counter of an engine in a cycle in which it does nothing and starts nothing."""
    waited = q[AT_WAITED + e]
    return WAIT + waited if waited >= 0 else IDLE


@part_of_kernel
def nothing_else_happens(p, s, q):
    """Whether all that a cycle changes is the array's own: it goes on, starts no instruction and ends none."""
    return (
        s.has_progress
        and not q[AT_RETIRING + p.array]
        and not (q[AT_WAITED + p.array] == READY and q[AT_CAN_TAKE + p.array])
    )


@part_of_kernel
def run_alone(p, s, code, q, t):
    """Cycles in which only the array goes on, up to the first in which something else happens: this is the result.

    As `run_cycles`, which has done the array's part of cycle t, and has no news.
    """
    first = t
    while nothing_else_happens(p, s, q):
        activity = q[AT_ACTIVITY + p.array]
        q[AT_COUNTERS + p.array * COUNTERS + (activity if activity >= 0 else resting(q, p.array))] += 1
        s.slot = wrapped(s.slot + 1, p.pipeline_slots)
        t += 1
        s.has_progress = 0
        step_engines(p, s, code, q, t, True)
    for e in range(ENGINE_COUNT):
        if e != p.array:
            q[AT_COUNTERS + e * COUNTERS + resting(q, e)] += t - first
    return t


@part_of_kernel
def first_waited(p, code, q, i):
    """The first engine that an instruction still waits for, or READY."""
    for e in range(ENGINE_COUNT):
        if q[AT_COMPLETED + e] < code[i, WAITS + e]:
            return e
    return READY


@part_of_kernel
def start_instructions(p, s, code, q, t):
    """Start what may start, and choose the counter of every engine for this cycle (into `activity`)."""
    if s.has_news:
        s.has_news = 0
        for e in range(ENGINE_COUNT):
            q[AT_WAITED + e] = ABSENT
            if q[AT_DISPATCHED + e] > q[AT_STARTED + e]:
                i = q[p.at_engine_order + e * p.instructions + q[AT_STARTED + e]]
                q[AT_WAITED + e] = first_waited(p, code, q, i)
    for e in range(ENGINE_COUNT):
        waited = q[AT_WAITED + e]
        starts = waited == READY and q[AT_CAN_TAKE + e]
        if q[AT_ACTIVITY + e] < 0:
            if starts:
                q[AT_ACTIVITY + e] = BUSY
            else:
                q[AT_ACTIVITY + e] = resting(q, e)
        if not starts:
            continue
        s.has_progress = 1
        s.has_news = 1
        i = q[p.at_engine_order + e * p.instructions + q[AT_STARTED + e]]
        q[p.at_started_at + i] = t
        q[AT_STARTED + e] += 1
        if (p.ideal_engines >> e) & 1:
            q[AT_RETIRING + e] = 1
            s.packed += e == p.dma_in  # nothing of it is left for the packer
        elif e == p.dma_in:
            start_load(p, s, code, q, i)
        elif e == p.array:
            start_mma(p, s, code, q, i)
        elif e == p.vector:
            start_vec(p, s, code, q, i)
        elif e == p.dma_out:
            start_store(p, s, code, q, i)


@part_of_kernel
def rest_others(p, q):
    """Let all engines but the array have nothing in hand, and take what comes."""
    for e in range(ENGINE_COUNT):
        if e != p.array:
            q[AT_ACTIVITY + e] = -1
            q[AT_CAN_TAKE + e] = 1


@part_of_kernel
def next_event(p, s, q):
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    if s.read_count > 0:
        event = q[p.at_read_first + s.read_head]
    if s.response_count > 0:
        event = min(event, q[p.at_response_at + s.response_head])
    return event


@part_of_kernel
def is_over(p, s, q):
    if s.dispatched_all < p.instructions:
        return False
    completed = 0
    for e in range(ENGINE_COUNT):
        completed += q[AT_COMPLETED + e]
    return completed == s.dispatched_all


@kept_on_disk
def run_cycles(p, s, code, q):
    """Run to the end; (how it ended, the cycle). Changes `s` and `q`.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once. While the array is alone, the rest of the machine is not gone through: it stays as it is.
    """
    t = 0
    is_alone = False
    while not is_over(p, s, q):
        s.has_progress = 0
        for e in range(ENGINE_COUNT):
            q[AT_RETIRING + e] = 0
        if s.has_news or not is_alone:
            is_alone = array_is_alone(p, s, code, q)
            if is_alone:
                rest_others(p, q)
        step_engines(p, s, code, q, t, is_alone)
        if is_alone and not s.has_news:
            t = run_alone(p, s, code, q, t)
        pushed = -1
        if not is_alone:
            pushed = step_dispatch(p, s, code, q)
            if pushed == REFUSED:
                return WAIT_FAULT, t
            step_memory(p, s, q, t)
            if p.is_apart:
                fetch_apart(p, s, t)
        start_instructions(p, s, code, q, t)
        if pushed >= 0:
            q[p.at_dispatched_at + s.dispatched_all] = t
            q[AT_DISPATCHED + pushed] += 1
            s.dispatched_all += 1
            s.has_news = 1
        for e in range(ENGINE_COUNT):
            if q[AT_RETIRING + e]:
                q[p.at_retired_at + q[p.at_engine_order + e * p.instructions + q[AT_COMPLETED + e]]] = t + 1
                q[AT_COMPLETED + e] += 1
                s.has_progress = 1
                s.has_news = 1
        following = t + 1
        if not s.has_progress:
            following = next_event(p, s, q)
            if following >= FAR:
                return STUCK, t
        s.slot = wrapped(s.slot + 1, p.pipeline_slots)  # nothing is in the pipeline when cycles are skipped
        for e in range(ENGINE_COUNT):
            q[AT_COUNTERS + e * COUNTERS + q[AT_ACTIVITY + e]] += following - t
        t = following
    return DONE, t
