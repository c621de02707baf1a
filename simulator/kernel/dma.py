"""The sections `load` and `store` of docs/microarchitecture.md: address side, packer and writer; reader and beats."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from tilewright.isa.kernels.kernel import part_of_kernel
from tilewright.simulator.kernel.layout import (
    BUSY,
    DMA_BYTE,
    DMA_WORD,
    FIRST_INNER,
    ITERATIONS,
    RUN_BYTES,
    STALL_DRAM,
    STALL_PORT,
    WORD_BYTES,
)
from tilewright.simulator.kernel.nests import advance, begin_walk, burst_bytes, first_place, port_of, step_of, wrapped
from tilewright.simulator.kernel.ports import takes_write

# -- the address side --------------------------------------------------------------------------------------------------


@part_of_kernel
def start_load(m, d, code, q, i):
    d.active = 1
    d.instruction = i
    d.run_start = first_place(m, code, i, DMA_BYTE)
    d.run_at = d.run_start
    d.run_left = code[i, RUN_BYTES]
    begin_walk(m, q, d.at_bytes)


@part_of_kernel
def start_store(m, d, code, q, i):
    start_load(m, d, code, q, i)
    d.reader_active = 1
    d.reader_instruction = i
    d.word = first_place(m, code, i, DMA_WORD)
    d.wait_cycles = d.first_access - 1
    begin_walk(m, q, d.at_words)


@part_of_kernel
def address_burst(m, d, code, q, size):
    """Put the current burst, of so many bytes, into the ring, and move to the next."""
    slot = wrapped(d.burst_head + d.burst_count, d.bursts)
    q[d.at_burst_bytes + slot] = size
    q[d.at_burst_first + slot] = d.run_at % m.bus_bytes
    q[d.at_burst_last + slot] = 0
    d.burst_count += 1
    m.has_progress = 1
    d.run_at += size
    d.run_left -= size
    if d.run_left == 0:
        i = d.instruction
        loop = advance(m, code, q, d.at_bytes, i, code[i, FIRST_INNER])
        if loop < 0:
            q[d.at_burst_last + slot] = 1
            d.active = 0
        else:
            d.run_start += step_of(m, code, i, DMA_BYTE, loop)
            d.run_at = d.run_start
            d.run_left = code[i, RUN_BYTES]


@part_of_kernel
def next_beat_bytes(m, d, q):
    """The bytes of the next beat of the oldest burst."""
    return min(m.bus_bytes - q[d.at_burst_first + d.burst_head], q[d.at_burst_bytes + d.burst_head])


@part_of_kernel
def pass_beat(d, q, valid):
    """The next beat of the oldest burst is over; whether the burst is."""
    head = d.burst_head
    q[d.at_burst_first + head] = 0
    q[d.at_burst_bytes + head] -= valid
    if q[d.at_burst_bytes + head] > 0:
        return False
    d.burst_head = wrapped(head + 1, d.bursts)
    d.burst_count -= 1
    return True


# -- from DRAM ---------------------------------------------------------------------------------------------------------


@part_of_kernel
def step_load(m, d, code, q, t, is_port_asked):
    """Address side, packer and writer; the beats of a burst asked for in this cycle, or 0."""
    e = m.engines[d.number]
    d.is_full = d.buffer >= d.beats
    in_hand = e.started - e.completed
    was_active = d.active
    bursts = d.burst_count
    beats = 0 if is_port_asked else ask_burst(m, d, code, q)
    e.can_take = in_hand < d.contexts and (not was_active or (not d.active and not d.next_start))
    was_held = d.writer_held
    is_written = was_held and takes_write(m, q, d.writer_port, t)
    if is_written:
        e.retiring = d.writer_last
        d.writer_held = 0
    emits = emit_part(m, d, e, code, q)
    if bursts > 0 and d.buffer > 0:
        take_beat(m, d, q)
    e.activity = -1
    if emits:
        e.activity = BUSY
    elif was_held and not is_written:
        e.activity = STALL_PORT
    elif in_hand > 0:
        e.activity = STALL_DRAM
    if was_held:
        m.has_progress = 1
    return beats


@part_of_kernel
def ask_burst(m, d, code, q):
    """Address the current burst if there is room for its beats; these, or 0."""
    if not d.active or d.burst_count >= d.bursts:
        return 0
    size = burst_bytes(m, d.run_at, d.run_left)
    beats = (d.run_at % m.bus_bytes + size + m.bus_bytes - 1) // m.bus_bytes
    if d.asked + beats > m.outstanding_beats:
        return 0
    d.asked += beats
    address_burst(m, d, code, q, size)
    return beats


@part_of_kernel
def emit_part(m, d, e, code, q):
    """The next bytes of a word, as many as a beat has or as the word lacks, go to the writer; 1 if they do."""
    if d.words_left == 0 and d.packed < e.started:
        i = q[e.at_order + d.packed]
        d.words_left = code[i, ITERATIONS]
        d.word = first_place(m, code, i, DMA_WORD)
        begin_walk(m, q, d.at_words)
    if d.words_left == 0 or d.writer_held:
        return 0
    i = q[e.at_order + d.packed]
    part = min(m.bus_bytes, code[i, WORD_BYTES] - d.of_word)
    if d.window < part:
        return 0
    d.window -= part
    d.of_word += part
    m.has_progress = 1
    if d.of_word < code[i, WORD_BYTES]:
        return 1
    d.of_word = 0
    d.words_left -= 1
    d.writer_held = 1
    d.writer_port = port_of(m, q, d.word)
    d.writer_last = d.words_left == 0
    loop = advance(m, code, q, d.at_words, i, m.loops)
    if loop >= 0:
        d.word += step_of(m, code, i, DMA_WORD, loop)
    else:
        d.packed += 1
    return 1


@part_of_kernel
def take_beat(m, d, q):
    valid = next_beat_bytes(m, d, q)
    if d.window + valid > m.dma_window:
        return
    d.window += valid
    d.buffer -= 1
    d.asked -= 1
    m.has_progress = 1
    pass_beat(d, q, valid)


# -- to DRAM -----------------------------------------------------------------------------------------------------------


@part_of_kernel
def ask_word(m, d, q):
    """The reader's request for a word; whether it has one."""
    asks = d.reader_active and d.part_count < d.beats and not d.wait_cycles
    q[m.at_ask + d.requester] = port_of(m, q, d.word) if asks else -1
    q[m.at_grant + d.requester] = 0
    return asks


