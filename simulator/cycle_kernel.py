"""The machine of docs/microarchitecture.md, stepped cycle by cycle over integers and compiled with numba.

Each section of the page is a function here, with its decisions taken from what registers held at the start of the
cycle. All of it is one file because numba's cache on disk looks at no other. No figure is stated here: they come in `p`.

Sums of cycles are by engine (in the order of `ENGINES`) and by the columns BUSY … IDLE.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

LOAD, MMA, VEC, STORE = range(4)
"""Positions in isa.machine.ENGINES."""

BUSY, WAIT, STALL_PORT, STALL_DRAM, STALL_WEIGHTS, IDLE, COLUMNS = 0, 1, 5, 6, 7, 8, 9
"""Columns of the counters; the wait for engine e is WAIT + e."""

DONE, WAIT_FAULT, STUCK = range(3)
"""How a run ends."""

FETCH_OWNER, LOAD_OWNER = range(2)

SOURCES_FROM = 1  # read requesters that take turns: 0 mma a, then vec sources, then store
FAR = 1 << 62


def record(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names])


PARAMETERS = record(
    *("rows", "weight_lead", "update", "mma_read", "mma_write", "vec_write", "vec_results"),
    *("bus_bytes", "latency", "outstanding_beats", "burst_beats", "burst_boundary", "fetch_buffer", "burst_queue"),
    *("load_contexts", "store_contexts", "store_words", "load_window", "store_window", "instruction_beats"),
    *("vec_sources", "loops"),
)
"""Sizes and latencies of a machine, and the depth of the instruction table's nests."""

STATE = record(
    # fetch, dispatch and the memory behind the bus
    *("program_beats", "beats_asked", "fetch_reserved", "fetch_held", "assembled", "dispatched_all"),
    *("read_head", "read_count", "read_free", "response_head", "response_count"),
    # mma
    *("mma_active", "mma_instruction", "weight_tile", "weight_row", "weight_word", "vector_tile", "vector_index"),
    *("first_row_0", "first_row_1", "last_vector", "a_word", "c_word", "is_adding", "mma_in_flight"),
    # vec
    *("vec_active", "vec_instruction", "iterations_left", "group_left", "granted", "result_head", "result_count"),
    # load
    *("load_active", "load_instruction", "load_run_left", "load_run_at", "load_run_start", "load_runs_left"),
    *("load_asked", "load_buffer", "load_window", "load_burst_head", "load_burst_count", "packed", "words_left"),
    *("load_word", "writer_held", "writer_port", "writer_last"),
    # store
    *("reader_active", "reader_instruction", "reads_left", "read_word", "words_held", "word_head", "word_count"),
    *("store_active", "store_instruction", "store_run_left", "store_run_at", "store_run_start", "store_runs_left"),
    *("store_window", "store_burst_head", "store_burst_count"),
    # results
    *("beats_read", "bytes_written", "fault_instruction", "fault_count", "has_progress"),
)
"""The machine's registers that are single numbers."""


class Code(NamedTuple):
    """The instructions as tables; the row is the instruction. Nests are aligned at the innermost loop.

    Operands: vec sources in order, then its destination at column `vec_sources`; mma a, w, c; DMA on-chip word, then DRAM byte.
    On-chip words are counted through all memories, so that `port_of_word` finds the bank.
    """

    engine: NDArray[np.int64]
    waits: NDArray[np.int64]  # [instruction, engine]
    of_engine: NDArray[np.int64]  # [engine, n]: the n-th instruction of the engine
    trips: NDArray[np.int64]  # [instruction, loop]
    bases: NDArray[np.int64]  # [instruction, operand]
    steps: NDArray[np.int64]  # [instruction, operand, loop]: change of address when that loop moves on
    iterations: NDArray[np.int64]  # all iterations; of mma, vectors a tile
    group: NDArray[np.int64]  # vec: iterations a result; mma: tiles
    first_inner: NDArray[np.int64]  # mma: first vector loop; DMA: one beyond the loops that the address side walks
    is_reduce: NDArray[np.int64]  # [instruction, loop]
    sources: NDArray[np.int64]  # vec: number of sources
    accumulate: NDArray[np.int64]
    run_bytes: NDArray[np.int64]
    runs: NDArray[np.int64]
    word_bytes: NDArray[np.int64]
    port_of_word: NDArray[np.int64]
    queue_depth: NDArray[np.int64]


