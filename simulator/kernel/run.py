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
from tilewright.simulator.kernel.dma import read_port, start_dma, step_load, step_store
from tilewright.simulator.kernel.layout import (
    BUSY,
    DMA,
    DONE,
    FETCH_OWNER,
    IDLE,
    STUCK,
    SYSTOLIC,
    VECTOR,
    WAIT,
    WAIT_FAULT,
)
from tilewright.simulator.kernel.nests import wrapped
from tilewright.simulator.kernel.ports import arbitrate_reads, arbitrate_writes
from tilewright.simulator.kernel.systolic import start_systolic, step_systolic, vector_port, weight_port
from tilewright.simulator.kernel.vector import ask_sources, may_issue, result_port, start_vector, step_vector

FAR = 1 << 62
"""A cycle later than the last one of any run."""

READY, ABSENT = -1, -2
"""What an engine's next instruction waits for: nothing; or there is no such instruction yet."""


@part_of_kernel
def array_is_alone(m, engines, dma, v, code):
    """Whether nothing but the array can change anything before an instruction starts or completes."""
    if m.is_apart or m.ideal_engines:
        return False
    if m.read_count or m.response_count or v.active or v.result_count:
        return False
    for row in range(len(dma)):
        d = dma[row]
        e = engines[d.number]
        if d.active or d.buffer or d.burst_count or d.words_left or d.writer_held or e.started != e.completed:
            return False
        if not d.is_out and d.packed != e.started:
            return False
    return fetch_burst(m) == 0 and not can_dispatch(m, engines, code)


@part_of_kernel
def step_engines(m, engines, load, store, a, own, v, code, q, t, is_alone):
    """Requests, arbitration and what every engine and the address channel do in cycle t; or the array, if alone."""
    slot = a.slot
    c_read_port, c_write_port = q[a.at_c_read + slot], q[a.at_c_write + slot]
    q[a.at_c_read + slot] = -1
    w_port = weight_port(m, a, code, q)
    asked_port = vector_port(m, a, code, q, t)
    can_issue, others_ask = False, False
    if not is_alone:
        can_issue = may_issue(m, v, code, t)
        q[m.at_ask + store.requester] = read_port(m, store, q)
        others_ask = can_issue or q[m.at_ask + store.requester] >= 0
    if others_ask:
        q[m.at_ask + a.requester] = asked_port
        ask_sources(m, v, code, q, can_issue)
        arbitrate_reads(m, a, q, c_read_port, w_port)
        is_granted = q[m.at_grant + a.requester] != 0
    else:
        is_granted = asked_port >= 0 and asked_port != c_read_port and asked_port != w_port
        if is_granted:
            q[m.at_read_turn + asked_port] = a.requester
        if not is_alone:
            q[m.at_grant + store.requester] = 0
    step_systolic(m, a, own, code, q, t, w_port, c_write_port, asked_port, is_granted)
    if not is_alone:
        step_others(m, engines, load, store, v, code, q, t, c_write_port, can_issue)


@part_of_kernel
def step_others(m, engines, load, store, v, code, q, t, c_write_port, can_issue):
    """What all but the array do in cycle t."""
    vector_port = result_port(m, v, q, t)
    load_port = load.writer_port if load.writer_held else -1
    vector_written, load_written = arbitrate_writes(m, c_write_port, vector_port, load_port)
    step_vector(m, v, engines[v.number], code, q, t, can_issue, vector_written)
    fetched = 0 if m.is_apart else fetch_burst(m)
    load.is_full = load.buffer >= load.beats
    loaded = step_load(m, load, engines[load.number], code, q, fetched > 0, load_written)
    step_store(m, store, engines[store.number], code, q, t)
    if fetched > 0:
        request_read(m, q, t, FETCH_OWNER, fetched)
        m.beats_asked += fetched
        m.fetch_reserved += fetched
        m.has_progress = 1
    elif loaded > 0:
        request_read(m, q, t, m.dma_in, loaded)


@part_of_kernel
def resting(e):
    """The counter of an engine in a cycle in which it does nothing and starts nothing."""
    return WAIT + e.waited if e.waited >= 0 else IDLE