@part_of_kernel
def step_store(m, d, code, q, t):
    """Reader, address side and beats. It is the only engine that writes through its port."""
    e = m.engines[d.number]
    in_hand = e.started - e.completed
    is_asking = q[m.at_ask + d.requester] >= 0
    is_granted = q[m.at_grant + d.requester]
    was_active = d.reader_active or d.active
    bursts, parts = d.burst_count, d.part_count
    forms = form_beat(m, d, q, t) if bursts > 0 else 0
    if parts > 0:
        take_part(m, d, q, t)
    if d.active and bursts < d.bursts:
        address_burst(m, d, code, q, burst_bytes(m, d.run_at, d.run_left))
    if is_granted:
        grant_read(m, d, code, q, t)
    is_done = not d.reader_active and not d.active
    e.can_take = in_hand < d.contexts and is_done and not (was_active and d.next_start)
    if d.wait_cycles:
        d.wait_cycles -= 1
        m.has_progress = 1
    e.activity = -1
    if is_granted or forms:
        e.activity = BUSY
    elif is_asking:
        e.activity = STALL_PORT
    elif in_hand > 0:
        e.activity = STALL_DRAM
    if is_asking or forms:
        m.has_progress = 1


@part_of_kernel
def form_beat(m, d, q, t):
    valid = next_beat_bytes(m, d, q)
    if d.window < valid:
        return 0
    d.window -= valid
    p = m.ports[d.port]
    p.bytes_written += valid
    is_last = q[d.at_burst_last + d.burst_head]
    if pass_beat(d, q, valid):
        slot = wrapped(p.response_head + p.response_count, m.response_slots)
        q[p.at_response_at + slot] = t + 1 + m.latency  # on the bus, and accepted, in t + 1
        q[p.at_response_last + slot] = is_last
        q[p.at_response_owner + slot] = d.number
        p.response_count += 1
    return 1


@part_of_kernel
def take_part(m, d, q, t):
    head = d.part_head
    if t < q[d.at_part_ready + head]:
        m.has_progress = 1
        return
    if d.window + q[d.at_part_size + head] > m.dma_window:
        return
    d.window += q[d.at_part_size + head]
    d.part_head = wrapped(head + 1, d.beats)
    d.part_count -= 1
    m.has_progress = 1


@part_of_kernel
def grant_read(m, d, code, q, t):
    i = d.reader_instruction
    slot = wrapped(d.part_head + d.part_count, d.beats)
    q[d.at_part_ready + slot] = t + d.read
    part = min(m.bus_bytes, code[i, WORD_BYTES] - d.of_word)
    q[d.at_part_size + slot] = part
    d.part_count += 1
    d.of_word += part
    if d.of_word < code[i, WORD_BYTES]:
        return
    d.of_word = 0
    loop = advance(m, code, q, d.at_words, i, m.loops)
    if loop >= 0:
        d.word += step_of(m, code, i, DMA_WORD, loop)
    else:
        d.reader_active = 0