class Rings(NamedTuple):
    """Everything that queues hold, and the loop indices of every walker."""

    dispatched: NDArray[np.int64]  # [engine]
    started: NDArray[np.int64]
    completed: NDArray[np.int64]
    retiring: NDArray[np.int64]  # [engine]: 1 when an instruction retires in this cycle
    can_take: NDArray[np.int64]
    activity: NDArray[np.int64]  # [engine]: a column, or -1 for nothing in hand
    index: NDArray[np.int64]  # [walker, loop]
    c_read: NDArray[np.int64]  # [cycle % size]: port of the accumulators that the array reads, or -1
    c_write: NDArray[np.int64]
    c_last: NDArray[np.int64]
    result_ready: NDArray[np.int64]
    result_port: NDArray[np.int64]
    source_word: NDArray[np.int64]  # [vec source]
    load_burst_bytes: NDArray[np.int64]
    load_burst_first: NDArray[np.int64]
    word_ready: NDArray[np.int64]
    word_size: NDArray[np.int64]
    store_burst_bytes: NDArray[np.int64]
    store_burst_first: NDArray[np.int64]
    store_burst_last: NDArray[np.int64]
    read_owner: NDArray[np.int64]
    read_first: NDArray[np.int64]
    read_beats: NDArray[np.int64]
    response_at: NDArray[np.int64]
    response_last: NDArray[np.int64]
    ask: NDArray[np.int64]  # [read requester that takes turns]: port or -1
    grant: NDArray[np.int64]
    read_turn: NDArray[np.int64]  # [port]: who was granted last
    write_turn: NDArray[np.int64]
    counters: NDArray[np.int64]  # [engine, column]
    started_at: NDArray[np.int64]
    retired_at: NDArray[np.int64]


WALKERS = W_VECTOR, W_WEIGHTS, W_VEC, W_LOAD_DRAM, W_LOAD_WORD, W_STORE_DRAM, W_STORE_WORD = range(7)


# -- nests and bursts --------------------------------------------------------------------------------------------------


@njit(cache=True)
def begin_walk(r, p, walker):  # type: ignore[no-untyped-def]
    for loop in range(p.loops):
        r.index[walker, loop] = 0


@njit(cache=True)
def advance(code, r, walker, i, first, end):  # type: ignore[no-untyped-def]
    """Move a walker to the next iteration of loops first … end-1; the loop that moved on, or -1 after the last."""
    for loop in range(end - 1, first - 1, -1):
        if r.index[walker, loop] + 1 < code.trips[i, loop]:
            r.index[walker, loop] += 1
            return loop
        r.index[walker, loop] = 0
    return -1


@njit(cache=True)
def port_of(code, word):  # type: ignore[no-untyped-def]
    """The bank of a word, by number through all memories; words outside count as the nearest (their run has a fault)."""
    return code.port_of_word[min(max(word, 0), code.port_of_word.size - 1)]


@njit(cache=True)
def burst_bytes(p, address, left):  # type: ignore[no-untyped-def]
    """isa.timing.first_burst: the size of the next burst of a run."""
    to_boundary = p.burst_boundary - address % p.burst_boundary
    to_longest = p.burst_beats * p.bus_bytes - address % p.bus_bytes
    return min(left, to_boundary, to_longest)


# -- memory ports ------------------------------------------------------------------------------------------------------


