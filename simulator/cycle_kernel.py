"""The machine of docs/microarchitecture.md, stepped cycle by cycle over integers and compiled with numba.

Each section of the page is a function here, which decides from what registers held at the start of the cycle. All of it
is one file because numba's cache on disk looks at no other. No figure is stated here: they come in `p`.

Every function takes what it needs of the same four: `p` (PARAMETERS), `s` (STATE), `code` (int64, a row for each
instruction) and `q` (int64: all queues and tables, each from its place `p.at_…` on). They are flat and nothing counts
references to them, because counting costs ten times the work itself.

Nests are aligned at the innermost loop. On-chip words and banks are counted through all memories.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LOAD, MMA, VEC, STORE = range(4)
"""Positions in tilewright.isa.machine.machine.ENGINES."""

BUSY, WAIT, STALL_PORT, STALL_DRAM, STALL_WEIGHTS, IDLE, COUNTERS = 0, 1, 5, 6, 7, 8, 9
"""Columns of an engine's counters; the wait for engine e is WAIT + e."""

ENGINE, WAITS, ITERATIONS, GROUP, FIRST_INNER, SOURCES, TO_WRITE = 0, 1, 5, 6, 7, 8, 9
ACCUMULATES, RUN_BYTES, RUNS, WORD_BYTES, FIXED = 10, 11, 12, 13, 14
"""Columns of `code`.

ITERATIONS: of mma, the vectors of a tile. GROUP: of vec, iterations a result; of mma, tiles. FIRST_INNER: of mma, the
first vector loop; of DMA, one beyond the loops that the address side walks. TO_WRITE: of vec, the cycles from issue to
write. From FIXED on, at places in `p`: `of_trips` and `of_is_reduce` (a column a loop), `of_bases` (a column an
operand), `of_steps` (operand by loop: what its address grows by when that loop moves on and all inside it return).
Operands: of vec its sources, then at `vec_sources` its destination; of mma a, w, c; of DMA the on-chip word, then the
DRAM byte.
"""

DONE, WAIT_FAULT, STUCK = range(3)
"""How a run ends."""

FETCH_OWNER, LOAD_OWNER = range(2)

VEC_ASKS = 1
"""Read requesters that take turns: mma a is 0, vec sources from here on, store is the last."""

FAR = 1 << 62


OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}

step = njit(**OPTIONS, forceinline=True)
"""A part of a cycle: becomes part of `run_cycles`, which then keeps its figures in registers."""


def record(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names])


QUEUES = (
    *("dispatched", "started", "completed", "retiring", "can_take", "activity"),  # an entry an engine
    *("counters", "of_engine", "queue_depth", "port_of_word", "read_turn", "write_turn", "ask", "grant", "index"),
    *("c_read", "c_write", "c_last", "result_ready", "result_port", "source_word"),
    *("load_burst_bytes", "load_burst_first", "word_ready", "word_size"),
    *("store_burst_bytes", "store_burst_first", "store_burst_last"),
    *("read_owner", "read_first", "read_beats", "response_at", "response_last", "started_at", "retired_at"),
)
"""What `q` holds, each as a stretch of its own.

`of_engine`: the n-th instruction of each engine. `read_turn`, `write_turn`: by port, who was granted last. `ask`: the
port that each requester asks in this cycle, or -1. `index`: the loop indices of every walker. `c_read`, `c_write`: by
cycle, the port of the accumulators that the array will read or write, or -1. `activity`: a column of the counters, or
-1 for nothing in hand.
"""

PARAMETERS = record(
    *("rows", "weight_lead", "update", "mma_read", "mma_write", "vec_results"),
    *("bus_bytes", "latency", "outstanding_beats", "burst_beats", "burst_boundary", "fetch_buffer", "burst_queue"),
    *("load_contexts", "store_contexts", "store_words", "load_window", "store_window", "instruction_beats"),
    *("vec_sources", "requesters", "loops", "words", "instructions"),
    *("pipeline_slots", "result_slots", "read_slots", "response_slots"),
    *("of_trips", "of_is_reduce", "of_bases", "of_steps"),
    *(f"at_{name}" for name in QUEUES),
)
"""Sizes and latencies of a machine, sizes of rings, and where things are in `code` and `q`."""

