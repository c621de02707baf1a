"""Where things are in the kernel's four arguments: the columns of `code`, and what `p`, `s` and `q` hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ENGINE_COUNT = 4
"""A DMA engine of each direction, an array and a vector engine; their numbers are parameters."""

# -- the columns of an engine's counters -------------------------------------------------------------------------------

BUSY = 0
WAIT = 1  # for engine e: WAIT + e
STALL_PORT = WAIT + ENGINE_COUNT
STALL_DRAM = STALL_PORT + 1
STALL_WEIGHTS = STALL_DRAM + 1
IDLE = STALL_WEIGHTS + 1
COUNTERS = IDLE + 1

# -- the columns of `code` ---------------------------------------------------------------------------------------------

ENGINE = 0
WAITS = 1  # for engine e: WAITS + e
ITERATIONS = WAITS + ENGINE_COUNT  # of mma, the vectors of a tile
GROUP = ITERATIONS + 1  # of vec, iterations a result; of mma, tiles
FIRST_INNER = GROUP + 1  # of mma, the first vector loop; of DMA, one beyond the loops that the address side walks
SOURCES = FIRST_INNER + 1
TO_WRITE = SOURCES + 1  # of vec, the cycles from issue to write
REFUSABLE = TO_WRITE + 1  # of vec, whether the write of a result can be refused
RESULT_LIMIT = REFUSABLE + 1  # of vec, an iteration issues while fewer such results are outstanding
ACCUMULATES = RESULT_LIMIT + 1
RUN_BYTES = ACCUMULATES + 1
RUNS = RUN_BYTES + 1
WORD_BYTES = RUNS + 1
FIXED = WORD_BYTES + 1
"""From here on, at places in `p`: `trips_column` and `is_reduce_column` (a column a loop), `bases_column` (a column an
operand), `steps_column` (operand by loop: what its address grows by when that loop moves on and all inside it return).
"""

MMA_A, MMA_W, MMA_C = range(3)
DMA_WORD, DMA_BYTE = range(2)
"""Operands, in the order of an instruction's bases and steps; DMA has the on-chip word, then the DRAM byte.

Those of vec are its sources, then, at `vec_sources`, its destination.
"""
MOST_FIXED_OPERANDS = 3

# -- requesters, walkers, outcomes -------------------------------------------------------------------------------------

MMA_ASKS = 0
VEC_ASKS = 1
"""Read requesters that take turns: the array's a, vec's sources from VEC_ASKS on, and store, which is the last."""

FIXED_REQUESTERS = 2
"""Read requesters other than vec's sources."""

FETCH_OWNER, LOAD_OWNER = range(2)
"""Who asked for a read of DRAM."""

WALKERS = W_VECTOR, W_WEIGHTS, W_VEC, W_LOAD_DRAM, W_LOAD_WORD, W_STORE_DRAM, W_STORE_WORD = range(7)

DONE, WAIT_FAULT, STUCK = range(3)
"""How a run ends."""

# -- queues, parameters, state -----------------------------------------------------------------------------------------


def record(*names: str, places: Sequence[str] = ()) -> np.dtype[Any]:
    """Numbers by name, then places: these have no sign, so the compiled code does not ask whether they are negative."""
    return np.dtype([*((name, np.int64) for name in names), *((name, np.uint32) for name in places)])


PLACED_QUEUES = {
    **dict.fromkeys(("dispatched", "started", "completed", "retiring", "can_take", "activity", "waited"), ENGINE_COUNT),
    "counters": ENGINE_COUNT * COUNTERS,
}
"""The first of `q`, and how many entries each has: no machine has others, so that the kernel knows their places."""

AT_DISPATCHED, AT_STARTED, AT_COMPLETED, AT_RETIRING, AT_CAN_TAKE, AT_ACTIVITY, AT_WAITED, AT_COUNTERS = (
    sum(list(PLACED_QUEUES.values())[:position]) for position in range(len(PLACED_QUEUES))
)
"""Where these begin, in their order."""