@njit(cache=True)
def arbitrate_reads(r, c_port, w_port):  # type: ignore[no-untyped-def]
    """The array's c and w win; the others take turns on each port."""
    count = r.ask.size
    for k in range(count):
        port = r.ask[k]
        r.grant[k] = 0
        if port < 0 or port == c_port or port == w_port:
            continue
        wins = 1
        for j in range(count):
            if j != k and r.ask[j] == port:
                turn = r.read_turn[port]
                if (j - turn - 1) % count < (k - turn - 1) % count:
                    wins = 0
        r.grant[k] = wins
    for k in range(count):
        if r.grant[k]:
            r.read_turn[r.ask[k]] = k


# -- mma ---------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def start_mma(p, s, code, r, i):  # type: ignore[no-untyped-def]
    s.mma_active = 1
    s.mma_instruction = i
    s.weight_tile = 0
    s.weight_row = 0
    s.vector_tile = 0
    s.vector_index = 0
    s.a_word = code.bases[i, 0]
    s.weight_word = code.bases[i, 1]
    s.c_word = code.bases[i, 2]
    s.is_adding = code.accumulate[i]
    begin_walk(r, p, W_VECTOR)
    begin_walk(r, p, W_WEIGHTS)


@njit(cache=True)
def weight_port(s, code):  # type: ignore[no-untyped-def]
    """The port from which a weight row is read in this cycle, or -1."""
    if not s.mma_active or s.weight_tile == code.group[s.mma_instruction]:
        return -1
    is_previous_streaming = s.vector_tile == s.weight_tile or (
        s.vector_tile == s.weight_tile - 1 and s.vector_index > 0
    )
    if s.weight_row > 0 or s.weight_tile == 0 or is_previous_streaming:
        return port_of(code, s.weight_word + s.weight_row)
    return -1


@njit(cache=True)
def vector_port(p, s, code, t):  # type: ignore[no-untyped-def]
    """The port from which the next activation vector is asked for in this cycle, or -1."""
    i = s.mma_instruction
    if not s.mma_active or s.vector_tile == code.group[i]:
        return -1
    if s.vector_index == 0:
        has_first_row = s.weight_tile > s.vector_tile or (s.weight_tile == s.vector_tile and s.weight_row > 0)
        first_row = s.first_row_1 if s.vector_tile & 1 else s.first_row_0
        if not has_first_row or t < first_row + p.weight_lead:
            return -1
        if s.vector_tile > 0 and t < s.last_vector + 1 + max(0, p.update - code.iterations[i]):
            return -1
    return port_of(code, s.a_word)


@njit(cache=True)
def read_weight_row(p, s, code, r, t):  # type: ignore[no-untyped-def]
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
        loop = advance(code, r, W_WEIGHTS, i, 0, code.first_inner[i])
        if loop >= 0:
            s.weight_word += code.steps[i, 1, loop]


@njit(cache=True)
def issue_vector(p, s, code, r, t):  # type: ignore[no-untyped-def]
    i = s.mma_instruction
    size = r.c_read.size
    port = port_of(code, s.c_word)
    if s.is_adding:
        r.c_read[(t + p.mma_read) % size] = port
    r.c_write[(t + p.mma_write) % size] = port
    s.mma_in_flight += 1
    s.vector_index += 1
    loop = advance(code, r, W_VECTOR, i, 0, p.loops)
    if loop >= 0:
        s.a_word += code.steps[i, 0, loop]
        s.c_word += code.steps[i, 2, loop]
    if s.vector_index < code.iterations[i]:
        return
    s.vector_index = 0
    s.vector_tile += 1
    s.last_vector = t
    r.c_last[(t + p.mma_write) % size] = loop < 0
    s.is_adding = code.accumulate[i]
    for outer in range(code.first_inner[i]):
        if code.is_reduce[i, outer] and r.index[W_VECTOR, outer] > 0:
            s.is_adding = 1