STATE = record(
    # fetch, dispatch and the memory behind the bus
    *("program_beats", "beats_asked", "fetch_reserved", "fetch_held", "assembled", "dispatched_all"),
    *("read_head", "read_count", "read_free", "response_head", "response_count"),
    # mma
    *("mma_active", "mma_instruction", "weight_tile", "weight_row", "weight_word", "vector_tile", "vector_index"),
    *("first_row_0", "first_row_1", "last_vector", "a_word", "c_word", "is_adding", "mma_in_flight", "slot"),
    # vec
    *("vec_active", "vec_instruction", "iterations_left", "group_left", "granted", "result_head", "result_count"),
    *("newest_ready",),
    # load
    *("load_active", "load_instruction", "load_run_left", "load_run_at", "load_run_start", "load_runs_left"),
    *("load_asked", "load_buffer", "load_window", "load_burst_head", "load_burst_count", "packed", "words_left"),
    *("load_word", "writer_held", "writer_port", "writer_last"),
    # store
    *("reader_active", "reader_instruction", "reads_left", "read_word", "word_head", "word_count"),
    *("store_active", "store_instruction", "store_run_left", "store_run_at", "store_run_start", "store_runs_left"),
    *("store_window", "store_burst_head", "store_burst_count"),
    # results
    *("beats_read", "bytes_written", "fault_instruction", "fault_count", "has_progress"),
)
"""The machine's registers that are single numbers."""

WALKERS = W_VECTOR, W_WEIGHTS, W_VEC, W_LOAD_DRAM, W_LOAD_WORD, W_STORE_DRAM, W_STORE_WORD = range(7)


# -- rings, nests and bursts -------------------------------------------------------------------------------------------


@step
def wrapped(slot, size):
    """A slot of a ring, of a number below twice its size; a comparison costs far less than a division."""
    return slot - size if slot >= size else slot


@step
def begin_walk(p, q, walker):
    for loop in range(p.loops):
        q[p.at_index + walker * p.loops + loop] = 0


@step
def advance(p, code, q, walker, i, first, end):
    """Move a walker to the next iteration of loops first … end-1; the loop that moved on, or -1 after the last."""
    for loop in range(end - 1, first - 1, -1):
        if q[p.at_index + walker * p.loops + loop] + 1 < code[i, p.of_trips + loop]:
            q[p.at_index + walker * p.loops + loop] += 1
            return loop
        q[p.at_index + walker * p.loops + loop] = 0
    return -1


@step
def port_of(p, q, word):
    """The bank of a word, both counted through all memories; a word outside (its run has a fault) is the nearest."""
    return q[p.at_port_of_word + min(max(word, 0), p.words - 1)]


@step
def burst_bytes(p, address, left):
    """tilewright.isa.timing.first_burst: the size of the next burst of a run."""
    to_boundary = p.burst_boundary - address % p.burst_boundary
    to_longest = p.burst_beats * p.bus_bytes - address % p.bus_bytes
    return min(left, to_boundary, to_longest)


# -- memory ports ------------------------------------------------------------------------------------------------------


@step
def arbitrate_reads(p, q, c_port, w_port):
    """The array's c and w win; the others take turns on each port."""
    count = p.requesters
    for k in range(count):
        port = q[p.at_ask + k]
        q[p.at_grant + k] = 0
        if port < 0 or port in (c_port, w_port):
            continue
        wins = 1
        for j in range(count):
            if j != k and q[p.at_ask + j] == port:
                turn = q[p.at_read_turn + port]
                if (j - turn - 1) % count < (k - turn - 1) % count:
                    wins = 0
        q[p.at_grant + k] = wins
    for k in range(count):
        if q[p.at_grant + k]:
            q[p.at_read_turn + q[p.at_ask + k]] = k


# -- mma ---------------------------------------------------------------------------------------------------------------


@step
def start_mma(p, s, code, q, i):
    s.mma_active = 1
    s.mma_instruction = i
    s.weight_tile = 0
    s.weight_row = 0
    s.vector_tile = 0
    s.vector_index = 0
    s.a_word = code[i, p.of_bases]
    s.weight_word = code[i, p.of_bases + 1]
    s.c_word = code[i, p.of_bases + 2]
    s.is_adding = code[i, ACCUMULATES]
    begin_walk(p, q, W_VECTOR)
    begin_walk(p, q, W_WEIGHTS)


