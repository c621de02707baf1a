"""The section `load` of docs/microarchitecture.md: address side, packer, writer."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels import part_of_kernel
from tilewright.simulator.kernel.layout import (
    AT_ACTIVITY,
    AT_CAN_TAKE,
    AT_COMPLETED,
    AT_RETIRING,
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
    W_LOAD_DRAM,
    W_LOAD_WORD,
    WORD_BYTES,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, burst_bytes, first_place, port_of, step_of, wrapped


@part_of_kernel
def start_load(p, s, code, q, i):
    s.load_active = 1
    s.load_instruction = i
    s.load_run_start = first_place(p, code, i, DMA_BYTE)
    s.load_run_at = s.load_run_start
    s.load_run_left = code[i, RUN_BYTES]
    s.load_runs_left = code[i, RUNS]
    begin_walk(p, q, W_LOAD_DRAM)


@part_of_kernel
def ask_load_burst(p, s, code, q):
    """Put the current burst into the queue if there is room, and move to the next; its beats, or 0."""
    if not s.load_active or s.load_burst_count >= p.dma_in_bursts:
        return 0
    size = burst_bytes(p, s.load_run_at, s.load_run_left)
    first_byte = s.load_run_at % p.bus_bytes
    beats = (first_byte + size + p.bus_bytes - 1) // p.bus_bytes
    if s.load_asked + beats > p.outstanding_beats:
        return 0
    slot = wrapped(s.load_burst_head + s.load_burst_count, p.dma_in_bursts)
    q[p.at_load_burst_bytes + slot] = size
    q[p.at_load_burst_first + slot] = first_byte
    s.load_run_at += size
    s.load_run_left -= size
    if s.load_run_left == 0:
        i = s.load_instruction
        s.load_runs_left -= 1
        loop = advance(p, code, q, W_LOAD_DRAM, i, 0, code[i, FIRST_INNER])
        if loop < 0:
            s.load_active = 0
        else:
            s.load_run_start += step_of(p, code, i, DMA_BYTE, loop)
            s.load_run_at = s.load_run_start
            s.load_run_left = code[i, RUN_BYTES]
    return beats


@part_of_kernel
def step_load(p, s, code, q, is_fetch_asking, is_written):
    """Address side, packer and writer; the beats of a burst asked for in this cycle, or 0."""
    in_hand = q[AT_STARTED + p.dma_in] - q[AT_COMPLETED + p.dma_in]
    was_active = s.load_active
    bursts = s.load_burst_count
    beats = 0 if is_fetch_asking else ask_load_burst(p, s, code, q)
    q[AT_CAN_TAKE + p.dma_in] = in_hand < p.dma_in_contexts and (not was_active or not s.load_active)
    was_held = s.writer_held
    if is_written:
        q[AT_RETIRING + p.dma_in] = s.writer_last
        s.writer_held = 0
    emits = emit_part(p, s, code, q)
    if bursts > 0 and s.load_buffer > 0:
        take_beat(p, s, q)
    if beats:
        s.load_burst_count += 1
        s.load_asked += beats
        s.has_progress = 1
    q[AT_ACTIVITY + p.dma_in] = -1
    if emits:
        q[AT_ACTIVITY + p.dma_in] = BUSY
    elif was_held and not is_written:
        q[AT_ACTIVITY + p.dma_in] = STALL_PORT
    elif in_hand > 0:
        q[AT_ACTIVITY + p.dma_in] = STALL_DRAM
    if was_held:
        s.has_progress = 1
    return beats


@part_of_kernel
def emit_part(p, s, code, q):
    """The next bytes of a word, as many as a beat has or as the word lacks, go to the writer; 1 if they do."""
    if s.words_left == 0 and s.packed < q[AT_STARTED + p.dma_in]:
        i = q[p.at_engine_order + p.dma_in * p.instructions + s.packed]
        s.words_left = code[i, ITERATIONS]
        s.load_word = first_place(p, code, i, DMA_WORD)
        begin_walk(p, q, W_LOAD_WORD)
    if s.words_left == 0 or s.writer_held:
        return 0
    i = q[p.at_engine_order + p.dma_in * p.instructions + s.packed]
    part = min(p.bus_bytes, code[i, WORD_BYTES] - s.word_filled)
    if s.load_window < part:
        return 0
    s.load_window -= part
    s.word_filled += part
    s.has_progress = 1
    if s.word_filled < code[i, WORD_BYTES]:
        return 1
    s.word_filled = 0
    s.words_left -= 1
    s.writer_held = 1
    s.writer_port = port_of(p, q, s.load_word)
    s.writer_last = s.words_left == 0
    loop = advance(p, code, q, W_LOAD_WORD, i, 0, p.loops)
    if loop >= 0:
        s.load_word += step_of(p, code, i, DMA_WORD, loop)
    else:
        s.packed += 1
    return 1


@part_of_kernel
def take_beat(p, s, q):
    head = s.load_burst_head
    valid = min(p.bus_bytes - q[p.at_load_burst_first + head], q[p.at_load_burst_bytes + head])
    if s.load_window + valid > p.dma_window:
        return
    s.load_window += valid
    s.load_buffer -= 1
    s.load_asked -= 1
    s.has_progress = 1
    q[p.at_load_burst_first + head] = 0
    q[p.at_load_burst_bytes + head] -= valid
    if q[p.at_load_burst_bytes + head] == 0:
        s.load_burst_head = wrapped(head + 1, p.dma_in_bursts)
        s.load_burst_count -= 1