@njit(cache=True)
def step_mma(p, s, code, r, t, w_port, c_write_port):  # type: ignore[no-untyped-def]
    r.can_take[MMA] = not s.mma_active
    r.activity[MMA] = STALL_WEIGHTS if s.mma_active else -1
    if w_port >= 0:
        read_weight_row(p, s, code, r, t)
    if r.grant[0]:
        issue_vector(p, s, code, r, t)
        r.activity[MMA] = BUSY
    elif r.ask[0] >= 0:
        r.activity[MMA] = STALL_PORT
    if s.mma_active:
        tiles = code.group[s.mma_instruction]
        if s.vector_tile == tiles and s.weight_tile == tiles:
            s.mma_active = 0
            r.can_take[MMA] = r.grant[0]
    if c_write_port >= 0:
        slot = t % r.c_write.size
        s.mma_in_flight -= 1
        r.retiring[MMA] = r.c_last[slot]
        r.c_write[slot] = -1
        r.c_last[slot] = 0
    if s.mma_active or s.mma_in_flight:
        s.has_progress = 1


# -- vec ---------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def start_vec(p, s, code, r, i):  # type: ignore[no-untyped-def]
    s.vec_active = 1
    s.vec_instruction = i
    s.iterations_left = code.iterations[i]
    s.group_left = code.group[i]
    s.granted = 0
    for k in range(p.vec_sources + 1):
        r.source_word[k] = code.bases[i, k]
    begin_walk(r, p, W_VEC)


@njit(cache=True)
def ask_sources(p, s, code, r):  # type: ignore[no-untyped-def]
    for k in range(p.vec_sources):
        r.ask[SOURCES_FROM + k] = -1
    if not s.vec_active or s.result_count >= p.vec_results:
        return
    for k in range(code.sources[s.vec_instruction]):
        if not (s.granted >> k) & 1:
            r.ask[SOURCES_FROM + k] = port_of(code, r.source_word[k])


@njit(cache=True)
def step_vec(p, s, code, r, t, is_written):  # type: ignore[no-untyped-def]
    r.can_take[VEC] = not s.vec_active
    r.activity[VEC] = STALL_PORT if s.vec_active else -1
    if s.result_count:
        s.has_progress = 1
    had_room = s.result_count < p.vec_results
    if is_written:
        r.retiring[VEC] = r.result_port[s.result_head] < 0
        s.result_head = (s.result_head + 1) % r.result_ready.size
        s.result_count -= 1
    if not s.vec_active or not had_room:
        return
    i = s.vec_instruction
    sources = code.sources[i]
    for k in range(sources):
        if r.grant[SOURCES_FROM + k]:
            s.granted |= 1 << k
            s.has_progress = 1
    if s.granted != (1 << sources) - 1:
        return
    s.has_progress = 1
    s.granted = 0
    r.activity[VEC] = BUSY
    s.iterations_left -= 1
    s.group_left -= 1
    if s.group_left == 0:
        s.group_left = code.group[i]
        slot = (s.result_head + s.result_count) % r.result_ready.size
        port = port_of(code, r.source_word[p.vec_sources])
        r.result_ready[slot] = t + p.vec_write
        r.result_port[slot] = port if s.iterations_left else -1 - port  # negative: the instruction's last
        s.result_count += 1
    loop = advance(code, r, W_VEC, i, 0, p.loops)
    if loop < 0:
        s.vec_active = 0
        r.can_take[VEC] = 1
        return
    for k in range(sources):
        r.source_word[k] += code.steps[i, k, loop]
    r.source_word[p.vec_sources] += code.steps[i, p.vec_sources, loop]


@njit(cache=True)
def result_port(s, r, t):  # type: ignore[no-untyped-def]
    """The port to which the oldest result asks to be written in this cycle, or -1."""
    if s.result_count == 0 or t < r.result_ready[s.result_head]:
        return -1
    port = r.result_port[s.result_head]
    return port if port >= 0 else -1 - port


# -- load --------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def start_load(p, s, code, r, i):  # type: ignore[no-untyped-def]
    s.load_active = 1
    s.load_instruction = i
    s.load_run_start = code.bases[i, 1]
    s.load_run_at = s.load_run_start
    s.load_run_left = code.run_bytes[i]
    s.load_runs_left = code.runs[i]
    begin_walk(r, p, W_LOAD_DRAM)