@step
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


@step
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


@step
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
            s.weight_word += code[i, p.of_steps + 1 * p.loops + loop]


@step
def issue_vector(p, s, code, q, t):
    i = s.mma_instruction
    size = p.pipeline_slots
    port = port_of(p, q, s.c_word)
    if s.is_adding:
        q[p.at_c_read + (wrapped(s.slot + p.mma_read, size))] = port
    q[p.at_c_write + (wrapped(s.slot + p.mma_write, size))] = port
    s.mma_in_flight += 1
    s.vector_index += 1
    loop = advance(p, code, q, W_VECTOR, i, 0, p.loops)
    if loop >= 0:
        s.a_word += code[i, p.of_steps + 0 * p.loops + loop]
        s.c_word += code[i, p.of_steps + 2 * p.loops + loop]
    if s.vector_index < code[i, ITERATIONS]:
        return
    s.vector_index = 0
    s.vector_tile += 1
    s.last_vector = t
    q[p.at_c_last + (wrapped(s.slot + p.mma_write, size))] = loop < 0
    s.is_adding = code[i, ACCUMULATES]
    for outer in range(code[i, FIRST_INNER]):
        if code[i, p.of_is_reduce + outer] and q[p.at_index + W_VECTOR * p.loops + outer] > 0:
            s.is_adding = 1


@step
def step_mma(p, s, code, q, t, w_port, c_write_port):
    q[p.at_can_take + MMA] = not s.mma_active
    q[p.at_activity + MMA] = STALL_WEIGHTS if s.mma_active else -1
    if w_port >= 0:
        read_weight_row(p, s, code, q, t)
    if q[p.at_grant]:
        issue_vector(p, s, code, q, t)
        q[p.at_activity + MMA] = BUSY
    elif q[p.at_ask] >= 0:
        q[p.at_activity + MMA] = STALL_PORT
    if s.mma_active:
        tiles = code[s.mma_instruction, GROUP]
        if s.vector_tile == tiles and s.weight_tile == tiles:
            s.mma_active = 0
            q[p.at_can_take + MMA] = q[p.at_grant]
    if c_write_port >= 0:
        slot = s.slot
        s.mma_in_flight -= 1
        q[p.at_retiring + MMA] = q[p.at_c_last + slot]
        q[p.at_c_write + slot] = -1
        q[p.at_c_last + slot] = 0
    if s.mma_active or s.mma_in_flight:
        s.has_progress = 1


# -- vec ---------------------------------------------------------------------------------------------------------------


@step
def start_vec(p, s, code, q, i):
    s.vec_active = 1
    s.vec_instruction = i
    s.iterations_left = code[i, ITERATIONS]
    s.group_left = code[i, GROUP]
    s.granted = 0
    for k in range(p.vec_sources + 1):
        q[p.at_source_word + k] = code[i, p.of_bases + k]
    begin_walk(p, q, W_VEC)


@step
def may_issue(p, s, code, t):
    """There is room for a result, and one of this instruction would not overtake those before it."""
    if not s.vec_active or s.result_count >= p.vec_results:
        return False
    return t + code[s.vec_instruction, TO_WRITE] > s.newest_ready


@step
def ask_sources(p, s, code, q, t):
    for k in range(p.vec_sources):
        q[p.at_ask + VEC_ASKS + k] = -1
    if not may_issue(p, s, code, t):
        return
    for k in range(code[s.vec_instruction, SOURCES]):
        if not (s.granted >> k) & 1:
            q[p.at_ask + VEC_ASKS + k] = port_of(p, q, q[p.at_source_word + k])


