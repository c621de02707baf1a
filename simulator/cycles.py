"""The cycle model: how long a program takes on its machine, cycle for cycle as docs/microarchitecture.md says.

The cycle kernel steps through a program as tables of integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import timing
from tilewright.isa.machine.engine import MOST_ENGINES, Direction, Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import STALLS, EngineCounters, PortCounters, RunCounters
from tilewright.simulator.errors import SimulatorError
from tilewright.simulator.ideal import Ideal
from tilewright.simulator.kernel.layout import (
    BUSY,
    DONE,
    ENGINE,
    ENGINES,
    FIXED,
    IDLE,
    INSTRUCTION_BYTES,
    KINDS,
    MOST_FIXED_OPERANDS,
    PORT_RINGS,
    PORTS,
    STALL_DRAM,
    STALL_PORT,
    STALL_WEIGHTS,
    WAIT,
    WAIT_FAULT,
    Rows,
    machine_record,
    nest_depth,
)
from tilewright.simulator.regions import regions_of
from tilewright.simulator.templates.table import facet_of

STALL_COLUMNS = {"port": STALL_PORT, "dram": STALL_DRAM, "weights": STALL_WEIGHTS}

TURNS = ("arrays", "vectors", "loads", "stores")
"""In which order the reads of engines take turns on a port."""


def simulate_cycles(program: Program, bases: Mapping[str, int], ideal: Ideal | None = None) -> RunCounters:
    """Counters and the trace of one run with the reference memory; they do not depend on data.

    A WAIT fault ends the run in its cycle. Other faults are not looked for (see `simulator.values`): the figures of a
    program that has one mean nothing. With `ideal`, of a machine with ideal parts: its cycles and
    times; the counters mean nothing. Raises SimulatorError when a program waits for itself (no valid one can).
    """
    from tilewright.simulator.kernel.run import run_cycles  # a compilation may never need it

    machine = program.machine
    run = _Reset(program, instruction_table(program, bases), ideal)
    state = run.machine[0]
    end, cycles = run_cycles(state, run.code, run.q)
    if end not in (DONE, WAIT_FAULT):
        raise SimulatorError(f"no engine can go on in cycle {cycles}: the program waits for itself; check it")
    fault = None
    if end == WAIT_FAULT:
        fault = Fault(FaultCode.WAIT, int(state["fault_instruction"]), int(state["fault_count"]))
    ports = _port_counters(machine, state)
    return RunCounters(
        cycles=int(cycles),
        engines={
            name: _engine_counters(machine, state[ENGINES][row]["counters"]) for row, name in enumerate(machine.engines)
        },
        dram_bytes_read=sum(port.bytes_read for port in ports),
        dram_bytes_written=sum(port.bytes_written for port in ports),
        dispatched=run.trace("dispatched_at"),
        started=run.trace("started_at"),
        retired=run.trace("retired_at"),
        fault=fault,
        ports=ports if len(ports) > 1 else (),
    )


def _port_counters(machine: Machine, state: np.void) -> tuple[PortCounters, ...]:
    return tuple(
        PortCounters(int(port["beats_read"]) * machine.dram.bus_bytes, int(port["bytes_written"]))
        for port in state[PORTS][: machine.dram.ports]
    )


def _engine_counters(machine: Machine, row: NDArray[np.int64]) -> EngineCounters:
    return EngineCounters(
        busy=int(row[BUSY]),
        wait={name: int(row[WAIT + position]) for position, name in enumerate(machine.engines)},
        stall={cause: int(row[STALL_COLUMNS[cause]]) for cause in STALLS},
        idle=int(row[IDLE]),
    )


class _Reset:
    """The kernel's arguments as they are after reset: a record with a row an engine, and `q` with all rings."""

    def __init__(self, program: Program, code: NDArray[np.int64], ideal: Ideal | None) -> None:
        machine = program.machine
        self.code = code
        self._stretches: list[NDArray[np.int64]] = []
        self._end = 0
        self._askers: list[int] = []  # the engine of each requester
        self.machine = np.zeros(1, _record(machine))
        of_kinds = machine.fact(_of_kinds)
        for kind in sorted(KINDS, key=TURNS.index):
            for row, engine in enumerate(of_kinds[kind]):
                self._fill_engine(machine, engine, kind, row)
        figures = _figures(program, len(self._askers)) | ({} if ideal is None else ideal.figures(machine))
        columns = instruction_columns(machine)
        columns.pop("width")
        rings = _rings(machine, len(code), figures, self._askers)
        places = {f"at_{name}": self._place(ring) for name, ring in rings.items()}
        for port in self.machine[0][PORTS][: machine.dram.ports]:
            _fill(port, {f"at_{name}": self._place(ring) for name, ring in _port_rings(figures).items()})
        beats = -(-program.limits["program"] // figures["bus_bytes"])
        _fill(self.machine[0], {**figures, **columns, **places, "program_beats": beats, "has_news": 1})
        self.q = np.concatenate(self._stretches)

    def trace(self, name: str) -> NDArray[np.int64]:
        """A ring that has an entry for each instruction."""
        first = int(self.machine[0][f"at_{name}"])
        return self.q[first : first + len(self.code)].copy()

    def _place(self, ring: NDArray[np.int64]) -> int:
        self._stretches.append(ring)
        self._end += ring.size
        return self._end - ring.size

    def _fill_engine(self, machine: Machine, engine: Engine, kind: str, row: int) -> None:
        """Both of an engine's rows: among all engines, and among those of its kind."""
        number, reset = engine.number, machine.fact(_engines_after_reset)[engine.name]
        at_order = self._place(np.flatnonzero(self.code[:, ENGINE] == number))
        own = {"queue_depth": engine.queue_depth, "kind": KINDS.index(kind), "row": row, "at_order": at_order}
        _fill(self.machine[0][ENGINES][number], own)
        places = {f"at_{name}": self._place(ring) for name, ring in reset.rings.items()}
        own = {"number": number, "requester": len(self._askers), **reset.settings}
        _fill(self.machine[0][kind][row], own | places)
        self._askers += [number] * reset.requesters


@dataclass(frozen=True, slots=True)
class _EngineReset:
    """What a row of an engine is filled with, as its facet says, and how many requesters it has."""

    settings: Mapping[str, int]
    rings: Mapping[str, NDArray[np.int64]]
    requesters: int


def _engines_after_reset(machine: Machine) -> Mapping[str, _EngineReset]:
    """What follows for each engine, by name, from the machine alone."""
    return {
        name: _EngineReset(of.settings(machine, engine), of.rings(machine, engine), of.requesters(machine, engine))
        for name, engine in machine.engines.items()
        for of in [facet_of(engine.template)]
    }


def _record(machine: Machine) -> np.dtype[np.void]:
    records = {kind: of for template in Template for kind, of in facet_of(template).records.items()}
    room = _room(machine)
    return machine_record(room[ENGINES], room[PORTS], {kind: (records[kind], room[kind]) for kind in KINDS})


def _room(machine: Machine) -> dict[str, int]:
    """How many rows there is room for: one of each kind, or as many as any machine has, so that all share a kernel."""
    counts = _counts(machine)
    has_one_each = all(count == 1 for name, count in counts.items() if name != ENGINES)
    return counts if has_one_each else dict.fromkeys(counts, MOST_ENGINES)


def _counts(machine: Machine) -> dict[str, int]:
    """How many engines there are, of each kind and of all, and how many ports."""
    of_kinds = {kind: len(engines) for kind, engines in machine.fact(_of_kinds).items()}
    return {ENGINES: len(machine.engines), PORTS: machine.dram.ports, **of_kinds}


def _of_kinds(machine: Machine) -> Mapping[str, list[Engine]]:
    """The engines of each kind, in file order."""
    found: dict[str, list[Engine]] = {kind: [] for kind in KINDS}
    for engine in machine.engines.values():
        found[facet_of(engine.template).kind(engine)].append(engine)
    return found


def _fill(row: np.void, values: Mapping[str, int]) -> None:
    for name, value in values.items():
        row[name] = value


def _figures(program: Program, requesters: int) -> dict[str, int]:
    """Sizes and latencies of the machine as a whole, from its file and `isa.timing` alone."""
    machine = program.machine
    bursts = Counter({Direction.IN: 0, Direction.OUT: 0})
    for engine in machine.of(Template.DMA):
        bursts[engine.dma.direction] += engine.dma.bursts
    return {
        "bus_bytes": machine.dram.bus_bytes,
        "latency": machine.dram.latency_cycles,
        "outstanding_beats": machine.dram.outstanding_beats,
        "burst_beats": timing.BURST_BEATS,
        "burst_boundary": timing.BURST_BOUNDARY_BYTES,
        "fetch_buffer": machine.fetch_beats,
        "dma_window": timing.window_bytes(machine.dram.bus_bytes),
        "assembly_bytes": timing.assembly_bytes(machine.longest_instruction_bytes, machine.dram.bus_bytes),
        "requesters": requesters,
        "loops": nest_depth(machine),
        **{f"{name}_count": count for name, count in _counts(machine).items()},
        "one_port_banks": int(machine.fact(one_port_of_banks).sum()),
        "words": sum(memory.depth for memory in machine.memories.values()),
        "instructions": len(program.instructions),
        "read_slots": bursts[Direction.IN] + machine.fetch_beats + 2,
        "response_slots": machine.dram.latency_cycles + bursts[Direction.OUT] + 4,
    }


def _rings(
    machine: Machine, instructions: int, figures: Mapping[str, int], askers: list[int]
) -> dict[str, NDArray[np.int64]]:
    """What `q` holds for the machine as a whole, after reset."""
    ports = sum(memory.banks for memory in machine.memories.values())
    sizes = {
        **dict.fromkeys(("ask", "grant"), len(askers)),
        **dict.fromkeys(("dispatched_at", "started_at", "retired_at"), instructions),
    }
    return {name: np.zeros(size, np.int64) for name, size in sizes.items()} | {
        "asker": np.array(askers, np.int64),
        "port_of_word": machine.fact(bank_of_words),
        "written_at": np.full(ports, -1, np.int64),
        "one_port": machine.fact(one_port_of_banks),
        "given_to": np.zeros(ports, np.int64),
        "asked_at": np.full(ports, -1, np.int64),
        "read_turn": np.full(ports, len(askers) - 1, np.int64),  # the final requester, as after reset
    }


def _port_rings(figures: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """What `q` holds for an AXI port, after reset."""
    sizes = {
        **dict.fromkeys(("read_owner", "read_first", "read_beats"), figures["read_slots"]),
        **dict.fromkeys(("response_at", "response_last", "response_owner"), figures["response_slots"]),
    }
    return {name: np.zeros(sizes[name], np.int64) for name in PORT_RINGS}


# -- a program as tables -----------------------------------------------------------------------------------------------


def instruction_columns(machine: Machine) -> dict[str, int]:
    """Where the parts of a row begin whose width follows from the machine, and the row's `width`."""
    return dict(machine.fact(_instruction_columns))


def _instruction_columns(machine: Machine) -> Mapping[str, int]:
    loops, operands = nest_depth(machine), max(MOST_FIXED_OPERANDS, machine.vector_sources() + 1)
    trips = FIXED + len(machine.engines)
    is_reduce = trips + loops
    bases = is_reduce + loops
    steps = bases + operands
    return {
        "waits_column": FIXED,
        "trips_column": trips,
        "is_reduce_column": is_reduce,
        "bases_column": bases,
        "steps_column": steps,
        "width": steps + operands * loops,
    }


def instruction_table(program: Program, bases: Mapping[str, int]) -> NDArray[np.int64]:
    """A row for every instruction, laid out as `simulator.kernel.layout` says; regions are at `bases`."""
    machine = program.machine
    columns = instruction_columns(machine)
    table = np.zeros((len(program.instructions), columns.pop("width")), np.int64)
    first_words, first = {}, 0
    for memory in machine.memories.values():
        first_words[memory.name] = first
        first += memory.depth
    regions = regions_of(program, bases)
    of_mnemonic: dict[str, list[int]] = {}
    for index, instruction in enumerate(program.instructions):
        of_mnemonic.setdefault(instruction.mnemonic, []).append(index)
    for indices in of_mnemonic.values():
        format = program.instructions[indices[0]].format
        values = np.array([program.instructions[index].values for index in indices], object)
        empty = np.zeros((len(indices), table.shape[1]), np.int64)
        rows = Rows(machine, format, values, empty, first_words, regions, nest_depth(machine), **columns)
        _fill_nest(rows)
        facet_of(format.engine.template).fill(rows)
        table[indices] = rows.table
    return table


def bank_of_words(machine: Machine) -> NDArray[np.int64]:
    """The bank of every on-chip word, both counted through all memories."""
    ports, banks = [], 0
    for memory in machine.memories.values():
        words = np.arange(memory.depth, dtype=np.int64)
        ports.append(banks + (words % memory.banks if memory.is_interleaved else words // memory.bank_depth))
        banks += memory.banks
    return np.concatenate(ports)


def one_port_of_banks(machine: Machine) -> NDArray[np.int64]:
    """Of every bank, counted through all memories, whether it has one port: 1 or 0."""
    memories = machine.memories.values()
    return np.repeat([int(memory.has_one_port) for memory in memories], [memory.banks for memory in memories])


def _fill_nest(rows: Rows) -> None:
    rows.table[:, ENGINE] = rows.format.engine.number
    rows.table[:, INSTRUCTION_BYTES] = rows.format.bytes
    for number, (_, place) in enumerate(rows.format.wait_places):
        rows.table[:, rows.waits_column + number] = rows.values[:, place]
    missing = rows.loops - len(rows.walk.loops)
    rows.table[:, rows.trips_column : rows.trips_column + missing] = 1
    for number, (loop, trips) in enumerate(zip(rows.walk.loops, rows.trips, strict=True), missing):
        rows.table[:, rows.trips_column + number] = trips
        rows.table[:, rows.is_reduce_column + number] = loop.is_reduce
