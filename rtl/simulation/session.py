"""Runs programs on a machine's simulation: many in one process, each from the state after power-up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Counting, Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.program.program import Program
from tilewright.isa.program.state import STALLS, EngineCounters, MachineState, PortCounters, RunCounters
from tilewright.rtl.counters import FEW
from tilewright.rtl.registers import ID, WORD_BYTES, isa_hash_word, register_map
from tilewright.rtl.simulation.bench_verilog import BENCH
from tilewright.rtl.simulation.build import build_simulation
from tilewright.rtl.simulation.process import run_cocotb
from tilewright.rtl.simulation.tools import RtlError
from tilewright.rtl.templates.table import facet_of

MAX_CYCLES = 100_000_000


@dataclass(frozen=True)
class Job:
    """A program and the whole DRAM with its regions at `bases`."""

    program: Program
    dram: NDArray[np.uint8]
    bases: Mapping[str, int]


class RtlSession:
    """The simulation of one machine, built when it is first needed."""

    def __init__(
        self,
        machine: Machine,
        max_cycles: int = MAX_CYCLES,
        program: Path | None = None,
        latency_cycles: int | None = None,
    ) -> None:
        """`latency_cycles`: of the memory behind the bus, where it is another one than the machine's file says."""
        self.machine = machine
        self.latency_cycles = latency_cycles or machine.dram.latency_cycles
        self.max_cycles = max_cycles
        self.program = program or build_simulation(machine)
        self.map = register_map(machine)

    def run(self, jobs: Sequence[Job]) -> list[tuple[MachineState, RunCounters]]:
        """Run the programs one after the other, the memories zero before each.

        Raises RtlError for a program of another machine, or one that does not end within `max_cycles`.
        """
        with scratch() as folder:
            return self.run_in(folder, jobs)

    def run_in(self, folder: Path, jobs: Sequence[Job]) -> list[tuple[MachineState, RunCounters]]:
        """The same, with the simulation's files in an existing folder."""
        for job in jobs:
            if job.program.machine.hash != self.machine.hash:
                raise RtlError(
                    f"the program is for machine {job.program.machine.name!r} ({job.program.machine.hash[:8]}), "
                    f"the hardware here is {self.machine.name!r} ({self.machine.hash[:8]}); simulate the one it is for"
                )
        self._write_jobs(folder, jobs)
        run_cocotb(self.program, BENCH, "tilewright.rtl.simulation.bench", folder)
        return [self._read_result(folder / str(number), job) for number, job in enumerate(jobs)]

    def _write_jobs(self, folder: Path, jobs: Sequence[Job]) -> None:
        described = []
        for number, job in enumerate(jobs):
            (folder / str(number)).mkdir()
            np.save(folder / str(number) / "dram.npy", np.ascontiguousarray(job.dram, np.uint8))
            described.append(
                {
                    "instructions": max(1, len(job.program.instructions)),
                    "writes": self._start_writes(job),
                    "max_cycles": self.max_cycles,
                }
            )
        memories = [(memory.depth, memory.word_bytes) for memory in self.machine.memories.values()]
        description = {
            "engines": list(self.machine.engines),
            "memories": memories,
            "bus_bytes": self.machine.dram.bus_bytes,
            "latency_cycles": self.latency_cycles,
            "read_offsets": list(range(0, self.map[-1].offset + self.map[-1].words * WORD_BYTES, WORD_BYTES)),
            "jobs": described,
        }
        (folder / "jobs.json").write_text(json.dumps(description))

    def _start_writes(self, job: Job) -> list[tuple[int, int]]:
        """Register writes that place the regions and start the run."""
        values = {f"{region}.base": job.bases[region] for region in REGIONS}
        values |= {f"{region}.limit": job.program.limits[region] for region in REGIONS}
        offsets = {register.name: register.offset for register in self.map}
        writes = [
            (offsets[name] + part * WORD_BYTES, value >> 32 * part & 0xFFFFFFFF)
            for name, value in values.items()
            for part in range(2)
        ]
        return [*writes, (offsets["control"], 1)]

    def _read_result(self, folder: Path, job: Job) -> tuple[MachineState, RunCounters]:
        with np.load(folder / "result.npz") as result:
            if not result["has_ended"]:
                raise RtlError(f"the program did not end within {self.max_cycles} cycles of hardware simulation")
            memories = {name: result[f"memory{number}"] for number, name in enumerate(self.machine.memories)}
            state = MachineState(memories, result["dram"])
            registers = self._register_values(result["registers"])
            return state, run_counters(job.program, registers, result["trace"], result["seen"])

    def _register_values(self, words: NDArray[np.uint32]) -> dict[str, int]:
        values = {}
        for register in self.map:
            first = register.offset // WORD_BYTES
            parts = [int(word) << 32 * part for part, word in enumerate(words[first : first + register.words])]
            values[register.name] = sum(parts)
        if values["id"] != ID or values["isa_hash"] != isa_hash_word(self.machine):
            raise RtlError(f"the simulated hardware is not {self.machine.name}: id {values['id']:#x}")
        return values


def run_counters(
    program: Program, registers: Mapping[str, int], trace: NDArray[np.int64], seen: NDArray[np.int64]
) -> RunCounters:
    """The run's counters and trace, from the registers and each engine's cycles of starts and ends, in order.

    What the machine does not count, the test bench has seen on its bus; rows of engines are there if it counts all.
    """
    counters = dict(zip(FEW, (int(value) for value in seen), strict=True))
    counters |= {name.removeprefix("counter."): value for name, value in registers.items()}
    engines = {
        engine.name: EngineCounters(
            busy=counters[f"{engine}.busy"],
            wait={other: counters[f"{engine}.wait.{other}"] for other in program.machine.engines},
            stall={c: counters[f"{engine}.stall.{c}"] if c in facet_of(engine.template).stalls else 0 for c in STALLS},
            idle=counters[f"{engine}.idle"],
        )
        for engine in program.machine.engines.values()
        if program.machine.counting is Counting.ALL
    }
    cycles = np.full((2, len(program.instructions)), -1, np.int64)
    for engine in program.machine.engines.values():
        own = [n for n, instruction in enumerate(program.instructions) if instruction.engine is engine]
        cycles[:, own] = trace[:, engine.number, : len(own)]
    return RunCounters(
        cycles=counters["cycles"],
        engines=engines,
        dram_bytes_read=counters["dram_bytes_read"],
        dram_bytes_written=counters["dram_bytes_written"],
        started=cycles[0],
        retired=cycles[1],
        fault=_fault(registers),
        ports=_ports(program.machine, counters),
    )


def _ports(machine: Machine, counters: Mapping[str, int]) -> tuple[PortCounters, ...]:
    """What passed each of several AXI ports, of a machine that counts."""
    if machine.dram.ports == 1 or machine.counting is Counting.NONE:
        return ()
    ways = [f"port{port}.bytes" for port in range(machine.dram.ports)]
    return tuple(PortCounters(counters.get(f"{way}_read", 0), counters.get(f"{way}_written", 0)) for way in ways)


def _fault(registers: Mapping[str, int]) -> Fault | None:
    code = FaultCode(registers["fault_code"])
    if code is FaultCode.NONE:
        return None
    address = registers["fault_address"]
    return Fault(code, registers["fault_instruction"], address - (1 << 64) if address >> 63 else address)