@njit(cache=True)
def ask_load_burst(p, s, code, r):  # type: ignore[no-untyped-def]
    """Put the current burst into the queue if there is room, and move to the next; its beats, or 0."""
    if not s.load_active or s.load_burst_count >= p.burst_queue:
        return 0
    size = burst_bytes(p, s.load_run_at, s.load_run_left)
    first_byte = s.load_run_at % p.bus_bytes
    beats = (first_byte + size + p.bus_bytes - 1) // p.bus_bytes
    if s.load_asked + beats > p.outstanding_beats:
        return 0
    slot = (s.load_burst_head + s.load_burst_count) % p.burst_queue
    r.load_burst_bytes[slot] = size
    r.load_burst_first[slot] = first_byte
    s.load_run_at += size
    s.load_run_left -= size
    if s.load_run_left == 0:
        i = s.load_instruction
        s.load_runs_left -= 1
        loop = advance(code, r, W_LOAD_DRAM, i, 0, code.first_inner[i])
        if loop < 0:
            s.load_active = 0
        else:
            s.load_run_start += code.steps[i, 1, loop]
            s.load_run_at = s.load_run_start
            s.load_run_left = code.run_bytes[i]
    return beats


@njit(cache=True)
def step_load(p, s, code, r, is_fetch_asking, is_written):  # type: ignore[no-untyped-def]
    """Address side, packer and writer; the beats of a burst asked for in this cycle, or 0."""
    in_hand = r.started[LOAD] - r.completed[LOAD]
    was_active = s.load_active
    bursts = s.load_burst_count
    beats = 0 if is_fetch_asking else ask_load_burst(p, s, code, r)
    r.can_take[LOAD] = in_hand < p.load_contexts and (not was_active or not s.load_active)
    was_held = s.writer_held
    if is_written:
        r.retiring[LOAD] = s.writer_last
        s.writer_held = 0
    emits = emit_word(p, s, code, r)
    if bursts > 0 and s.load_buffer > 0:
        take_beat(p, s, r)
    if beats:
        s.load_burst_count += 1
        s.load_asked += beats
        s.has_progress = 1
    r.activity[LOAD] = -1
    if emits:
        r.activity[LOAD] = BUSY
    elif was_held and not is_written:
        r.activity[LOAD] = STALL_PORT
    elif in_hand > 0:
        r.activity[LOAD] = STALL_DRAM
    if was_held:
        s.has_progress = 1
    return beats


@njit(cache=True)
def emit_word(p, s, code, r):  # type: ignore[no-untyped-def]
    if s.words_left == 0 and s.packed < r.started[LOAD]:
        i = code.of_engine[LOAD, s.packed]
        s.words_left = code.iterations[i]
        s.load_word = code.bases[i, 0]
        begin_walk(r, p, W_LOAD_WORD)
    if s.words_left == 0 or s.writer_held:
        return 0
    i = code.of_engine[LOAD, s.packed]
    if s.load_window < code.word_bytes[i]:
        return 0
    s.load_window -= code.word_bytes[i]
    s.words_left -= 1
    s.writer_held = 1
    s.writer_port = port_of(code, s.load_word)
    s.writer_last = s.words_left == 0
    s.has_progress = 1
    loop = advance(code, r, W_LOAD_WORD, i, 0, p.loops)
    if loop >= 0:
        s.load_word += code.steps[i, 0, loop]
    else:
        s.packed += 1
    return 1


@njit(cache=True)
def take_beat(p, s, r):  # type: ignore[no-untyped-def]
    head = s.load_burst_head
    valid = min(p.bus_bytes - r.load_burst_first[head], r.load_burst_bytes[head])
    if s.load_window + valid > p.load_window:
        return
    s.load_window += valid
    s.load_buffer -= 1
    s.load_asked -= 1
    s.has_progress = 1
    r.load_burst_first[head] = 0
    r.load_burst_bytes[head] -= valid
    if r.load_burst_bytes[head] == 0:
        s.load_burst_head = (head + 1) % p.burst_queue
        s.load_burst_count -= 1