@step
def step_vec(p, s, code, q, t, is_written):
    q[p.at_can_take + VEC] = not s.vec_active
    q[p.at_activity + VEC] = STALL_PORT if s.vec_active else -1
    if s.result_count:
        s.has_progress = 1
    can_issue = may_issue(p, s, code, t)
    if s.vec_active and t <= s.newest_ready:
        s.has_progress = 1
    if is_written:
        q[p.at_retiring + VEC] = q[p.at_result_port + s.result_head] < 0
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
    q[p.at_activity + VEC] = BUSY
    s.newest_ready = t + code[i, TO_WRITE]
    s.iterations_left -= 1
    s.group_left -= 1
    if s.group_left == 0:
        s.group_left = code[i, GROUP]
        slot = wrapped(s.result_head + s.result_count, p.result_slots)
        port = port_of(p, q, q[p.at_source_word + p.vec_sources])
        q[p.at_result_ready + slot] = s.newest_ready
        q[p.at_result_port + slot] = port if s.iterations_left else -1 - port  # negative: the instruction's last
        s.result_count += 1
    loop = advance(p, code, q, W_VEC, i, 0, p.loops)
    if loop < 0:
        s.vec_active = 0
        q[p.at_can_take + VEC] = 1
        return
    for k in range(sources):
        q[p.at_source_word + k] += code[i, p.of_steps + k * p.loops + loop]
    q[p.at_source_word + p.vec_sources] += code[i, p.of_steps + p.vec_sources * p.loops + loop]


@step
def result_port(p, s, code, q, t):
    """The port to which the oldest result asks to be written in this cycle, or -1."""
    if s.result_count == 0 or t < q[p.at_result_ready + s.result_head]:
        return -1
    port = q[p.at_result_port + s.result_head]
    return port if port >= 0 else -1 - port


# -- load --------------------------------------------------------------------------------------------------------------


@step
def start_load(p, s, code, q, i):
    s.load_active = 1
    s.load_instruction = i
    s.load_run_start = code[i, p.of_bases + 1]
    s.load_run_at = s.load_run_start
    s.load_run_left = code[i, RUN_BYTES]
    s.load_runs_left = code[i, RUNS]
    begin_walk(p, q, W_LOAD_DRAM)


@step
def ask_load_burst(p, s, code, q):
    """Put the current burst into the queue if there is room, and move to the next; its beats, or 0."""
    if not s.load_active or s.load_burst_count >= p.burst_queue:
        return 0
    size = burst_bytes(p, s.load_run_at, s.load_run_left)
    first_byte = s.load_run_at % p.bus_bytes
    beats = (first_byte + size + p.bus_bytes - 1) // p.bus_bytes
    if s.load_asked + beats > p.outstanding_beats:
        return 0
    slot = wrapped(s.load_burst_head + s.load_burst_count, p.burst_queue)
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
            s.load_run_start += code[i, p.of_steps + 1 * p.loops + loop]
            s.load_run_at = s.load_run_start
            s.load_run_left = code[i, RUN_BYTES]
    return beats


@step
def step_load(p, s, code, q, is_fetch_asking, is_written):
    """Address side, packer and writer; the beats of a burst asked for in this cycle, or 0."""
    in_hand = q[p.at_started + LOAD] - q[p.at_completed + LOAD]
    was_active = s.load_active
    bursts = s.load_burst_count
    beats = 0 if is_fetch_asking else ask_load_burst(p, s, code, q)
    q[p.at_can_take + LOAD] = in_hand < p.load_contexts and (not was_active or not s.load_active)
    was_held = s.writer_held
    if is_written:
        q[p.at_retiring + LOAD] = s.writer_last
        s.writer_held = 0
    emits = emit_word(p, s, code, q)
    if bursts > 0 and s.load_buffer > 0:
        take_beat(p, s, code, q)
    if beats:
        s.load_burst_count += 1
        s.load_asked += beats
        s.has_progress = 1
    q[p.at_activity + LOAD] = -1
    if emits:
        q[p.at_activity + LOAD] = BUSY
    elif was_held and not is_written:
        q[p.at_activity + LOAD] = STALL_PORT
    elif in_hand > 0:
        q[p.at_activity + LOAD] = STALL_DRAM
    if was_held:
        s.has_progress = 1
    return beats


