"""Fetch, dispatch and the memory behind the bus."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.isa.machine.machine import FETCH_PORT
from tilewright.simulator.kernel.layout import ENGINE, FETCH_OWNER, INSTRUCTION_BYTES
from tilewright.simulator.kernel.nests import count_of, wrapped

REFUSED = -2
"""Nothing can be dispatched, because the instruction waits for more instructions than there are before it."""


@part_of_kernel
def fetch_burst(m):
    """Beats of the burst that fetch asks for in this cycle, or 0."""
    beats = min(m.burst_beats, m.program_beats - m.beats_asked)
    return beats if m.fetch_reserved + beats <= m.fetch_buffer else 0


@part_of_kernel
def fetch_apart(m, t):
    """Fetch with a bus of its own: a beat a cycle, as soon as DRAM can answer, while there is room."""
    if m.beats_asked == m.program_beats:
        return
    if t < 1 + m.latency:
        m.has_progress = 1
    elif m.fetch_held < m.fetch_buffer:
        m.has_progress = 1
        m.beats_asked += 1
        m.ports[FETCH_PORT].beats_read += 1
        m.fetch_reserved += 1
        m.fetch_held += 1


@part_of_kernel
def refused_count(m, code, i):
    """The first wait count of an instruction that is more than there are instructions before it, or 0."""
    for n in range(count_of(m.engines, m.engines_count)):
        if code[i, m.waits_column + n] > m.engines[n].dispatched:
            return code[i, m.waits_column + n]
    return 0


@part_of_kernel
def has_room(e):
    return e.dispatched - e.started < e.queue_depth


@part_of_kernel
def is_whole(m, code, i):
    """Whether all of an instruction has been assembled; there is none behind the program's last one."""
    return i < m.instructions and m.assembled >= code[i, INSTRUCTION_BYTES]


@part_of_kernel
def step_dispatch(m, code):
    """Assemble and dispatch: the engine that an instruction is pushed to, -1, or REFUSED.

    The caller counts it in `dispatched` at the end of the cycle.
    """
    i = m.dispatched_all
    is_full = is_whole(m, code, i)
    pushed = -1
    if is_full:
        count = refused_count(m, code, i)
        if count:
            m.fault_instruction = i
            m.fault_count = count
            return REFUSED
        if has_room(m.engines[code[i, ENGINE]]):
            pushed = code[i, ENGINE]
            m.assembled -= code[i, INSTRUCTION_BYTES]
            m.has_progress = 1
    if m.fetch_held > 0 and (not is_full or pushed >= 0) and m.assembled + m.bus_bytes <= m.assembly_bytes:
        m.fetch_held -= 1
        m.fetch_reserved -= 1
        m.assembled += m.bus_bytes
        m.has_progress = 1
    return pushed


@part_of_kernel
def can_dispatch(m, code):
    """Whether assembly or dispatch goes on in this cycle, or refuses an instruction."""
    i = m.dispatched_all
    if not is_whole(m, code, i):
        return m.fetch_held > 0
    return refused_count(m, code, i) > 0 or has_room(m.engines[code[i, ENGINE]])


@part_of_kernel
def request_fetch(m, q, t, beats):
    request_read(m, m.ports[FETCH_PORT], q, t, FETCH_OWNER, beats)
    m.beats_asked += beats
    m.fetch_reserved += beats
    m.has_progress = 1


@part_of_kernel
def request_read(m, p, q, t, owner, beats):
    """A request enters a port's address register in cycle t, and is accepted in t + 1."""
    slot = wrapped(p.read_head + p.read_count, m.read_slots)
    q[p.at_read_owner + slot] = owner
    q[p.at_read_first + slot] = max(t + 1 + m.latency, p.read_free)
    q[p.at_read_beats + slot] = beats
    p.read_count += 1
    p.read_free = q[p.at_read_first + slot] + beats
    p.is_asked = 1


@part_of_kernel
def expects_answers(m):
    """Whether DRAM has an answer to give, at any port."""
    answers = 0
    for port in range(count_of(m.ports, m.ports_count)):
        answers += m.ports[port].read_count + m.ports[port].response_count
    return answers > 0


@part_of_kernel
def step_memory(m, q, t):
    """At each port, deliver a read beat and a write response that come in this cycle.

    A load takes a beat when it has room for it.
    """
    for port in range(count_of(m.ports, m.ports_count)):
        p = m.ports[port]
        if p.read_count > 0 and t >= q[p.at_read_first + p.read_head]:
            owner = q[p.at_read_owner + p.read_head]
            if owner == FETCH_OWNER:
                m.fetch_held += 1
                pass_read(m, p, q)
            elif not m.loads[owner].is_full:
                m.loads[owner].buffer += 1
                pass_read(m, p, q)
        if p.response_count > 0 and t >= q[p.at_response_at + p.response_head]:
            m.has_progress = 1
            m.engines[q[p.at_response_owner + p.response_head]].retiring = q[p.at_response_last + p.response_head]
            p.response_head = wrapped(p.response_head + 1, m.response_slots)
            p.response_count -= 1


@part_of_kernel
def pass_read(m, p, q):
    """A beat of a port's oldest read has come."""
    m.has_progress = 1
    p.beats_read += 1
    q[p.at_read_beats + p.read_head] -= 1
    if q[p.at_read_beats + p.read_head] == 0:
        p.read_head = wrapped(p.read_head + 1, m.read_slots)
        p.read_count -= 1