@part_of_kernel
def run_alone(m, engines, load, store, a, own, v, code, q, counters, t):
    """Cycles in which only the array goes on, up to the first in which something else happens: this is the result.

    As `run_cycles`, which has done the array's part of cycle t, and has no news.
    """
    first = t
    while m.has_progress and not own.retiring and not (own.waited == READY and own.can_take):
        counters[a.number, own.activity if own.activity >= 0 else resting(own)] += 1
        a.slot = wrapped(a.slot + 1, a.slots)
        t += 1
        m.has_progress = 0
        step_engines(m, engines, load, store, a, own, v, code, q, t, True)
    for n in range(len(engines)):
        if n != a.number:
            counters[n, resting(engines[n])] += t - first
    return t


@part_of_kernel
def first_waited(m, engines, code, i):
    """The first engine that an instruction still waits for, or READY."""
    for n in range(len(engines)):
        if engines[n].completed < code[i, m.waits_column + n]:
            return n
    return READY


@part_of_kernel
def start_instructions(m, engines, dma, systolic, vector, code, q, t):
    """Start what may start, and choose the counter of every engine for this cycle (into `activity`)."""
    if m.has_news:
        m.has_news = 0
        for n in range(len(engines)):
            e = engines[n]
            e.waited = ABSENT
            if e.dispatched > e.started:
                e.waited = first_waited(m, engines, code, q[e.at_order + e.started])
    for n in range(len(engines)):
        e = engines[n]
        starts = e.waited == READY and e.can_take
        if e.activity < 0:
            e.activity = BUSY if starts else resting(e)
        if not starts:
            continue
        m.has_progress = 1
        m.has_news = 1
        i = q[e.at_order + e.started]
        q[m.at_started_at + i] = t
        e.started += 1
        if (m.ideal_engines >> n) & 1:
            e.retiring = 1
            if e.template == DMA:
                dma[e.row].packed += 1  # nothing of it is left for the packer
        elif e.template == DMA:
            start_dma(m, dma[e.row], code, q, i)
        elif e.template == SYSTOLIC:
            start_systolic(m, systolic[e.row], code, q, i)
        elif e.template == VECTOR:
            start_vector(m, vector[e.row], code, q, i)


@part_of_kernel
def rest_others(engines, a):
    """Let all engines but the array have nothing in hand, and take what comes."""
    for n in range(len(engines)):
        if n != a.number:
            engines[n].activity = -1
            engines[n].can_take = 1


@part_of_kernel
def next_event(m, q):
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    if m.read_count > 0:
        event = q[m.at_read_first + m.read_head]
    if m.response_count > 0:
        event = min(event, q[m.at_response_at + m.response_head])
    return event


@kept_on_disk
def run_cycles(machine, engines, dma, systolic, vector, code, q, counters):
    """Run to the end; (how it ended, the cycle). Changes all but `code`.

    `machine` and each template are records, a row an engine. A machine has an array, a vector engine and a DMA engine
    of each direction: their ports are arbitrated by that.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once. While the array is alone, the rest of the machine is not gone through: it stays as it is.
    """
    m, a, v = machine[0], systolic[0], vector[0]
    own = engines[a.number]
    load, store = dma[m.dma_in], dma[m.dma_out]
    t = 0
    is_alone = False
    while m.completed_all < m.instructions:
        m.has_progress = 0
        if m.has_news or not is_alone:
            is_alone = array_is_alone(m, engines, dma, v, code)
            if is_alone:
                rest_others(engines, a)
        step_engines(m, engines, load, store, a, own, v, code, q, t, is_alone)
        if is_alone and not m.has_news:
            t = run_alone(m, engines, load, store, a, own, v, code, q, counters, t)
        pushed = -1
        if not is_alone:
            pushed = step_dispatch(m, engines, code)
            if pushed == REFUSED:
                return WAIT_FAULT, t
            step_memory(m, engines, dma, q, t)
            if m.is_apart:
                fetch_apart(m, t)
        start_instructions(m, engines, dma, systolic, vector, code, q, t)
        if pushed >= 0:
            q[m.at_dispatched_at + m.dispatched_all] = t
            engines[pushed].dispatched += 1
            m.dispatched_all += 1
            m.has_news = 1
        for n in range(len(engines)):
            e = engines[n]
            if e.retiring:
                q[m.at_retired_at + q[e.at_order + e.completed]] = t + 1
                e.retiring = 0
                e.completed += 1
                m.completed_all += 1
                m.has_progress = 1
                m.has_news = 1
        following = t + 1
        if not m.has_progress:
            following = next_event(m, q)
            if following >= FAR:
                return STUCK, t
        a.slot = wrapped(a.slot + 1, a.slots)  # nothing is in the pipeline when cycles are skipped
        for n in range(len(engines)):
            counters[n, engines[n].activity] += following - t
        t = following
    return DONE, t