# -- store -------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def start_store(p, s, code, r, i):  # type: ignore[no-untyped-def]
    s.reader_active = 1
    s.reader_instruction = i
    s.reads_left = code.iterations[i]
    s.read_word = code.bases[i, 0]
    s.store_active = 1
    s.store_instruction = i
    s.store_run_start = code.bases[i, 1]
    s.store_run_at = s.store_run_start
    s.store_run_left = code.run_bytes[i]
    s.store_runs_left = code.runs[i]
    begin_walk(r, p, W_STORE_DRAM)
    begin_walk(r, p, W_STORE_WORD)


@njit(cache=True)
def step_store(p, s, code, r, t):  # type: ignore[no-untyped-def]
    in_hand = r.started[STORE] - r.completed[STORE]
    is_asking = r.ask[r.ask.size - 1] >= 0
    is_granted = r.grant[r.grant.size - 1]
    bursts, words = s.store_burst_count, s.word_count
    forms = form_beat(p, s, r, t) if bursts > 0 else 0
    if words > 0:
        take_word(p, s, r, t)
    if s.store_active and bursts < p.burst_queue:
        address_store_burst(p, s, code, r, forms)
    if is_granted:
        grant_read(p, s, code, r, t)
    r.can_take[STORE] = in_hand < p.store_contexts and not s.reader_active and not s.store_active
    r.activity[STORE] = -1
    if is_granted or forms:
        r.activity[STORE] = BUSY
    elif is_asking:
        r.activity[STORE] = STALL_PORT
    elif in_hand > 0:
        r.activity[STORE] = STALL_DRAM
    if is_asking or forms:
        s.has_progress = 1


@njit(cache=True)
def form_beat(p, s, r, t):  # type: ignore[no-untyped-def]
    head = s.store_burst_head
    valid = min(p.bus_bytes - r.store_burst_first[head], r.store_burst_bytes[head])
    if s.store_window < valid:
        return 0
    s.store_window -= valid
    s.bytes_written += valid
    r.store_burst_first[head] = 0
    r.store_burst_bytes[head] -= valid
    if r.store_burst_bytes[head] == 0:
        slot = (s.response_head + s.response_count) % r.response_at.size
        r.response_at[slot] = t + 1 + p.latency  # on the bus, and accepted, in t + 1
        r.response_last[slot] = r.store_burst_last[head]
        s.response_count += 1
        s.store_burst_head = (head + 1) % p.burst_queue
        s.store_burst_count -= 1
    return 1


@njit(cache=True)
def take_word(p, s, r, t):  # type: ignore[no-untyped-def]
    head = s.word_head
    if t < r.word_ready[head]:
        s.has_progress = 1
        return
    if s.store_window + r.word_size[head] > p.store_window:
        return
    s.store_window += r.word_size[head]
    s.word_head = (head + 1) % p.store_words
    s.word_count -= 1
    s.has_progress = 1


@njit(cache=True)
def address_store_burst(p, s, code, r, forms):  # type: ignore[no-untyped-def]
    size = burst_bytes(p, s.store_run_at, s.store_run_left)
    slot = (s.store_burst_head + s.store_burst_count) % p.burst_queue
    r.store_burst_bytes[slot] = size
    r.store_burst_first[slot] = s.store_run_at % p.bus_bytes
    r.store_burst_last[slot] = 0
    s.store_burst_count += 1
    s.has_progress = 1
    s.store_run_at += size
    s.store_run_left -= size
    if s.store_run_left == 0:
        i = s.store_instruction
        s.store_runs_left -= 1
        loop = advance(code, r, W_STORE_DRAM, i, 0, code.first_inner[i])
        if loop < 0:
            r.store_burst_last[slot] = 1
            s.store_active = 0
        else:
            s.store_run_start += code.steps[i, 1, loop]
            s.store_run_at = s.store_run_start
            s.store_run_left = code.run_bytes[i]


