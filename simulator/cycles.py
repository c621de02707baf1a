"""The cycle model: how long a program takes on its machine, cycle for cycle as docs/microarchitecture.md says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing
from tilewright.isa.machine.engine import Direction, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import STALLS, EngineCounters, RunCounters
from tilewright.simulator.errors import SimulatorError
from tilewright.simulator.ideal import Ideal
from tilewright.simulator.instruction_table import (
    bank_of_words,
    instruction_columns,
    instruction_table,
    nest_depth,
)
from tilewright.simulator.kernel.layout import (
    BUSY,
    COUNTERS,
    DONE,
    ENGINE,
    FIXED_REQUESTERS,
    IDLE,
    PARAMETERS,
    PLACED_QUEUES,
    QUEUES,
    STALL_DRAM,
    STALL_PORT,
    STALL_WEIGHTS,
    STATE,
    WAIT,
    WAIT_FAULT,
    WALKERS,
)

STALL_COLUMNS = {"port": STALL_PORT, "dram": STALL_DRAM, "weights": STALL_WEIGHTS}


def simulate_cycles(program: Program, bases: Mapping[str, int], ideal: Ideal | None = None) -> RunCounters:
    """Counters and the trace of one run with the reference memory; they do not depend on data.

    A WAIT fault ends the run in its cycle. Other faults are not looked for (see `simulator.values`): the figures of a
    program that has one mean nothing. With `ideal`, of a machine with ideal parts: its cycles and
    times; the counters mean nothing. Raises SimulatorError when a program waits for itself (no valid one can).
    """
    from tilewright.simulator.kernel.run import run_cycles  # loads Numba, which a compilation may never need

    machine = program.machine
    code = instruction_table(program, bases)
    parameters, queues, places = _reset(program, code, ideal)
    state = np.zeros(1, STATE)[0]
    state["has_news"] = 1
    state["program_beats"] = len(program.instructions) * int(parameters["instruction_beats"])
    end, cycles = run_cycles(parameters, state, code, queues)
    if end not in (DONE, WAIT_FAULT):
        raise SimulatorError(f"no engine can go on in cycle {cycles}: the program waits for itself; check it")
    fault = None
    if end == WAIT_FAULT:
        fault = Fault(FaultCode.WAIT, int(state["fault_instruction"]), int(state["fault_count"]))
    counters = queues[places["counters"]].reshape(len(machine.engines), COUNTERS)
    return RunCounters(
        cycles=int(cycles),
        engines={name: _engine_counters(machine, counters[row]) for row, name in enumerate(machine.engines)},
        dram_bytes_read=int(state["beats_read"]) * machine.dram.bus_bytes,
        dram_bytes_written=int(state["bytes_written"]),
        dispatched=queues[places["dispatched_at"]].copy(),
        started=queues[places["started_at"]].copy(),
        retired=queues[places["retired_at"]].copy(),
        fault=fault,
    )


def _engine_counters(machine: Machine, row: NDArray[np.int64]) -> EngineCounters:
    return EngineCounters(
        busy=int(row[BUSY]),
        wait={name: int(row[WAIT + position]) for position, name in enumerate(machine.engines)},
        stall={cause: int(row[STALL_COLUMNS[cause]]) for cause in STALLS},
        idle=int(row[IDLE]),
    )


def _reset(
    program: Program, code: NDArray[np.int64], ideal: Ideal | None
) -> tuple[Any, NDArray[np.int64], dict[str, slice]]:
    """The kernel's parameters, its queues as they are after reset, and where each of them is."""
    machine = program.machine
    sizes = _ring_sizes(machine)
    contents = _contents(machine, code, sizes)
    places, end = {}, 0
    for name in QUEUES:
        places[name] = slice(end, end + contents[name].size)
        end += contents[name].size
    columns = instruction_columns(machine)
    columns.pop("width")
    values = {
        **_figures(machine),
        **({"is_apart": 0, "ideal_engines": 0} if ideal is None else ideal.figures(machine)),
        **sizes,
        **columns,
        "instructions": len(program.instructions),
        **{f"at_{name}": place.start for name, place in places.items()},
    }
    parameters = np.zeros(1, PARAMETERS)[0]
    for name in parameters.dtype.names:
        parameters[name] = values[name]
    return parameters, np.concatenate([contents[name].ravel() for name in QUEUES]), places