QUEUES = (
    *PLACED_QUEUES,
    *("engine_order", "queue_depth", "port_of_word", "read_turn", "ask", "grant", "index"),
    *("c_read", "c_write", "c_last", "result_ready", "result_port", "result_refusable", "source_word"),
    *("load_burst_bytes", "load_burst_first", "part_ready", "part_size"),
    *("store_burst_bytes", "store_burst_first", "store_burst_last"),
    *("read_owner", "read_first", "read_beats", "response_at", "response_last"),
    *("dispatched_at", "started_at", "retired_at"),
)
"""What `q` holds, each as a stretch of its own; those of PLACED_QUEUES have an entry, or row, for each engine.

`engine_order`: the n-th instruction of each engine. `read_turn`: by port, who was granted last. `ask`:
the port that each requester asks in this cycle, or -1. `index`: the loop indices of every walker. `c_read`, `c_write`:
by cycle, the port of the accumulators that the array will read or write, or -1. `activity`: a column of the counters,
or -1 for nothing in hand. `waited`: for which engine an engine's next instruction waits, as it was at the last news.
"""

PARAMETERS = record(
    *("rows", "weight_lead", "update", "mma_read", "mma_write"),
    *("bus_bytes", "latency", "outstanding_beats", "burst_beats", "burst_boundary", "fetch_buffer"),
    *("dma_in_contexts", "dma_in_bursts", "dma_in_beats", "dma_out_contexts", "dma_out_bursts", "dma_out_beats"),
    *("store_read", "dma_window"),
    *("instruction_beats", "vec_sources", "requesters", "loops", "words", "instructions"),
    *("pipeline_slots", "result_slots", "read_slots", "response_slots"),
    *("is_apart", "ideal_engines"),
    places=(
        *("dma_in", "array", "vector", "dma_out"),
        *("trips_column", "is_reduce_column", "bases_column", "steps_column"),
        *(f"at_{name}" for name in QUEUES if name not in PLACED_QUEUES),
    ),
)
"""Sizes and latencies of a machine, sizes of rings, engines' numbers, and where things are in `code` and `q`.

Of a machine that could be (see `simulator.ideal`): with `is_apart`, the engines and fetch never wait for each other's
use of ports and bus; `ideal_engines` has a bit for each engine whose instructions take one cycle. Both are 0 for a
machine that is.
"""

STATE = record(
    # fetch, dispatch and the memory behind the bus
    *("program_beats", "beats_asked", "fetch_reserved", "fetch_held", "assembled", "dispatched_all"),
    *("read_head", "read_count", "read_free", "response_head", "response_count"),
    # mma
    *("mma_active", "mma_instruction", "weight_tile", "weight_row", "weight_word", "vector_tile", "vector_index"),
    *("first_row_0", "first_row_1", "last_vector", "a_word", "c_word", "is_adding", "mma_in_flight", "slot"),
    # vec
    *("vec_active", "vec_instruction", "iterations_left", "group_left", "granted", "result_head", "result_count"),
    *("newest_ready", "refusable_count"),
    # load
    *("load_active", "load_instruction", "load_run_left", "load_run_at", "load_run_start", "load_runs_left"),
    *("load_asked", "load_buffer", "load_window", "load_burst_head", "load_burst_count", "packed", "words_left"),
    *("load_is_full", "load_word", "word_filled", "writer_held", "writer_port", "writer_last"),
    # store
    *("reader_active", "reader_instruction", "reads_left", "read_word", "part_head", "part_count"),
    *("store_active", "store_instruction", "store_run_left", "store_run_at", "store_run_start", "store_runs_left"),
    *("part_read", "store_window", "store_burst_head", "store_burst_count"),
    # results
    *("beats_read", "bytes_written", "fault_instruction", "fault_count", "has_progress"),
    # for the kernel's own sake: whether an instruction was dispatched, started or completed since it looked
    "has_news",
)
"""The machine's registers that are single numbers."""
