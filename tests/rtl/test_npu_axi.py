"""Tiny machines on a standard AXI memory with random back-pressure on every channel, driven over AXI4-Lite.

One has a port, the other two, each with a load and a store, and pauses of its own.

The programs run one after the other without a reset between them, so a run also begins where the last one ended.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.generators import LIMITS, program_of, random_dram, random_program
from tests.test_dram_ports import two_ports
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.engine import Direction, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.program.program import Program, place_regions
from tilewright.rtl.bus import port_name, read_channels
from tilewright.rtl.registers import register_map
from tilewright.rtl.simulation.build import build_bare
from tilewright.rtl.simulation.process import run_cocotb
from tilewright.simulator.values import simulate_values

MACHINES = {"one port": load_machine("tiny8", ["counters=all"]), "two ports": two_ports()}
FIRST_ADDRESS = 0x8000  # of the regions; nothing below may be touched

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Outcome:
    program: Program
    bases: dict[str, int]
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    registers: dict[str, int]
    writes: list[int]


def run(folder: Path, machine: Machine, programs: list[tuple[Program, float]]) -> list[Outcome]:
    """Each program with the eagerness of its bus, from 0 (never) to 1 (always)."""
    rng = np.random.default_rng(11)
    jobs, images = [], []
    for number, (program, eagerness) in enumerate(programs):
        bases = place_regions(program.limits, FIRST_ADDRESS)
        image = np.concatenate([rng.integers(0, 256, FIRST_ADDRESS, np.uint8), random_dram(program, rng)])
        image = np.concatenate([image, rng.integers(0, 256, 4096, np.uint8)])
        np.save(folder / f"{number}.npy", image)
        registers = {f"{region}.base": base for region, base in bases.items()}
        registers |= {f"{region}.limit": limit for region, limit in program.limits.items()}
        jobs.append({"eagerness": eagerness, "registers": registers})
        images.append((program, bases, image))
    offsets = {register.name: register.offset for register in register_map(machine)}
    ports = {
        port_name(port): (["read"] if port in read_channels(machine) else [])
        + (["write"] if port in machine.ports(Direction.OUT) else [])
        for port in range(machine.dram.ports)
    }
    description = {"bus_bytes": machine.dram.bus_bytes, "offsets": offsets, "jobs": jobs, "ports": ports}
    (folder / "jobs.json").write_text(json.dumps(description))
    run_cocotb(build_bare(machine), "npu", "tests.rtl.axi_bench", folder)
    outcomes = []
    for number, (program, bases, image) in enumerate(images):
        result = json.loads((folder / f"{number}.json").read_text())
        after = np.load(folder / f"{number}.after.npy")
        words = {register.name: register.words for register in register_map(machine)}
        registers = {name: value & (1 << 32 * words[name]) - 1 for name, value in result["registers"].items()}
        outcomes.append(Outcome(program, bases, image, after, registers, result["writes"]))
    return outcomes


def outside_its_region(machine: Machine) -> Program:
    """A good store, and one of the last engine that writes that leaves its region in its second burst."""
    first, last = (machine.formats_of(machine.dma(Direction.OUT)[at])[0] for at in (0, -1))
    inner, outputs = first.loops[-1].name, REGIONS.index("outputs")
    steps = {f"d.{inner}": machine.lanes, f"y.{inner}": 1, "d.region": outputs}
    good = make_instruction(first, {**steps, f"trip.{inner}": 40})
    words = 4096 // machine.lanes
    wait = {f"wait.{first.engine}": 1}
    bad = make_instruction(last, {**steps, f"trip.{inner}": words, "d.base": 64, **wait})
    return program_of(machine, (good, bad), {**LIMITS, "outputs": 4096})


def with_every_transfer(machine: Machine, rng: np.random.Generator) -> Program:
    """A random program in which every DMA engine has something to do."""
    while True:
        program = random_program(machine, rng, 24)
        used = {instruction.engine.name for instruction in program.instructions}
        if used >= {engine.name for engine in machine.of(Template.DMA)}:
            return program


@pytest.fixture(scope="module", params=MACHINES)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    machine, rng = MACHINES[request.param], np.random.default_rng(5)
    programs = {f"random {some}": (with_every_transfer(machine, rng), some) for some in (1, 0.7, 0.4, 0.15)}
    programs["fault"] = (outside_its_region(machine), 0.5)
    programs["after fault"] = (programs["random 0.4"][0], 0.6)
    found = run(tmp_path_factory.mktemp("axi"), machine, list(programs.values()))
    return dict(zip(programs, found, strict=True))


@pytest.mark.parametrize("name", ["random 1", "random 0.7", "random 0.4", "random 0.15", "after fault"])
def test_leaves_the_same_bytes_as_the_simulator(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    expected = outcome.before.copy()
    state = simulate_values(outcome.program, outcome.before, outcome.bases)
    expected[: state.dram.size] = state.dram
    assert np.flatnonzero(outcome.after != expected).tolist() == []
    assert np.any(outcome.after != outcome.before)
    assert (outcome.registers["status"], outcome.registers["fault_code"]) == (0b10, FaultCode.NONE)


def test_counters_add_up_under_back_pressure(outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        counters = {key.removeprefix("counter."): value for key, value in outcome.registers.items()}
        for engine in outcome.program.machine.engines:
            total = sum(value for key, value in counters.items() if key.startswith(f"{engine}."))
            assert total == counters["cycles"], (name, engine)


def test_stops_at_a_burst_outside_its_region(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["fault"]
    registers = outcome.registers
    limit = outcome.bases["outputs"] + outcome.program.limits["outputs"]
    assert registers["status"] == 0b110
    came = registers["fault_code"], registers["fault_instruction"], registers["fault_address"]
    assert came == (FaultCode.REGION, 1, limit)


def test_writes_nothing_outside_its_region(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["fault"]
    limit = outcome.bases["outputs"] + outcome.program.limits["outputs"]
    changed = np.flatnonzero(outcome.after != outcome.before)
    assert outcome.bases["outputs"] <= changed.min() and changed.max() < limit
    assert all(outcome.bases["outputs"] <= address < limit for address in outcome.writes)
