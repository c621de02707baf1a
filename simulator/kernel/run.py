"""One cycle of the whole machine, the start of instructions, and a run from its first cycle to its last."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import kept_on_disk, part_of_kernel
from tilewright.simulator.kernel.dispatch import (
    REFUSED,
    can_dispatch,
    expects_answers,
    fetch_apart,
    fetch_burst,
    step_dispatch,
    step_memory,
)
from tilewright.simulator.kernel.engines import ask_reads, start, step_arrays, step_others
from tilewright.simulator.kernel.layout import BUSY, DONE, IDLE, STUCK, SYSTOLIC, WAIT, WAIT_FAULT
from tilewright.simulator.kernel.nests import count_of, wrapped

FAR = 1 << 62
"""A cycle later than the last one of any run."""

READY, ABSENT = -1, -2
"""What an engine's next instruction waits for: nothing; or there is no such instruction yet."""


@part_of_kernel
def arrays_are_alone(m, code):
    """Whether nothing but arrays can change anything before an instruction starts or completes."""
    if m.is_apart or m.ideal_engines or expects_answers(m):
        return False
    for n in range(count_of(m.engines, m.engines_count)):
        e = m.engines[n]
        if e.kind != SYSTOLIC and e.started != e.completed:
            return False
    return fetch_burst(m) == 0 and not can_dispatch(m, code)


@part_of_kernel
def resting(e):
    """The counter of an engine in a cycle in which it does nothing and starts nothing."""
    return WAIT + e.waited if e.waited >= 0 else IDLE


@part_of_kernel
def arrays_go_on(m):
    """Whether all that a cycle changes is of arrays: one goes on, and none starts an instruction or ends one."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        e = m.engines[m.arrays[row].number]
        if e.retiring or (e.waited == READY and e.can_take):
            return False
    return m.has_progress != 0


@part_of_kernel
def pass_cycle(m):
    """The slots of arrays after a cycle, or many: nothing is in a pipeline when cycles are skipped."""
    for row in range(count_of(m.arrays, m.arrays_count)):
        a = m.arrays[row]
        a.slot = wrapped(a.slot + 1, a.slots)


@part_of_kernel
def run_alone(m, code, q, t):
    """Cycles in which only arrays go on, up to the first in which something else happens: this is the result.

    As `run_cycles`, which has done the arrays' part of cycle t, and has no news.
    """
    first = t
    while arrays_go_on(m):
        for row in range(count_of(m.arrays, m.arrays_count)):
            e = m.engines[m.arrays[row].number]
            e.counters[e.activity if e.activity >= 0 else resting(e)] += 1
        pass_cycle(m)
        t += 1
        m.has_progress = 0
        step_arrays(m, code, q, t, False)
    for n in range(count_of(m.engines, m.engines_count)):
        e = m.engines[n]
        if e.kind != SYSTOLIC:
            e.counters[resting(e)] += t - first
    return t


@part_of_kernel
def first_waited(m, code, i):
    """The first engine that an instruction still waits for, or READY."""
    for n in range(count_of(m.engines, m.engines_count)):
        if m.engines[n].completed < code[i, m.waits_column + n]:
            return n
    return READY


@part_of_kernel
def find_waited(m, code, q):
    """For every engine, what its next instruction waits for."""
    m.has_news = 0
    for n in range(count_of(m.engines, m.engines_count)):
        e = m.engines[n]
        e.waited = ABSENT
        if e.dispatched > e.started:
            e.waited = first_waited(m, code, q[e.at_order + e.started])


@part_of_kernel
def start_next(m, e, code, q, t, is_ideal):
    """Start an engine's next instruction."""
    m.has_progress = 1
    m.has_news = 1
    i = q[e.at_order + e.started]
    q[m.at_started_at + i] = t
    e.started += 1
    start(m, e, code, q, i, is_ideal)


@part_of_kernel
def retire(m, e, q, t):
    """An engine's oldest instruction is over with a cycle."""
    q[m.at_retired_at + q[e.at_order + e.completed]] = t + 1
    e.retiring = 0
    e.completed += 1
    m.completed_all += 1
    m.has_progress = 1
    m.has_news = 1


@part_of_kernel
def end_cycle(m, code, q, t):
    """Start and retire what may, and count the cycle for every engine in a counter, which `activity` says then."""
    for n in range(count_of(m.engines, m.engines_count)):
        e = m.engines[n]
        starts = e.waited == READY and e.can_take
        if e.activity < 0:
            e.activity = BUSY if starts else resting(e)
        if starts:
            start_next(m, e, code, q, t, (m.ideal_engines >> n) & 1)
        if e.retiring:
            retire(m, e, q, t)
        e.counters[e.activity] += 1


@part_of_kernel
def rest_others(m):
    """Let all engines but arrays have nothing in hand, and take what comes."""
    for n in range(count_of(m.engines, m.engines_count)):
        e = m.engines[n]
        if e.kind != SYSTOLIC:
            e.activity = -1
            e.can_take = 1


@part_of_kernel
def next_event(m, q):
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    for port in range(count_of(m.ports, m.ports_count)):
        p = m.ports[port]
        if p.read_count > 0:
            event = min(event, q[p.at_read_first + p.read_head])
        if p.response_count > 0:
            event = min(event, q[p.at_response_at + p.response_head])
    return event


@kept_on_disk
def run_cycles(m, code, q):
    """Run to the end; (how it ended, the cycle). Changes all but `code`.

    `m` is a record (see `layout.machine_record`) with a row for each engine and port, of as many as there are.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once. While arrays are alone, the rest of the machine is not gone through: it stays as it is.
    """
    t = 0
    is_alone = False
    while m.completed_all < m.instructions:
        m.has_progress = 0
        if m.has_news or not is_alone:
            is_alone = arrays_are_alone(m, code)
            if is_alone:
                rest_others(m)
        others_ask = False if is_alone else ask_reads(m, code, q, t)
        step_arrays(m, code, q, t, others_ask)
        pushed = -1
        if is_alone:
            if not m.has_news:
                t = run_alone(m, code, q, t)
        else:
            step_others(m, code, q, t)
            pushed = step_dispatch(m, code)
            if pushed == REFUSED:
                return WAIT_FAULT, t
            step_memory(m, q, t)
            if m.is_apart:
                fetch_apart(m, t)
        if m.has_news:
            find_waited(m, code, q)
        end_cycle(m, code, q, t)
        if pushed >= 0:
            q[m.at_dispatched_at + m.dispatched_all] = t
            m.engines[pushed].dispatched += 1
            m.dispatched_all += 1
            m.has_news = 1
        pass_cycle(m)
        t += 1
        if not m.has_progress:
            event = next_event(m, q)
            if event >= FAR:
                return STUCK, t
            for n in range(count_of(m.engines, m.engines_count)):
                e = m.engines[n]
                e.counters[e.activity] += event - t
            t = event
    return DONE, t
