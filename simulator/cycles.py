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
    DONE,
    ENGINE,
    ENGINE_ROW,
    IDLE,
    MACHINE,
    STALL_DRAM,
    STALL_PORT,
    STALL_WEIGHTS,
    WAIT,
    WAIT_FAULT,
)
from tilewright.simulator.templates.table import facet_of

STALL_COLUMNS = {"port": STALL_PORT, "dram": STALL_DRAM, "weights": STALL_WEIGHTS}

TURNS = (Template.SYSTOLIC, Template.VECTOR, Template.DMA)
"""In which order the reads of engines take turns on a port."""


def simulate_cycles(program: Program, bases: Mapping[str, int], ideal: Ideal | None = None) -> RunCounters:
    """Counters and the trace of one run with the reference memory; they do not depend on data.

    A WAIT fault ends the run in its cycle. Other faults are not looked for (see `simulator.values`): the figures of a
    program that has one mean nothing. With `ideal`, of a machine with ideal parts: its cycles and
    times; the counters mean nothing. Raises SimulatorError when a program waits for itself (no valid one can).
    """
    from tilewright.simulator.kernel.run import run_cycles  # loads Numba, which a compilation may never need

    machine = program.machine
    run = _Reset(program, instruction_table(program, bases), ideal)
    end, cycles = run_cycles(
        run.machine, run.engines, *(run.rows[template] for template in Template), run.code, run.q, run.counters
    )
    if end not in (DONE, WAIT_FAULT):
        raise SimulatorError(f"no engine can go on in cycle {cycles}: the program waits for itself; check it")
    state = run.machine[0]
    fault = None
    if end == WAIT_FAULT:
        fault = Fault(FaultCode.WAIT, int(state["fault_instruction"]), int(state["fault_count"]))
    return RunCounters(
        cycles=int(cycles),
        engines={name: _engine_counters(machine, run.counters[row]) for row, name in enumerate(machine.engines)},
        dram_bytes_read=int(state["beats_read"]) * machine.dram.bus_bytes,
        dram_bytes_written=int(state["bytes_written"]),
        dispatched=run.trace("dispatched_at"),
        started=run.trace("started_at"),
        retired=run.trace("retired_at"),
        fault=fault,
    )


def _engine_counters(machine: Machine, row: NDArray[np.int64]) -> EngineCounters:
    return EngineCounters(
        busy=int(row[BUSY]),
        wait={name: int(row[WAIT + position]) for position, name in enumerate(machine.engines)},
        stall={cause: int(row[STALL_COLUMNS[cause]]) for cause in STALLS},
        idle=int(row[IDLE]),
    )


class _Reset:
    """The kernel's arguments as they are after reset: records, a row an engine, and `q` with all rings."""

    def __init__(self, program: Program, code: NDArray[np.int64], ideal: Ideal | None) -> None:
        machine = program.machine
        self.code = code
        self._stretches: list[NDArray[np.int64]] = []
        self._end = 0
        self.engines = np.zeros(len(machine.engines), ENGINE_ROW)
        self.counters = np.zeros((len(machine.engines), WAIT + len(machine.engines)), np.int64)
        for engine in machine.engines.values():
            at_order = self._place(np.flatnonzero(code[:, ENGINE] == engine.number))
            number = list(Template).index(engine.template)
            own = {"queue_depth": engine.queue_depth, "template": number, "at_order": at_order}
            _fill(self.engines[engine.number], own)
        askers: list[int] = []  # the engine of each requester
        self.rows = {template: self._rows(machine, template, askers) for template in TURNS}
        self.machine = np.zeros(1, MACHINE)
        figures = _figures(program, len(askers)) | ({} if ideal is None else ideal.figures(machine))
        columns = instruction_columns(machine)
        columns.pop("width")
        rows = {f"dma_{of.value}": int(self.engines[machine.dma(of).number]["row"]) for of in Direction}
        rings = _rings(machine, len(code), figures, askers)
        places = {f"at_{name}": self._place(ring) for name, ring in rings.items()}
        beats = len(program.instructions) * figures["instruction_beats"]
        _fill(self.machine[0], {**figures, **columns, **rows, **places, "program_beats": beats, "has_news": 1})
        self.q = np.concatenate(self._stretches)

    def trace(self, name: str) -> NDArray[np.int64]:
        """A ring that has an entry for each instruction."""
        first = int(self.machine[0][f"at_{name}"])
        return self.q[first : first + len(self.code)].copy()

    def _place(self, ring: NDArray[np.int64]) -> int:
        self._stretches.append(ring)
        self._end += ring.size
        return self._end - ring.size

    def _rows(self, machine: Machine, template: Template, askers: list[int]) -> NDArray[Any]:
        """The record of a template, a row for each engine in the order of their numbers."""
        facet, engines = facet_of(template), machine.of(template)
        rows = np.zeros(len(engines), facet.record)
        for row, engine in enumerate(engines):
            self.engines[engine.number]["row"] = row
            places = {f"at_{name}": self._place(ring) for name, ring in facet.rings(machine, engine).items()}
            own = {"number": engine.number, "requester": len(askers), **facet.settings(machine, engine)}
            _fill(rows[row], own | places)
            askers += [engine.number] * facet.requesters(machine, engine)
        return rows


def _fill(row: np.void, values: Mapping[str, int]) -> None:
    for name, value in values.items():
        row[name] = value


def _figures(program: Program, requesters: int) -> dict[str, int]:
    """Sizes and latencies of the machine as a whole, from its file and `isa.timing` alone."""
    machine = program.machine
    return {
        "bus_bytes": machine.dram.bus_bytes,
        "latency": machine.dram.latency_cycles,
        "outstanding_beats": machine.dram.outstanding_beats,
        "burst_beats": timing.BURST_BEATS,
        "burst_boundary": timing.BURST_BOUNDARY_BYTES,
        "fetch_buffer": machine.fetch_beats,
        "dma_window": timing.window_bytes(machine.dram.bus_bytes),
        "instruction_beats": machine.instruction_bytes // machine.dram.bus_bytes,
        "requesters": requesters,
        "loops": nest_depth(machine),
        "words": sum(memory.depth for memory in machine.memories.values()),
        "instructions": len(program.instructions),
        "read_slots": machine.dma(Direction.IN).dma.bursts + machine.fetch_beats + 2,
        "response_slots": machine.dram.latency_cycles + machine.dma(Direction.OUT).dma.bursts + 4,
    }


def _rings(
    machine: Machine, instructions: int, figures: Mapping[str, int], askers: list[int]
) -> dict[str, NDArray[np.int64]]:
    """What `q` holds for the machine as a whole, after reset."""
    ports = sum(memory.banks for memory in machine.memories.values())
    sizes = {
        **dict.fromkeys(("ask", "grant"), len(askers)),
        **dict.fromkeys(("read_owner", "read_first", "read_beats"), figures["read_slots"]),
        **dict.fromkeys(("response_at", "response_last", "response_owner"), figures["response_slots"]),
        **dict.fromkeys(("dispatched_at", "started_at", "retired_at"), instructions),
    }
    return {name: np.zeros(size, np.int64) for name, size in sizes.items()} | {
        "asker": np.array(askers, np.int64),
        "port_of_word": bank_of_words(machine),
        "read_turn": np.full(ports, len(askers) - 1, np.int64),  # the final requester, as after reset
    }