@step
def emit_word(p, s, code, q):
    if s.words_left == 0 and s.packed < q[p.at_started + LOAD]:
        i = q[p.at_of_engine + LOAD * p.instructions + s.packed]
        s.words_left = code[i, ITERATIONS]
        s.load_word = code[i, p.of_bases]
        begin_walk(p, q, W_LOAD_WORD)
    if s.words_left == 0 or s.writer_held:
        return 0
    i = q[p.at_of_engine + LOAD * p.instructions + s.packed]
    if s.load_window < code[i, WORD_BYTES]:
        return 0
    s.load_window -= code[i, WORD_BYTES]
    s.words_left -= 1
    s.writer_held = 1
    s.writer_port = port_of(p, q, s.load_word)
    s.writer_last = s.words_left == 0
    s.has_progress = 1
    loop = advance(p, code, q, W_LOAD_WORD, i, 0, p.loops)
    if loop >= 0:
        s.load_word += code[i, p.of_steps + 0 * p.loops + loop]
    else:
        s.packed += 1
    return 1


@step
def take_beat(p, s, code, q):
    head = s.load_burst_head
    valid = min(p.bus_bytes - q[p.at_load_burst_first + head], q[p.at_load_burst_bytes + head])
    if s.load_window + valid > p.load_window:
        return
    s.load_window += valid
    s.load_buffer -= 1
    s.load_asked -= 1
    s.has_progress = 1
    q[p.at_load_burst_first + head] = 0
    q[p.at_load_burst_bytes + head] -= valid
    if q[p.at_load_burst_bytes + head] == 0:
        s.load_burst_head = wrapped(head + 1, p.burst_queue)
        s.load_burst_count -= 1


# -- store -------------------------------------------------------------------------------------------------------------


@step
def start_store(p, s, code, q, i):
    s.reader_active = 1
    s.reader_instruction = i
    s.reads_left = code[i, ITERATIONS]
    s.read_word = code[i, p.of_bases]
    s.store_active = 1
    s.store_instruction = i
    s.store_run_start = code[i, p.of_bases + 1]
    s.store_run_at = s.store_run_start
    s.store_run_left = code[i, RUN_BYTES]
    s.store_runs_left = code[i, RUNS]
    begin_walk(p, q, W_STORE_DRAM)
    begin_walk(p, q, W_STORE_WORD)


@step
def step_store(p, s, code, q, t):
    in_hand = q[p.at_started + STORE] - q[p.at_completed + STORE]
    is_asking = q[p.at_ask + p.requesters - 1] >= 0
    is_granted = q[p.at_grant + p.requesters - 1]
    bursts, words = s.store_burst_count, s.word_count
    forms = form_beat(p, s, code, q, t) if bursts > 0 else 0
    if words > 0:
        take_word(p, s, code, q, t)
    if s.store_active and bursts < p.burst_queue:
        address_store_burst(p, s, code, q, forms)
    if is_granted:
        grant_read(p, s, code, q, t)
    q[p.at_can_take + STORE] = in_hand < p.store_contexts and not s.reader_active and not s.store_active
    q[p.at_activity + STORE] = -1
    if is_granted or forms:
        q[p.at_activity + STORE] = BUSY
    elif is_asking:
        q[p.at_activity + STORE] = STALL_PORT
    elif in_hand > 0:
        q[p.at_activity + STORE] = STALL_DRAM
    if is_asking or forms:
        s.has_progress = 1


@step
def form_beat(p, s, code, q, t):
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
        s.store_burst_head = wrapped(head + 1, p.burst_queue)
        s.store_burst_count -= 1
    return 1


@step
def take_word(p, s, code, q, t):
    head = s.word_head
    if t < q[p.at_word_ready + head]:
        s.has_progress = 1
        return
    if s.store_window + q[p.at_word_size + head] > p.store_window:
        return
    s.store_window += q[p.at_word_size + head]
    s.word_head = wrapped(head + 1, p.store_words)
    s.word_count -= 1
    s.has_progress = 1


@step
def address_store_burst(p, s, code, q, forms):
    size = burst_bytes(p, s.store_run_at, s.store_run_left)
    slot = wrapped(s.store_burst_head + s.store_burst_count, p.burst_queue)
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
            s.store_run_start += code[i, p.of_steps + 1 * p.loops + loop]
            s.store_run_at = s.store_run_start
            s.store_run_left = code[i, RUN_BYTES]


