"""The section `mma` of docs/microarchitecture.md: weight rows, vectors, accumulators."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.simulator.kernel.layout import (
    ACCUMULATES,
    BUSY,
    FIRST_INNER,
    GROUP,
    ITERATIONS,
    MMA_A,
    MMA_C,
    MMA_W,
    STALL_PORT,
    STALL_WEIGHTS,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, first_place, port_of, step_of, wrapped


@part_of_kernel
def start_systolic(m, a, code, q, i):
    a.active = 1
    a.instruction = i
    a.weight_tile = 0
    a.weight_row = 0
    a.vector_tile = 0
    a.vector_index = 0
    a.a_word = first_place(m, code, i, MMA_A)
    a.weight_word = first_place(m, code, i, MMA_W)
    a.c_word = first_place(m, code, i, MMA_C)
    a.is_adding = code[i, ACCUMULATES]
    begin_walk(m, q, a.at_vectors)
    begin_walk(m, q, a.at_weights)


@part_of_kernel
def weight_port(m, a, code, q):
    """The port from which a weight row is read in this cycle, or -1."""
    if not a.active or a.weight_tile == code[a.instruction, GROUP]:
        return -1
    is_previous_streaming = a.vector_tile == a.weight_tile or (
        a.vector_tile == a.weight_tile - 1 and a.vector_index > 0
    )
    if a.weight_row > 0 or a.weight_tile == 0 or is_previous_streaming:
        return port_of(m, q, a.weight_word + a.weight_row)
    return -1


@part_of_kernel
def vector_port(m, a, code, q, t):
    """The port from which the next activation vector is asked for in this cycle, or -1."""
    i = a.instruction
    if not a.active or a.vector_tile == code[i, GROUP]:
        return -1
    if a.vector_index == 0:
        has_first_row = a.weight_tile > a.vector_tile or (a.weight_tile == a.vector_tile and a.weight_row > 0)
        first_row = a.first_row_1 if a.vector_tile & 1 else a.first_row_0
        if not has_first_row or t < first_row + a.weight_lead:
            return -1
        if a.vector_tile > 0 and t < a.last_vector + 1 + max(0, a.update - code[i, ITERATIONS]):
            return -1
    return port_of(m, q, a.a_word)


@part_of_kernel
def read_weight_row(m, a, code, q, t):
    i = a.instruction
    if a.weight_row == 0:
        if a.weight_tile & 1:
            a.first_row_1 = t
        else:
            a.first_row_0 = t
    a.weight_row += 1
    if a.weight_row == a.rows:
        a.weight_row = 0
        a.weight_tile += 1
        loop = advance(m, code, q, a.at_weights, i, code[i, FIRST_INNER])
        if loop >= 0:
            a.weight_word += step_of(m, code, i, MMA_W, loop)


@part_of_kernel
def issue_vector(m, a, code, q, t):
    i = a.instruction
    size = a.slots
    port = port_of(m, q, a.c_word)
    if a.is_adding:
        q[a.at_c_read + wrapped(a.slot + a.read, size)] = port
    q[a.at_c_write + wrapped(a.slot + a.write, size)] = port
    a.in_flight += 1
    a.vector_index += 1
    loop = advance(m, code, q, a.at_vectors, i, m.loops)
    if loop >= 0:
        a.a_word += step_of(m, code, i, MMA_A, loop)
        a.c_word += step_of(m, code, i, MMA_C, loop)
    if a.vector_index < code[i, ITERATIONS]:
        return
    a.vector_index = 0
    a.vector_tile += 1
    a.last_vector = t
    q[a.at_c_last + wrapped(a.slot + a.write, size)] = loop < 0
    a.is_adding = code[i, ACCUMULATES]
    for outer in range(code[i, FIRST_INNER]):
        if code[i, m.is_reduce_column + outer] and q[a.at_vectors + outer] > 0:
            a.is_adding = 1


@part_of_kernel
def ask_vector(m, a, code, q, t):
    """Which ports an array uses in this cycle whoever else asks; and its request for a vector."""
    a.c_read_port, a.c_write_port = q[a.at_c_read + a.slot], q[a.at_c_write + a.slot]
    q[a.at_c_read + a.slot] = -1
    a.w_port = weight_port(m, a, code, q)
    a.a_port = vector_port(m, a, code, q, t)
    a.waits_for_sums = 0
    if m.one_port_banks and a.a_port >= 0 and must_not_add(m, a, q):
        a.waits_for_sums = 1
        a.a_port = -1


@part_of_kernel
def must_not_add(m, a, q):
    """Whether the next vector would read its sums from a bank with one port in the cycle in which it is written."""
    port = port_of(m, q, a.c_word)
    if m.is_apart or not a.is_adding or not q[m.at_one_port + port]:
        return False
    return q[a.at_c_write + wrapped(a.slot + a.read, a.slots)] == port


@part_of_kernel
def step_systolic(m, a, code, q, t, is_granted):
    e = m.engines[a.number]
    e.can_take = not a.active
    e.activity = STALL_WEIGHTS if a.active else -1
    if a.w_port >= 0:
        read_weight_row(m, a, code, q, t)
    if is_granted:
        issue_vector(m, a, code, q, t)
        e.activity = BUSY
    elif a.a_port >= 0 or a.waits_for_sums:
        e.activity = STALL_PORT
    if a.active:
        tiles = code[a.instruction, GROUP]
        if a.vector_tile == tiles and a.weight_tile == tiles:
            a.active = 0
            e.can_take = is_granted and not a.next_start
    if a.c_write_port >= 0:
        slot = a.slot
        a.in_flight -= 1
        e.retiring = q[a.at_c_last + slot]
        q[a.at_c_write + slot] = -1
        q[a.at_c_last + slot] = 0
    if a.active or a.in_flight:
        m.has_progress = 1
