"""The section `vec` of docs/microarchitecture.md: sources, iterations in order, results."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.simulator.kernel.layout import (
    BUSY,
    GROUP,
    ITERATIONS,
    REFUSABLE,
    RESULT_LIMIT,
    SOURCES,
    STALL_PORT,
    TO_WRITE,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, first_place, port_of, step_of, wrapped
from tilewright.simulator.kernel.ports import takes_write


@part_of_kernel
def start_vector(m, v, code, q, i):
    v.active = 1
    v.instruction = i
    v.iterations_left = code[i, ITERATIONS]
    v.group_left = code[i, GROUP]
    v.granted = 0
    v.wait_cycles = v.first_access - 1
    for k in range(v.sources + 1):
        q[v.at_source_word + k] = first_place(m, code, i, k)
    begin_walk(m, q, v.at_walk)


@part_of_kernel
def may_issue(m, v, code, t):
    """There is room for a result, and one of this instruction would not overtake those before it."""
    if not v.active or v.wait_cycles or v.refusable_count >= code[v.instruction, RESULT_LIMIT]:
        return False
    return t + code[v.instruction, TO_WRITE] > v.newest_ready


@part_of_kernel
def ask_sources(m, v, code, q, t):
    """Ask for what the next iteration still lacks, if it may issue; whether it may."""
    v.can_issue = may_issue(m, v, code, t)
    for k in range(v.sources):
        q[m.at_ask + v.requester + k] = -1
    if not v.can_issue:
        return False
    for k in range(code[v.instruction, SOURCES]):
        if not (v.granted >> k) & 1:
            q[m.at_ask + v.requester + k] = port_of(m, q, q[v.at_source_word + k])
    return True


@part_of_kernel
def step_vector(m, v, code, q, t):
    e = m.engines[v.number]
    e.can_take = not v.active
    e.activity = STALL_PORT if v.active else -1
    if v.wait_cycles:
        v.wait_cycles -= 1
        m.has_progress = 1
    if v.result_count:
        m.has_progress = 1
    if v.active and t <= v.newest_ready:
        m.has_progress = 1
    if takes_write(m, q, result_port(m, v, q, t), t):
        e.retiring = q[v.at_result_port + v.result_head] < 0
        v.refusable_count -= q[v.at_result_refusable + v.result_head]
        v.result_head = wrapped(v.result_head + 1, v.slots)
        v.result_count -= 1
    if not v.can_issue:
        return
    i = v.instruction
    sources = code[i, SOURCES]
    for k in range(sources):
        if q[m.at_grant + v.requester + k]:
            v.granted |= 1 << k
            m.has_progress = 1
    if v.granted != (1 << sources) - 1:
        return
    m.has_progress = 1
    v.granted = 0
    e.activity = BUSY
    v.newest_ready = t + code[i, TO_WRITE]
    v.iterations_left -= 1
    v.group_left -= 1
    if v.group_left == 0:
        v.group_left = code[i, GROUP]
        slot = wrapped(v.result_head + v.result_count, v.slots)
        port = port_of(m, q, q[v.at_source_word + v.sources])
        q[v.at_result_ready + slot] = v.newest_ready
        q[v.at_result_port + slot] = port if v.iterations_left else -1 - port  # negative: the instruction's last
        q[v.at_result_refusable + slot] = code[i, REFUSABLE]
        v.refusable_count += code[i, REFUSABLE]
        v.result_count += 1
    loop = advance(m, code, q, v.at_walk, i, m.loops)
    if loop < 0:
        v.active = 0
        e.can_take = not v.next_start
        return
    for k in range(sources):
        q[v.at_source_word + k] += step_of(m, code, i, k, loop)
    q[v.at_source_word + v.sources] += step_of(m, code, i, v.sources, loop)


@part_of_kernel
def result_port(m, v, q, t):
    """The port to which the oldest result asks to be written in this cycle, or -1."""
    if v.result_count == 0 or t < q[v.at_result_ready + v.result_head]:
        return -1
    port = q[v.at_result_port + v.result_head]
    return port if port >= 0 else -1 - port