@step
def grant_read(p, s, code, q, t):
    i = s.reader_instruction
    slot = wrapped(s.word_head + s.word_count, p.store_words)
    q[p.at_word_ready + slot] = t + 2
    q[p.at_word_size + slot] = code[i, WORD_BYTES]
    s.word_count += 1
    s.reads_left -= 1
    loop = advance(p, code, q, W_STORE_WORD, i, 0, p.loops)
    if loop >= 0:
        s.read_word += code[i, p.of_steps + 0 * p.loops + loop]
    else:
        s.reader_active = 0


@step
def store_port(p, s, code, q):
    """The port that the store engine's reader asks in this cycle, or -1."""
    if not s.reader_active or s.word_count >= p.store_words:
        return -1
    return port_of(p, q, s.read_word)


# -- fetch, dispatch, the memory behind the bus ------------------------------------------------------------------------


@step
def fetch_burst(p, s, code, q):
    """Beats of the burst that fetch asks for in this cycle, or 0."""
    beats = min(p.burst_beats, s.program_beats - s.beats_asked)
    return beats if s.fetch_reserved + beats <= p.fetch_buffer else 0


@step
def step_dispatch(p, s, code, q, t):
    """Assemble and dispatch; False when the instruction has a WAIT fault. `dispatched` changes with the cycle's end."""
    is_full = s.assembled == p.instruction_beats
    pushed = -1
    if is_full:
        i = s.dispatched_all
        for e in range(4):
            if code[i, WAITS + e] > q[p.at_dispatched + e]:
                s.fault_instruction = i
                s.fault_count = code[i, WAITS + e]
                return -2
        e = code[i, ENGINE]
        if q[p.at_dispatched + e] - q[p.at_started + e] < q[p.at_queue_depth + e]:
            pushed = e
            s.assembled = 0
            s.has_progress = 1
    if s.fetch_held > 0 and (not is_full or pushed >= 0):
        s.fetch_held -= 1
        s.fetch_reserved -= 1
        s.assembled += 1
        s.has_progress = 1
    return pushed


@step
def request_read(p, s, code, q, t, owner, beats):
    """A request enters the address register in cycle t, and is accepted in t + 1."""
    slot = wrapped(s.read_head + s.read_count, p.read_slots)
    q[p.at_read_owner + slot] = owner
    q[p.at_read_first + slot] = max(t + 1 + p.latency, s.read_free)
    q[p.at_read_beats + slot] = beats
    s.read_count += 1
    s.read_free = q[p.at_read_first + slot] + beats


@step
def step_memory(p, s, code, q, t):
    """Deliver a read beat and a write response that come in this cycle."""
    if s.read_count > 0:
        head = s.read_head
        if t >= q[p.at_read_first + head]:
            s.has_progress = 1
            s.beats_read += 1
            if q[p.at_read_owner + head] == FETCH_OWNER:
                s.fetch_held += 1
            else:
                s.load_buffer += 1
            q[p.at_read_beats + head] -= 1
            if q[p.at_read_beats + head] == 0:
                s.read_head = wrapped(head + 1, p.read_slots)
                s.read_count -= 1
    if s.response_count > 0 and t >= q[p.at_response_at + s.response_head]:
        s.has_progress = 1
        q[p.at_retiring + STORE] = q[p.at_response_last + s.response_head]
        s.response_head = wrapped(s.response_head + 1, p.response_slots)
        s.response_count -= 1


# -- one cycle, and a run ----------------------------------------------------------------------------------------------