@njit(cache=True)
def grant_read(p, s, code, r, t):  # type: ignore[no-untyped-def]
    i = s.reader_instruction
    slot = (s.word_head + s.word_count) % p.store_words
    r.word_ready[slot] = t + 2
    r.word_size[slot] = code.word_bytes[i]
    s.word_count += 1
    s.reads_left -= 1
    loop = advance(code, r, W_STORE_WORD, i, 0, p.loops)
    if loop >= 0:
        s.read_word += code.steps[i, 0, loop]
    else:
        s.reader_active = 0


@njit(cache=True)
def store_port(p, s, code):  # type: ignore[no-untyped-def]
    """The port that the store engine's reader asks in this cycle, or -1."""
    if not s.reader_active or s.word_count >= p.store_words:
        return -1
    return port_of(code, s.read_word)


# -- fetch, dispatch, the memory behind the bus ------------------------------------------------------------------------


@njit(cache=True)
def fetch_burst(p, s):  # type: ignore[no-untyped-def]
    """Beats of the burst that fetch asks for in this cycle, or 0."""
    beats = min(p.burst_beats, s.program_beats - s.beats_asked)
    return beats if s.fetch_reserved + beats <= p.fetch_buffer else 0


@njit(cache=True)
def step_dispatch(p, s, code, r, t):  # type: ignore[no-untyped-def]
    """Assemble and dispatch; False when the instruction has a WAIT fault. `dispatched` changes with the cycle's end."""
    is_full = s.assembled == p.instruction_beats
    pushed = -1
    if is_full:
        i = s.dispatched_all
        for e in range(4):
            if code.waits[i, e] > r.dispatched[e]:
                s.fault_instruction = i
                s.fault_count = code.waits[i, e]
                return -2
        e = code.engine[i]
        if r.dispatched[e] - r.started[e] < code.queue_depth[e]:
            pushed = e
            s.assembled = 0
            s.has_progress = 1
    if s.fetch_held > 0 and (not is_full or pushed >= 0):
        s.fetch_held -= 1
        s.fetch_reserved -= 1
        s.assembled += 1
        s.has_progress = 1
    return pushed


@njit(cache=True)
def request_read(p, s, r, t, owner, beats):  # type: ignore[no-untyped-def]
    """A request enters the address register in cycle t, and is accepted in t + 1."""
    slot = (s.read_head + s.read_count) % r.read_first.size
    r.read_owner[slot] = owner
    r.read_first[slot] = max(t + 1 + p.latency, s.read_free)
    r.read_beats[slot] = beats
    s.read_count += 1
    s.read_free = r.read_first[slot] + beats


@njit(cache=True)
def step_memory(p, s, r, t):  # type: ignore[no-untyped-def]
    """Deliver a read beat and a write response that come in this cycle."""
    if s.read_count > 0:
        head = s.read_head
        if t >= r.read_first[head]:
            s.has_progress = 1
            s.beats_read += 1
            if r.read_owner[head] == FETCH_OWNER:
                s.fetch_held += 1
            else:
                s.load_buffer += 1
            r.read_beats[head] -= 1
            if r.read_beats[head] == 0:
                s.read_head = (head + 1) % r.read_first.size
                s.read_count -= 1
    if s.response_count > 0 and t >= r.response_at[s.response_head]:
        s.has_progress = 1
        r.retiring[STORE] = r.response_last[s.response_head]
        s.response_head = (s.response_head + 1) % r.response_at.size
        s.response_count -= 1


# -- one cycle, and a run ----------------------------------------------------------------------------------------------


