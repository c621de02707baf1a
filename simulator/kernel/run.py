"""One cycle of the whole machine, the start of instructions, and a run from its first cycle to its last."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.simulator.kernel.compilation import kept_on_disk, part_of_cycle
from tilewright.simulator.kernel.dispatch import (
    REFUSED,
    fetch_apart,
    fetch_burst,
    request_read,
    step_dispatch,
    step_memory,
)
from tilewright.simulator.kernel.layout import (
    BUSY,
    COUNTERS,
    DONE,
    ENGINE_COUNT,
    FETCH_OWNER,
    IDLE,
    LOAD,
    LOAD_OWNER,
    MMA,
    MMA_ASKS,
    STORE,
    STUCK,
    VEC,
    WAIT,
    WAIT_FAULT,
    WAITS,
)
from tilewright.simulator.kernel.load import start_load, step_load
from tilewright.simulator.kernel.mma import start_mma, step_mma, vector_port, weight_port
from tilewright.simulator.kernel.nests import wrapped
from tilewright.simulator.kernel.ports import arbitrate_reads, arbitrate_writes
from tilewright.simulator.kernel.store import start_store, step_store, store_port
from tilewright.simulator.kernel.vec import ask_sources, result_port, start_vec, step_vec

FAR = 1 << 62
"""A cycle later than the last one of any run."""


@part_of_cycle
def step_engines(p, s, code, q, t):
    """Requests, arbitration and what every engine and the address channel do in cycle t."""
    slot = s.slot
    c_read_port, c_write_port = q[p.at_c_read + slot], q[p.at_c_write + slot]
    q[p.at_c_read + slot] = -1
    w_port = weight_port(p, s, code, q)
    q[p.at_ask + MMA_ASKS] = vector_port(p, s, code, q, t)
    ask_sources(p, s, code, q, t)
    q[p.at_ask + p.requesters - 1] = store_port(p, s, code, q)
    arbitrate_reads(p, q, c_read_port, w_port)

    vec_port = result_port(p, s, q, t)
    load_port = s.writer_port if s.writer_held else -1
    vec_written, load_written = arbitrate_writes(p, c_write_port, vec_port, load_port)

    step_mma(p, s, code, q, t, w_port, c_write_port)
    step_vec(p, s, code, q, t, vec_written)
    fetched = 0 if p.is_apart else fetch_burst(p, s)
    s.load_is_full = s.load_buffer >= p.load_beats
    loaded = step_load(p, s, code, q, fetched > 0, load_written)
    step_store(p, s, code, q, t)
    if fetched > 0:
        request_read(p, s, q, t, FETCH_OWNER, fetched)
        s.beats_asked += fetched
        s.fetch_reserved += fetched
        s.has_progress = 1
    elif loaded > 0:
        request_read(p, s, q, t, LOAD_OWNER, loaded)


@part_of_cycle
def first_waited(p, code, q, i):
    """The first engine that an instruction still waits for, or -1."""
    for e in range(ENGINE_COUNT):
        if q[p.at_completed + e] < code[i, WAITS + e]:
            return e
    return -1


@part_of_cycle
def start_instructions(p, s, code, q, t):
    """Start what may start, and choose the counter of every engine for this cycle (into `activity`)."""
    for e in range(ENGINE_COUNT):
        is_present = q[p.at_dispatched + e] > q[p.at_started + e]
        i, waited, starts = 0, -1, False
        if is_present:
            i = q[p.at_engine_order + e * p.instructions + q[p.at_started + e]]
            waited = first_waited(p, code, q, i)
            starts = waited < 0 and q[p.at_can_take + e]
        if q[p.at_activity + e] < 0:
            if starts:
                q[p.at_activity + e] = BUSY
            elif waited >= 0:
                q[p.at_activity + e] = WAIT + waited
            else:
                q[p.at_activity + e] = IDLE
        if not starts:
            continue
        s.has_progress = 1
        q[p.at_started_at + i] = t
        q[p.at_started + e] += 1
        if (p.ideal_engines >> e) & 1:
            q[p.at_retiring + e] = 1
            s.packed += e == LOAD  # nothing of it is left for the packer
        elif e == LOAD:
            start_load(p, s, code, q, i)
        elif e == MMA:
            start_mma(p, s, code, q, i)
        elif e == VEC:
            start_vec(p, s, code, q, i)
        elif e == STORE:
            start_store(p, s, code, q, i)


@part_of_cycle
def next_event(p, s, q):
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    if s.read_count > 0:
        event = q[p.at_read_first + s.read_head]
    if s.response_count > 0:
        event = min(event, q[p.at_response_at + s.response_head])
    return event


@part_of_cycle
def is_over(p, s, q):
    if s.dispatched_all < p.instructions:
        return False
    completed = 0
    for e in range(ENGINE_COUNT):
        completed += q[p.at_completed + e]
    return completed == s.dispatched_all


@kept_on_disk
def run_cycles(p, s, code, q):
    """Run to the end; (how it ended, the cycle). Changes `s` and `q`.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once.
    """
    t = 0
    while not is_over(p, s, q):
        s.has_progress = 0
        for e in range(ENGINE_COUNT):
            q[p.at_retiring + e] = 0
        step_engines(p, s, code, q, t)
        pushed = step_dispatch(p, s, code, q)
        if pushed == REFUSED:
            return WAIT_FAULT, t
        step_memory(p, s, q, t)
        if p.is_apart:
            fetch_apart(p, s, t)
        start_instructions(p, s, code, q, t)
        if pushed >= 0:
            q[p.at_dispatched_at + s.dispatched_all] = t
            q[p.at_dispatched + pushed] += 1
            s.dispatched_all += 1
        for e in range(ENGINE_COUNT):
            if q[p.at_retiring + e]:
                q[p.at_retired_at + q[p.at_engine_order + e * p.instructions + q[p.at_completed + e]]] = t + 1
                q[p.at_completed + e] += 1
                s.has_progress = 1
        following = t + 1
        if not s.has_progress:
            following = next_event(p, s, q)
            if following >= FAR:
                return STUCK, t
        s.slot = wrapped(s.slot + 1, p.pipeline_slots)  # nothing is in the pipeline when cycles are skipped
        for e in range(ENGINE_COUNT):
            q[p.at_counters + e * COUNTERS + q[p.at_activity + e]] += following - t
        t = following
    return DONE, t
