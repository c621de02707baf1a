"""The section `vec` of docs/microarchitecture.md: sources, iterations in order, results."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import (
    AT_ACTIVITY,
    AT_CAN_TAKE,
    AT_RETIRING,
    BUSY,
    GROUP,
    ITERATIONS,
    REFUSABLE,
    RESULT_LIMIT,
    SOURCES,
    STALL_PORT,
    TO_WRITE,
    VEC_ASKS,
    W_VEC,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, first_place, port_of, step_of, wrapped


@part_of_kernel
def start_vec(p, s, code, q, i):
    s.vec_active = 1
    s.vec_instruction = i
    s.iterations_left = code[i, ITERATIONS]
    s.group_left = code[i, GROUP]
    s.granted = 0
    for k in range(p.vec_sources + 1):
        q[p.at_source_word + k] = first_place(p, code, i, k)
    begin_walk(p, q, W_VEC)


@part_of_kernel
def may_issue(p, s, code, t):
    """There is room for a result, and one of this instruction would not overtake those before it."""
    if not s.vec_active or s.refusable_count >= code[s.vec_instruction, RESULT_LIMIT]:
        return False
    return t + code[s.vec_instruction, TO_WRITE] > s.newest_ready


@part_of_kernel
def ask_sources(p, s, code, q, can_issue):
    for k in range(p.vec_sources):
        q[p.at_ask + VEC_ASKS + k] = -1
    if not can_issue:
        return
    for k in range(code[s.vec_instruction, SOURCES]):
        if not (s.granted >> k) & 1:
            q[p.at_ask + VEC_ASKS + k] = port_of(p, q, q[p.at_source_word + k])


@part_of_kernel
def step_vec(p, s, code, q, t, can_issue, is_written):
    q[AT_CAN_TAKE + p.vector] = not s.vec_active
    q[AT_ACTIVITY + p.vector] = STALL_PORT if s.vec_active else -1
    if s.result_count:
        s.has_progress = 1
    if s.vec_active and t <= s.newest_ready:
        s.has_progress = 1
    if is_written:
        q[AT_RETIRING + p.vector] = q[p.at_result_port + s.result_head] < 0
        s.refusable_count -= q[p.at_result_refusable + s.result_head]
        s.result_head = wrapped(s.result_head + 1, p.result_slots)
        s.result_count -= 1
    if not can_issue:
        return
    i = s.vec_instruction
    sources = code[i, SOURCES]
    for k in range(sources):
        if q[p.at_grant + VEC_ASKS + k]:
            s.granted |= 1 << k
            s.has_progress = 1
    if s.granted != (1 << sources) - 1:
        return
    s.has_progress = 1
    s.granted = 0
    q[AT_ACTIVITY + p.vector] = BUSY
    s.newest_ready = t + code[i, TO_WRITE]
    s.iterations_left -= 1
    s.group_left -= 1
    if s.group_left == 0:
        s.group_left = code[i, GROUP]
        slot = wrapped(s.result_head + s.result_count, p.result_slots)
        port = port_of(p, q, q[p.at_source_word + p.vec_sources])
        q[p.at_result_ready + slot] = s.newest_ready
        q[p.at_result_port + slot] = port if s.iterations_left else -1 - port  # negative: the instruction's last
        q[p.at_result_refusable + slot] = code[i, REFUSABLE]
        s.refusable_count += code[i, REFUSABLE]
        s.result_count += 1
    loop = advance(p, code, q, W_VEC, i, 0, p.loops)
    if loop < 0:
        s.vec_active = 0
        q[AT_CAN_TAKE + p.vector] = 1
        return
    for k in range(sources):
        q[p.at_source_word + k] += step_of(p, code, i, k, loop)
    q[p.at_source_word + p.vec_sources] += step_of(p, code, i, p.vec_sources, loop)


@part_of_kernel
def result_port(p, s, q, t):
    """The port to which the oldest result asks to be written in this cycle, or -1."""
    if s.result_count == 0 or t < q[p.at_result_ready + s.result_head]:
        return -1
    port = q[p.at_result_port + s.result_head]
    return port if port >= 0 else -1 - port