@njit(cache=True)
def step_engines(p, s, code, r, t):  # type: ignore[no-untyped-def]
    """Requests, arbitration and what every engine and the address channel do in cycle t."""
    slot = t % r.c_read.size
    c_read_port, c_write_port = r.c_read[slot], r.c_write[slot]
    r.c_read[slot] = -1
    w_port = weight_port(s, code)
    r.ask[0] = vector_port(p, s, code, t)
    ask_sources(p, s, code, r)
    r.ask[r.ask.size - 1] = store_port(p, s, code)
    arbitrate_reads(r, c_read_port, w_port)

    vec_port = result_port(s, r, t)
    load_port = s.writer_port if s.writer_held else -1
    vec_written = vec_port >= 0 and vec_port != c_write_port
    load_written = load_port >= 0 and load_port != c_write_port
    if vec_written and load_written and vec_port == load_port:
        vec_written = r.write_turn[vec_port] == 1  # whose turn it is not: the one granted last
        load_written = not vec_written
    if vec_written:
        r.write_turn[vec_port] = 0
    if load_written:
        r.write_turn[load_port] = 1

    step_mma(p, s, code, r, t, w_port, c_write_port)
    step_vec(p, s, code, r, t, vec_written)
    fetched = fetch_burst(p, s)
    loaded = step_load(p, s, code, r, fetched > 0, load_written)
    step_store(p, s, code, r, t)
    if fetched > 0:
        request_read(p, s, r, t, FETCH_OWNER, fetched)
        s.beats_asked += fetched
        s.fetch_reserved += fetched
        s.has_progress = 1
    elif loaded > 0:
        request_read(p, s, r, t, LOAD_OWNER, loaded)


@njit(cache=True)
def first_waited(code, r, i):  # type: ignore[no-untyped-def]
    """The first engine that an instruction still waits for, or -1."""
    for e in range(4):
        if r.completed[e] < code.waits[i, e]:
            return e
    return -1


@njit(cache=True)
def start_instructions(p, s, code, r, t):  # type: ignore[no-untyped-def]
    """Start what may start, and choose the counter of every engine for this cycle (into `activity`)."""
    for e in range(4):
        is_present = r.dispatched[e] > r.started[e]
        i, waited, starts = 0, -1, False
        if is_present:
            i = code.of_engine[e, r.started[e]]
            waited = first_waited(code, r, i)
            starts = waited < 0 and r.can_take[e]
        if r.activity[e] < 0:
            if starts:
                r.activity[e] = BUSY
            elif waited >= 0:
                r.activity[e] = WAIT + waited
            else:
                r.activity[e] = IDLE
        if not starts:
            continue
        s.has_progress = 1
        r.started_at[i] = t
        r.started[e] += 1
        if e == LOAD:
            start_load(p, s, code, r, i)
        elif e == MMA:
            start_mma(p, s, code, r, i)
        elif e == VEC:
            start_vec(p, s, code, r, i)
        else:
            start_store(p, s, code, r, i)


@njit(cache=True)
def next_event(s, r):  # type: ignore[no-untyped-def]
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    if s.read_count > 0:
        event = r.read_first[s.read_head]
    if s.response_count > 0:
        event = min(event, r.response_at[s.response_head])
    return event


@njit(cache=True)
def is_over(code, s, r):  # type: ignore[no-untyped-def]
    if s.dispatched_all < code.engine.size:
        return False
    for e in range(4):
        if r.completed[e] != r.dispatched[e]:
            return False
    return True


@njit(cache=True)
def run_cycles(p, s, code, r):  # type: ignore[no-untyped-def]
    """Run to the end; (how it ended, the cycle). Changes `s` and `r`.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once.
    """
    t = 0
    while not is_over(code, s, r):
        s.has_progress = 0
        for e in range(4):
            r.retiring[e] = 0
        step_engines(p, s, code, r, t)
        pushed = step_dispatch(p, s, code, r, t)
        if pushed == -2:
            return WAIT_FAULT, t
        step_memory(p, s, r, t)
        start_instructions(p, s, code, r, t)
        if pushed >= 0:
            r.dispatched[pushed] += 1
            s.dispatched_all += 1
        for e in range(4):
            if r.retiring[e]:
                r.retired_at[code.of_engine[e, r.completed[e]]] = t + 1
                r.completed[e] += 1
                s.has_progress = 1
        following = t + 1
        if not s.has_progress:
            following = next_event(s, r)
            if following >= FAR:
                return STUCK, t
        for e in range(4):
            r.counters[e, r.activity[e]] += following - t
        t = following
    return DONE, t
