"""The cycle model: how long a program takes on its machine, cycle for cycle as docs/microarchitecture.md says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa import timing
from isa.faults import Fault, FaultCode
from isa.machine import ENGINES, Machine
from isa.memory import DRAM
from isa.program import Program
from isa.state import STALLS, EngineCounters, RunCounters
from simulator.cycle_kernel import (
    BUSY,
    COLUMNS,
    DONE,
    IDLE,
    PARAMETERS,
    STALL_DRAM,
    STALL_PORT,
    STALL_WEIGHTS,
    STATE,
    WAIT,
    WAIT_FAULT,
    WALKERS,
    Rings,
    run_cycles,
)
from simulator.errors import SimulatorError
from simulator.instruction_table import instruction_table, nest_depth, vec_sources

STALL_COLUMNS = {"port": STALL_PORT, "dram": STALL_DRAM, "weights": STALL_WEIGHTS}


def simulate_cycles(program: Program, bases: Mapping[str, int]) -> RunCounters:
    """Counters and the trace of one run with the reference memory; they do not depend on data.

    A WAIT fault ends the run in its cycle. Other faults are not looked for (see `simulator.values`): the figures of a
    program that has one mean nothing.
    """
    machine = program.machine
    code = instruction_table(program, bases)
    parameters = _parameters(machine)
    state = np.zeros(1, STATE)[0]
    state["program_beats"] = len(program.instructions) * machine.instruction_bytes // machine.dram.bus_bytes
    rings = _rings(machine, len(program.instructions))
    end, cycles = run_cycles(parameters, state, code, rings)
    if end not in (DONE, WAIT_FAULT):
        raise SimulatorError(f"no engine can go on in cycle {cycles}: the program waits for itself; check it")
    fault = None
    if end == WAIT_FAULT:
        fault = Fault(FaultCode.WAIT, int(state["fault_instruction"]), int(state["fault_count"]))
    return RunCounters(
        cycles=int(cycles),
        engines={name: _engine_counters(rings.counters[row]) for row, name in enumerate(ENGINES)},
        dram_bytes_read=int(state["beats_read"]) * machine.dram.bus_bytes,
        dram_bytes_written=int(state["bytes_written"]),
        started=rings.started_at,
        retired=rings.retired_at,
        fault=fault,
    )


def _engine_counters(row: NDArray[np.int64]) -> EngineCounters:
    return EngineCounters(
        busy=int(row[BUSY]),
        wait={name: int(row[WAIT + position]) for position, name in enumerate(ENGINES)},
        stall={cause: int(row[STALL_COLUMNS[cause]]) for cause in STALLS},
        idle=int(row[IDLE]),
    )


def _parameters(machine: Machine) -> Any:
    """The machine's figures as a record, from `isa.timing` and the machine file alone."""
    values = {
        "rows": machine.rows,
        "weight_lead": timing.MMA_WEIGHT_LEAD,
        "update": timing.MMA_UPDATE,
        "mma_read": timing.mma_read(machine),
        "mma_write": timing.mma_write(machine),
        "vec_write": timing.vec_write(machine),
        "vec_results": timing.vec_results(machine),
        "bus_bytes": machine.dram.bus_bytes,
        "latency": machine.dram.latency_cycles,
        "outstanding_beats": machine.dram.outstanding_beats,
        "burst_beats": timing.BURST_BEATS,
        "burst_boundary": timing.BURST_BOUNDARY_BYTES,
        "fetch_buffer": timing.FETCH_BUFFER_BEATS,
        "burst_queue": timing.BURST_QUEUE,
        "load_contexts": timing.LOAD_CONTEXTS,
        "store_contexts": timing.STORE_CONTEXTS,
        "store_words": timing.STORE_WORDS,
        "load_window": _widest_word(machine, "load") + machine.dram.bus_bytes,
        "store_window": _widest_word(machine, "store") + machine.dram.bus_bytes,
        "instruction_beats": machine.instruction_bytes // machine.dram.bus_bytes,
        "vec_sources": vec_sources(machine),
        "loops": nest_depth(machine),
    }
    record = np.zeros(1, PARAMETERS)[0]
    for name, value in values.items():
        record[name] = value
    return record


def _widest_word(machine: Machine, engine: str) -> int:
    """Bytes of the widest word that an instruction of a DMA engine moves."""
    memories = {o.memory for of in machine.formats_of(engine) for o in of.operands} - {DRAM}
    return max((machine.memories[name].word_bytes for name in memories), default=0)


def _rings(machine: Machine, instructions: int) -> Rings:
    """Empty queues, after reset."""
    ports = sum(memory.banks for memory in machine.memories.values())
    requesters = vec_sources(machine) + 2  # the array's activations, vec's sources, store
    pipeline = timing.mma_write(machine) + 1
    reads = timing.BURST_QUEUE + timing.FETCH_BUFFER_BEATS + 2
    responses = machine.dram.latency_cycles + timing.BURST_QUEUE + 4

    def ring(*shape: int, filled: int = 0) -> NDArray[np.int64]:
        return np.full(shape, filled, np.int64)

    return Rings(
        dispatched=ring(len(ENGINES)),
        started=ring(len(ENGINES)),
        completed=ring(len(ENGINES)),
        retiring=ring(len(ENGINES)),
        can_take=ring(len(ENGINES)),
        activity=ring(len(ENGINES)),
        index=ring(len(WALKERS), nest_depth(machine)),
        c_read=ring(pipeline, filled=-1),
        c_write=ring(pipeline, filled=-1),
        c_last=ring(pipeline),
        result_ready=ring(timing.vec_results(machine) + 1),
        result_port=ring(timing.vec_results(machine) + 1),
        source_word=ring(vec_sources(machine) + 1),
        load_burst_bytes=ring(timing.BURST_QUEUE),
        load_burst_first=ring(timing.BURST_QUEUE),
        word_ready=ring(timing.STORE_WORDS),
        word_size=ring(timing.STORE_WORDS),
        store_burst_bytes=ring(timing.BURST_QUEUE),
        store_burst_first=ring(timing.BURST_QUEUE),
        store_burst_last=ring(timing.BURST_QUEUE),
        read_owner=ring(reads),
        read_first=ring(reads),
        read_beats=ring(reads),
        response_at=ring(responses),
        response_last=ring(responses),
        ask=ring(requesters, filled=-1),
        grant=ring(requesters),
        read_turn=ring(ports, filled=requesters - 1),
        write_turn=ring(ports, filled=1),
        counters=ring(len(ENGINES), COLUMNS),
        started_at=ring(instructions),
        retired_at=ring(instructions),
    )