def _figures(machine: Machine) -> dict[str, int]:
    """Sizes and latencies, from the machine file and `isa.timing` alone."""
    return {
        "rows": machine.array.rows,
        "weight_lead": timing.MMA_WEIGHT_LEAD,
        "update": timing.MMA_UPDATE,
        "mma_read": timing.mma_read(machine),
        "mma_write": timing.mma_write(machine),
        "bus_bytes": machine.dram.bus_bytes,
        "latency": machine.dram.latency_cycles,
        "outstanding_beats": machine.dram.outstanding_beats,
        "burst_beats": timing.BURST_BEATS,
        "burst_boundary": timing.BURST_BOUNDARY_BYTES,
        "fetch_buffer": machine.fetch_beats,
        **{
            f"dma_{direction.value}_{limit}": getattr(machine.dma(direction).dma, limit)
            for direction in Direction
            for limit in ("contexts", "bursts", "beats")
        },
        "dma_in": machine.dma(Direction.IN).number,
        "dma_out": machine.dma(Direction.OUT).number,
        "array": machine.of(Template.SYSTOLIC)[0].number,
        "vector": machine.of(Template.VECTOR)[0].number,
        "store_read": timing.STORE_READ,
        "dma_window": timing.window_bytes(machine.dram.bus_bytes),
        "instruction_beats": machine.instruction_bytes // machine.dram.bus_bytes,
        "vec_sources": machine.vector_sources,
        "requesters": machine.vector_sources + FIXED_REQUESTERS,
        "loops": nest_depth(machine),
        "words": sum(memory.depth for memory in machine.memories.values()),
    }


def _ring_sizes(machine: Machine) -> dict[str, int]:
    """Entries of the rings that the page leaves open: as many as can be in use at once, or more."""
    return {
        "pipeline_slots": timing.mma_write(machine) + 1,
        "result_slots": timing.vec_results(machine) + timing.VEC_OPERANDS + timing.vec_stages(machine) + 1,
        "read_slots": machine.dma(Direction.IN).dma.bursts + machine.fetch_beats + 2,
        "response_slots": machine.dram.latency_cycles + machine.dma(Direction.OUT).dma.bursts + 4,
    }


def _contents(machine: Machine, code: NDArray[np.int64], sizes: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """Every stretch of the kernel's `q` as it is after reset."""
    figures = _figures(machine)
    ports = sum(memory.banks for memory in machine.memories.values())
    engine_order = np.full((len(machine.engines), len(code)), -1, np.int64)
    for engine in range(len(machine.engines)):
        indices = np.flatnonzero(code[:, ENGINE] == engine)
        engine_order[engine, : indices.size] = indices
    lengths = {
        **PLACED_QUEUES,
        **dict.fromkeys(("ask", "grant"), figures["requesters"]),
        "index": len(WALKERS) * figures["loops"],
        **dict.fromkeys(("c_read", "c_write", "c_last"), sizes["pipeline_slots"]),
        **dict.fromkeys(("result_ready", "result_port", "result_refusable"), sizes["result_slots"]),
        "source_word": figures["vec_sources"] + 1,
        **dict.fromkeys(("load_burst_bytes", "load_burst_first"), machine.dma(Direction.IN).dma.bursts),
        **dict.fromkeys(
            ("store_burst_bytes", "store_burst_first", "store_burst_last"), machine.dma(Direction.OUT).dma.bursts
        ),
        **dict.fromkeys(("part_ready", "part_size"), machine.dma(Direction.OUT).dma.beats),
        **dict.fromkeys(("read_owner", "read_first", "read_beats"), sizes["read_slots"]),
        **dict.fromkeys(("response_at", "response_last"), sizes["response_slots"]),
        **dict.fromkeys(("dispatched_at", "started_at", "retired_at"), len(code)),
    }
    contents = {name: np.zeros(length, np.int64) for name, length in lengths.items()}
    contents["c_read"] -= 1
    contents["c_write"] -= 1
    return contents | {
        "engine_order": engine_order,
        "queue_depth": np.array([engine.queue_depth for engine in machine.engines.values()], np.int64),
        "port_of_word": bank_of_words(machine),
        "read_turn": np.full(ports, figures["requesters"] - 1, np.int64),  # the final requester, as after reset
    }
