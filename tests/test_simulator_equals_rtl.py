"""The simulator against the hardware under Verilator: every byte of every memory, every cycle, every counter.

The programs are random and valid; the memories' contents are random too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.accumulator_networks import FROM_ACCUMULATORS, pooled, projection
from tests.blocks import with_blocks
from tests.compiler.models import ModelBuilder, random_inputs
from tests.engines import OTHER_ENGINES
from tests.generators import LIMITS, program_of, random_dram, random_instruction, random_program
from tests.lanes import across_lanes
from tests.odd_elements import ODD_ELEMENTS
from tests.packed_elements import NARROW_WEIGHTS, PACKED_ELEMENTS
from tests.rings import long_beyond
from tests.tables import TABLES
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.faults import Fault
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import MachineState, RunCounters
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.values import PreparedProgram, simulate_values

Job = tuple[Program, NDArray[np.uint8], Mapping[str, int]]

SMALL = "array: {rows: 4, cols: 4}\nlanes: 4\ndram: {bus_bytes: 4}\n"
"""What makes a machine small enough to be built in a minute."""


def job(program: Program, rng: np.random.Generator) -> Job:
    return program, random_dram(program, rng), place_regions(program.limits)


def random_jobs(machine: Machine, seeds: range, count: int) -> list[Job]:
    jobs = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        jobs.append(job(random_program(machine, rng, count, max_iterations=int(rng.integers(8, 200))), rng))
    return jobs


def assert_equal(machine: Machine, jobs: Sequence[Job], seeds: Sequence[object]) -> None:
    for seed, (program, dram, bases), (state, counters) in zip(seeds, jobs, run_rtl_many(machine, jobs), strict=True):
        assert counters.fault is None, f"seed {seed}: {counters.fault}"
        assert_same_bytes(simulate_values(program, dram, bases), state, f"seed {seed}")
        assert_same_counters(simulate_cycles(program, bases), counters, f"seed {seed}")


def assert_same_bytes(simulated: MachineState, hardware: MachineState, case: str) -> None:
    for name, stored in simulated.memories.items():
        assert np.array_equal(stored, hardware.memories[name]), f"{name} differs, {case}"
    assert np.array_equal(simulated.dram, hardware.dram), f"dram differs, {case}"


def assert_same_counters(simulated: RunCounters, hardware: RunCounters, case: str) -> None:
    assert simulated.started.tolist() == hardware.started.tolist(), case
    assert simulated.retired.tolist() == hardware.retired.tolist(), case
    assert simulated.cycles == hardware.cycles, case
    assert not hardware.engines or simulated.engines == hardware.engines, case
    assert simulated.dram_bytes_read == hardware.dram_bytes_read, case
    assert simulated.dram_bytes_written == hardware.dram_bytes_written, case
    assert not hardware.ports or simulated.ports == hardware.ports, case


@pytest.mark.slow
@pytest.mark.parametrize("counters", ["none", "few"])
def test_cycles_and_bytes_are_known_of_hardware_that_does_not_count_them_all(counters: str) -> None:
    machine = load_machine("tiny8", [f"counters={counters}"])
    jobs = random_jobs(machine, range(2), 12)
    assert_equal(machine, jobs, range(2))
    assert all(not counted.engines for _, counted in run_rtl_many(machine, jobs))


def test_random_programs_on_tiny8() -> None:
    seeds = range(12)
    machine = load_machine("tiny8", ["counters=all"])
    assert_equal(machine, random_jobs(machine, seeds, 20), seeds)


def test_every_instruction_alone_on_tiny8() -> None:
    machine = load_machine("tiny8", ["counters=all"])
    jobs, cases = [], []
    for of in machine.formats.values():
        for seed in range(3):
            rng = np.random.default_rng(seed)
            jobs.append(job(program_of(machine, (random_instruction(machine, of, rng),)), rng))
            cases.append(f"{seed} of {of.mnemonic}")
    assert_equal(machine, jobs, cases)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_beyond(1, ["base16", "tiny8", "rect", *OTHER_ENGINES]))
def test_many_random_programs(name: str) -> None:
    seeds = range(1000, 1067)
    machine = load_machine(name)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    long_beyond(
        1,
        [
            ("lanes=8",),
            ("array.rows=4", "array.cols=12", "lanes=4", "dram.bus_bytes=4", "rounding=up"),
            ("dram.latency_cycles=1", "memories.act.banks=1", "memories.acc.banks=1", "engines.vec.queue=1"),
        ],
    ),
    ids=" ".join,
)
def test_random_programs_on_other_sizes(overrides: tuple[str, ...]) -> None:
    seeds = range(2000, 2030)
    machine = load_machine("base16", overrides)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
@pytest.mark.parametrize("bus_bytes", long_beyond(1, [64, 1, 2, 4, 16, 32]))
def test_random_programs_on_a_bus_of_every_width(bus_bytes: int) -> None:
    """An instruction is many beats, or begins anywhere in one, or several are in one."""
    seeds = range(5000, 5006)
    machine = load_machine("tiny8", ["array.rows=4", "array.cols=4", "lanes=4", f"dram.bus_bytes={bus_bytes}"])
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [ODD_ELEMENTS, PACKED_ELEMENTS, NARROW_WEIGHTS], ids=["odd", "packed", "narrow weights"]
)
def test_random_programs_on_odd_elements(text: str) -> None:
    seeds = range(3000, 3030)
    machine = load_machine_text(text, "odd")
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
@pytest.mark.parametrize("text", [TABLES, across_lanes(3)], ids=["tables", "lanes"])
def test_random_programs_with_tables_and_across_lanes(text: str) -> None:
    seeds = range(4000, 4030)
    machine = load_machine_text(text, "words")
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
def test_random_programs_that_multiply_in_the_vector_engine() -> None:
    """Lanes that are no power of two, and each of the two instructions several times behind each other."""
    machine, seeds = load_machine("vector-only", ["counters=all", "lanes=3", "dram.bus_bytes=4"]), range(12)
    multiplying = [of for of in machine.formats.values() if of.statement.dot is not None]
    jobs = random_jobs(machine, seeds, 20)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        instructions = [random_instruction(machine, multiplying[i % 2], rng) for i in range(6)]
        jobs.append(job(program_of(machine, instructions), rng))
    assert_equal(machine, jobs, [*seeds, *(f"{seed} of products" for seed in seeds)])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 10, 3, 3), (2, 5, 1, 7)], ids=str)
def test_softmax(shape: tuple[int, ...]) -> None:
    """All instructions of a softmax, with masked lanes and without, as the compiler uses them."""
    machine = load_machine("vector16", ["array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4"])
    rng = np.random.default_rng(0)
    builder = ModelBuilder(rng)
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    y = builder.node("Softmax", [x], name="softmax", axis=1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    program = compile_model(builder.build("softmax"), machine)
    assert {"max_lanes", "sum_exponentials", "reciprocal", "error", "correct", "normalize"} <= {
        instruction.format.mnemonic for instruction in program.instructions
    }
    dram = dram_image(program, {"x": rng.normal(0, 3, shape).astype(np.float32)})
    assert_equal(machine, [(program, dram, place_regions(program.limits))], [shape])


@pytest.mark.slow
def test_what_requantises_several_accumulators() -> None:
    """Two convolutions in one sum, and windows of a convolution, as the compiler uses such instructions."""
    machine = load_machine_text(f"{FROM_ACCUMULATORS}{SMALL}", "from_accumulators")
    jobs = []
    for network, mnemonic in ((projection, "requantize_add_two"), (pooled, "requantize_pool")):
        model = network(size=6, channels=8, wide=8)
        program = compile_model(model, machine)
        assert mnemonic in {instruction.format.mnemonic for instruction in program.instructions}
        dram = dram_image(program, random_inputs(model, np.random.default_rng(0)))
        jobs.append((program, dram, place_regions(program.limits)))
    assert_equal(machine, jobs, ["two convolutions", "windows"])


# -- faults ------------------------------------------------------------------------------------------------------------


def faulty_instructions(machine: Machine) -> list[Instruction]:
    """Each instruction of the machine with each of its operands outside: beyond, below, and after some steps.

    All others stay at a good word, so that there is one fault, whatever part of the engine runs ahead.
    """
    found = []
    for number, of in enumerate(machine.formats.values()):
        rng = np.random.default_rng(number)
        for operand in of.operands:
            good = random_instruction(machine, of, rng, max_iterations=12)
            loop = next((loop for loop in of.loops if loop.name in operand.loops), None)
            if loop is None:  # a table: its block begins inside and ends beyond
                found.append(good.replace({f"{operand.name}.base": machine.memories[operand.memory].depth - 1}))
                continue
            stays = {f"{other.name}.{name}": 0 for other in of.operands for name in other.loops}
            outer = {f"trip.{loop.name}": 3, **{f"trip.{other.name}": 1 for other in of.loops if other != loop}}
            size = LIMITS["workspace"] if operand.memory == DRAM else machine.memories[operand.memory].depth
            region = {f"{operand.name}.region": 2} if operand.memory == DRAM else {}
            base, stride = f"{operand.name}.base", f"{operand.name}.{loop.name}"
            found.append(good.replace({**stays, **region, **outer, base: size - 1, stride: 1}))
            found.append(good.replace({**stays, **region, **outer, base: 1, stride: -1}))
            found.append(good.replace({**stays, **region, **outer, base: size - 40, stride: 25}))
    return found


def with_impossible_wait(machine: Machine) -> tuple[Instruction, ...]:
    first = random_instruction(machine, machine.format("fill"), np.random.default_rng(0))
    return first, first.replace({"wait.load": 1})


@pytest.mark.parametrize("name", ["tiny8", pytest.param("vector-only", marks=pytest.mark.slow)])
def test_faults_are_the_same(name: str) -> None:
    machine = load_machine(name, ["counters=all"])
    rng = np.random.default_rng(7)
    programs = [program_of(machine, (instruction,)) for instruction in faulty_instructions(machine)]
    programs.append(program_of(machine, with_impossible_wait(machine)))
    jobs = [job(program, rng) for program in programs]
    for (program, _, bases), (_, counters) in zip(jobs, run_rtl_many(machine, jobs), strict=True):
        expected: Fault | None = PreparedProgram(program, bases).fault
        fields = dict(
            zip((f.name for f in program.instructions[0].format.fields), program.instructions[0].values, strict=True)
        )
        assert expected is not None and counters.fault == expected, f"{program.instructions[0].mnemonic} {fields}"


@pytest.mark.slow
def test_blocks_of_words() -> None:
    machine, seeds = with_blocks(), range(3000, 3008)
    of_blocks = [format_ for format_ in machine.formats.values() if format_.statement.blocks]
    jobs = random_jobs(machine, seeds, 20)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        instructions = [random_instruction(machine, of_blocks[i % 2], rng) for i in range(6)]
        jobs.append(job(program_of(machine, instructions), rng))
    assert_equal(machine, jobs, [*seeds, *(f"{seed} of blocks" for seed in seeds)])
