"""The section `mma` of docs/microarchitecture.md: weight rows, vectors, accumulators."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import (
    ACCUMULATES,
    AT_ACTIVITY,
    AT_CAN_TAKE,
    AT_RETIRING,
    BUSY,
    FIRST_INNER,
    GROUP,
    ITERATIONS,
    MMA_A,
    MMA_ASKS,
    MMA_C,
    MMA_W,
    STALL_PORT,
    STALL_WEIGHTS,
    W_VECTOR,
    W_WEIGHTS,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, first_place, port_of, step_of, wrapped


@part_of_kernel
def start_mma(p, s, code, q, i):
    s.mma_active = 1
    s.mma_instruction = i
    s.weight_tile = 0
    s.weight_row = 0
    s.vector_tile = 0
    s.vector_index = 0
    s.a_word = first_place(p, code, i, MMA_A)
    s.weight_word = first_place(p, code, i, MMA_W)
    s.c_word = first_place(p, code, i, MMA_C)
    s.is_adding = code[i, ACCUMULATES]
    begin_walk(p, q, W_VECTOR)
    begin_walk(p, q, W_WEIGHTS)


@part_of_kernel
def weight_port(p, s, code, q):
    """The port from which a weight row is read in this cycle, or -1."""
    if not s.mma_active or s.weight_tile == code[s.mma_instruction, GROUP]:
        return -1
    is_previous_streaming = s.vector_tile == s.weight_tile or (
        s.vector_tile == s.weight_tile - 1 and s.vector_index > 0
    )
    if s.weight_row > 0 or s.weight_tile == 0 or is_previous_streaming:
        return port_of(p, q, s.weight_word + s.weight_row)
    return -1


@part_of_kernel
def vector_port(p, s, code, q, t):
    """The port from which the next activation vector is asked for in this cycle, or -1."""
    i = s.mma_instruction
    if not s.mma_active or s.vector_tile == code[i, GROUP]:
        return -1
    if s.vector_index == 0:
        has_first_row = s.weight_tile > s.vector_tile or (s.weight_tile == s.vector_tile and s.weight_row > 0)
        first_row = s.first_row_1 if s.vector_tile & 1 else s.first_row_0
        if not has_first_row or t < first_row + p.weight_lead:
            return -1
        if s.vector_tile > 0 and t < s.last_vector + 1 + max(0, p.update - code[i, ITERATIONS]):
            return -1
    return port_of(p, q, s.a_word)


@part_of_kernel
def read_weight_row(p, s, code, q, t):
    i = s.mma_instruction
    if s.weight_row == 0:
        if s.weight_tile & 1:
            s.first_row_1 = t
        else:
            s.first_row_0 = t
    s.weight_row += 1
    if s.weight_row == p.rows:
        s.weight_row = 0
        s.weight_tile += 1
        loop = advance(p, code, q, W_WEIGHTS, i, 0, code[i, FIRST_INNER])
        if loop >= 0:
            s.weight_word += step_of(p, code, i, MMA_W, loop)


@part_of_kernel
def issue_vector(p, s, code, q, t):
    i = s.mma_instruction
    size = p.pipeline_slots
    port = port_of(p, q, s.c_word)
    if s.is_adding:
        q[p.at_c_read + wrapped(s.slot + p.mma_read, size)] = port
    q[p.at_c_write + wrapped(s.slot + p.mma_write, size)] = port
    s.mma_in_flight += 1
    s.vector_index += 1
    loop = advance(p, code, q, W_VECTOR, i, 0, p.loops)
    if loop >= 0:
        s.a_word += step_of(p, code, i, MMA_A, loop)
        s.c_word += step_of(p, code, i, MMA_C, loop)
    if s.vector_index < code[i, ITERATIONS]:
        return
    s.vector_index = 0
    s.vector_tile += 1
    s.last_vector = t
    q[p.at_c_last + wrapped(s.slot + p.mma_write, size)] = loop < 0
    s.is_adding = code[i, ACCUMULATES]
    for outer in range(code[i, FIRST_INNER]):
        if code[i, p.is_reduce_column + outer] and q[p.at_index + W_VECTOR * p.loops + outer] > 0:
            s.is_adding = 1


@part_of_kernel
def step_mma(p, s, code, q, t, w_port, c_write_port):
    q[AT_CAN_TAKE + p.array] = not s.mma_active
    q[AT_ACTIVITY + p.array] = STALL_WEIGHTS if s.mma_active else -1
    if w_port >= 0:
        read_weight_row(p, s, code, q, t)
    if q[p.at_grant + MMA_ASKS]:
        issue_vector(p, s, code, q, t)
        q[AT_ACTIVITY + p.array] = BUSY
    elif q[p.at_ask + MMA_ASKS] >= 0:
        q[AT_ACTIVITY + p.array] = STALL_PORT
    if s.mma_active:
        tiles = code[s.mma_instruction, GROUP]
        if s.vector_tile == tiles and s.weight_tile == tiles:
            s.mma_active = 0
            q[AT_CAN_TAKE + p.array] = q[p.at_grant + MMA_ASKS]
    if c_write_port >= 0:
        slot = s.slot
        s.mma_in_flight -= 1
        q[AT_RETIRING + p.array] = q[p.at_c_last + slot]
        q[p.at_c_write + slot] = -1
        q[p.at_c_last + slot] = 0
    if s.mma_active or s.mma_in_flight:
        s.has_progress = 1