@step
def step_engines(p, s, code, q, t):
    """Requests, arbitration and what every engine and the address channel do in cycle t."""
    slot = s.slot
    c_read_port, c_write_port = q[p.at_c_read + slot], q[p.at_c_write + slot]
    q[p.at_c_read + slot] = -1
    w_port = weight_port(p, s, code, q)
    q[p.at_ask] = vector_port(p, s, code, q, t)
    ask_sources(p, s, code, q, t)
    q[p.at_ask + p.requesters - 1] = store_port(p, s, code, q)
    arbitrate_reads(p, q, c_read_port, w_port)

    vec_port = result_port(p, s, code, q, t)
    load_port = s.writer_port if s.writer_held else -1
    vec_written = vec_port >= 0 and vec_port != c_write_port
    load_written = load_port >= 0 and load_port != c_write_port
    if vec_written and load_written and vec_port == load_port:
        vec_written = q[p.at_write_turn + vec_port] == 1  # whose turn it is not: the one granted last
        load_written = not vec_written
    if vec_written:
        q[p.at_write_turn + vec_port] = 0
    if load_written:
        q[p.at_write_turn + load_port] = 1

    step_mma(p, s, code, q, t, w_port, c_write_port)
    step_vec(p, s, code, q, t, vec_written)
    fetched = fetch_burst(p, s, code, q)
    loaded = step_load(p, s, code, q, fetched > 0, load_written)
    step_store(p, s, code, q, t)
    if fetched > 0:
        request_read(p, s, code, q, t, FETCH_OWNER, fetched)
        s.beats_asked += fetched
        s.fetch_reserved += fetched
        s.has_progress = 1
    elif loaded > 0:
        request_read(p, s, code, q, t, LOAD_OWNER, loaded)


@step
def first_waited(p, s, code, q, i):
    """The first engine that an instruction still waits for, or -1."""
    for e in range(4):
        if q[p.at_completed + e] < code[i, WAITS + e]:
            return e
    return -1


@step
def start_instructions(p, s, code, q, t):
    """Start what may start, and choose the counter of every engine for this cycle (into `activity`)."""
    for e in range(4):
        is_present = q[p.at_dispatched + e] > q[p.at_started + e]
        i, waited, starts = 0, -1, False
        if is_present:
            i = q[p.at_of_engine + e * p.instructions + q[p.at_started + e]]
            waited = first_waited(p, s, code, q, i)
            starts = waited < 0 and q[p.at_can_take + e]
        if q[p.at_activity + e] < 0:
            if starts:
                q[p.at_activity + e] = BUSY
            elif waited >= 0:
                q[p.at_activity + e] = WAIT + waited
            else:
                q[p.at_activity + e] = IDLE
        if not starts:
            continue
        s.has_progress = 1
        q[p.at_started_at + i] = t
        q[p.at_started + e] += 1
        if e == LOAD:
            start_load(p, s, code, q, i)
        elif e == MMA:
            start_mma(p, s, code, q, i)
        elif e == VEC:
            start_vec(p, s, code, q, i)
        else:
            start_store(p, s, code, q, i)


@step
def next_event(p, s, code, q):
    """The next cycle in which DRAM answers, or FAR."""
    event = FAR
    if s.read_count > 0:
        event = q[p.at_read_first + s.read_head]
    if s.response_count > 0:
        event = min(event, q[p.at_response_at + s.response_head])
    return event


@step
def is_over(p, s, code, q):
    if s.dispatched_all < p.instructions:
        return False
    completed = 0
    for e in range(4):
        completed += q[p.at_completed + e]
    return completed == s.dispatched_all


@njit(**OPTIONS)
def run_cycles(p, s, code, q):
    """Run to the end; (how it ended, the cycle). Changes `s` and `q`.

    When nothing at all changes in a cycle, only DRAM can change anything: the cycles until it answers are alike and are
    counted at once.
    """
    t = 0
    while not is_over(p, s, code, q):
        s.has_progress = 0
        for e in range(4):
            q[p.at_retiring + e] = 0
        step_engines(p, s, code, q, t)
        pushed = step_dispatch(p, s, code, q, t)
        if pushed == -2:
            return WAIT_FAULT, t
        step_memory(p, s, code, q, t)
        start_instructions(p, s, code, q, t)
        if pushed >= 0:
            q[p.at_dispatched + pushed] += 1
            s.dispatched_all += 1
        for e in range(4):
            if q[p.at_retiring + e]:
                q[p.at_retired_at + q[p.at_of_engine + e * p.instructions + q[p.at_completed + e]]] = t + 1
                q[p.at_completed + e] += 1
                s.has_progress = 1
        following = t + 1
        if not s.has_progress:
            following = next_event(p, s, code, q)
            if following >= FAR:
                return STUCK, t
        s.slot = wrapped(s.slot + 1, p.pipeline_slots)  # nothing is in the pipeline when cycles are skipped
        for e in range(4):
            q[p.at_counters + e * COUNTERS + q[p.at_activity + e]] += following - t
        t = following
    return DONE, t
