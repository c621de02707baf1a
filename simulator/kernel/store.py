"""The section `store` of docs/microarchitecture.md: reader, address side, beats."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import (
    AT_ACTIVITY,
    AT_CAN_TAKE,
    AT_COMPLETED,
    AT_STARTED,
    BUSY,
    DMA_BYTE,
    DMA_WORD,
    FIRST_INNER,
    ITERATIONS,
    RUN_BYTES,
    RUNS,
    STALL_DRAM,
    STALL_PORT,
    W_STORE_DRAM,
    W_STORE_WORD,
    WORD_BYTES,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, burst_bytes, first_place, port_of, step_of, wrapped


@part_of_kernel
def start_store(p, s, code, q, i):
    s.reader_active = 1
    s.reader_instruction = i
    s.reads_left = code[i, ITERATIONS]
    s.read_word = first_place(p, code, i, DMA_WORD)
    s.store_active = 1
    s.store_instruction = i
    s.store_run_start = first_place(p, code, i, DMA_BYTE)
    s.store_run_at = s.store_run_start
    s.store_run_left = code[i, RUN_BYTES]
    s.store_runs_left = code[i, RUNS]
    begin_walk(p, q, W_STORE_DRAM)
    begin_walk(p, q, W_STORE_WORD)


@part_of_kernel
def step_store(p, s, code, q, t):
    in_hand = q[AT_STARTED + p.dma_out] - q[AT_COMPLETED + p.dma_out]
    is_asking = q[p.at_ask + p.requesters - 1] >= 0
    is_granted = q[p.at_grant + p.requesters - 1]
    bursts, parts = s.store_burst_count, s.part_count
    forms = form_beat(p, s, q, t) if bursts > 0 else 0
    if parts > 0:
        take_part(p, s, q, t)
    if s.store_active and bursts < p.dma_out_bursts:
        address_store_burst(p, s, code, q)
    if is_granted:
        grant_read(p, s, code, q, t)
    q[AT_CAN_TAKE + p.dma_out] = in_hand < p.dma_out_contexts and not s.reader_active and not s.store_active
    q[AT_ACTIVITY + p.dma_out] = -1
    if is_granted or forms:
        q[AT_ACTIVITY + p.dma_out] = BUSY
    elif is_asking:
        q[AT_ACTIVITY + p.dma_out] = STALL_PORT
    elif in_hand > 0:
        q[AT_ACTIVITY + p.dma_out] = STALL_DRAM
    if is_asking or forms:
        s.has_progress = 1


@part_of_kernel
def form_beat(p, s, q, t):
    head = s.store_burst_head
    valid = min(p.bus_bytes - q[p.at_store_burst_first + head], q[p.at_store_burst_bytes + head])
    if s.store_window < valid:
        return 0
    s.store_window -= valid
    s.bytes_written += valid
    q[p.at_store_burst_first + head] = 0
    q[p.at_store_burst_bytes + head] -= valid
    if q[p.at_store_burst_bytes + head] == 0:
        slot = wrapped(s.response_head + s.response_count, p.response_slots)
        q[p.at_response_at + slot] = t + 1 + p.latency  # on the bus, and accepted, in t + 1
        q[p.at_response_last + slot] = q[p.at_store_burst_last + head]
        s.response_count += 1
        s.store_burst_head = wrapped(head + 1, p.dma_out_bursts)
        s.store_burst_count -= 1
    return 1


@part_of_kernel
def take_part(p, s, q, t):
    head = s.part_head
    if t < q[p.at_part_ready + head]:
        s.has_progress = 1
        return
    if s.store_window + q[p.at_part_size + head] > p.dma_window:
        return
    s.store_window += q[p.at_part_size + head]
    s.part_head = wrapped(head + 1, p.dma_out_beats)
    s.part_count -= 1
    s.has_progress = 1


@part_of_kernel
def address_store_burst(p, s, code, q):
    size = burst_bytes(p, s.store_run_at, s.store_run_left)
    slot = wrapped(s.store_burst_head + s.store_burst_count, p.dma_out_bursts)
    q[p.at_store_burst_bytes + slot] = size
    q[p.at_store_burst_first + slot] = s.store_run_at % p.bus_bytes
    q[p.at_store_burst_last + slot] = 0
    s.store_burst_count += 1
    s.has_progress = 1
    s.store_run_at += size
    s.store_run_left -= size
    if s.store_run_left == 0:
        i = s.store_instruction
        s.store_runs_left -= 1
        loop = advance(p, code, q, W_STORE_DRAM, i, 0, code[i, FIRST_INNER])
        if loop < 0:
            q[p.at_store_burst_last + slot] = 1
            s.store_active = 0
        else:
            s.store_run_start += step_of(p, code, i, DMA_BYTE, loop)
            s.store_run_at = s.store_run_start
            s.store_run_left = code[i, RUN_BYTES]


@part_of_kernel
def grant_read(p, s, code, q, t):
    i = s.reader_instruction
    slot = wrapped(s.part_head + s.part_count, p.dma_out_beats)
    q[p.at_part_ready + slot] = t + p.store_read
    part = min(p.bus_bytes, code[i, WORD_BYTES] - s.part_read)
    q[p.at_part_size + slot] = part
    s.part_count += 1
    s.part_read += part
    if s.part_read < code[i, WORD_BYTES]:
        return
    s.part_read = 0
    s.reads_left -= 1
    loop = advance(p, code, q, W_STORE_WORD, i, 0, p.loops)
    if loop >= 0:
        s.read_word += step_of(p, code, i, DMA_WORD, loop)
    else:
        s.reader_active = 0


@part_of_kernel
def store_port(p, s, code, q):
    """The port that the store engine's reader asks in this cycle, or -1."""
    if not s.reader_active or s.part_count >= p.dma_out_beats:
        return -1
    return port_of(p, q, s.read_word)
