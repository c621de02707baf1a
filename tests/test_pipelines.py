"""Further stages of hardware: it takes the cycles that the model says, and its proofs hold."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from tests.bad_accesses import bad_accesses
from tests.engines import array_of, load_of, store_of, vector_of
from tests.generators import LIMITS, program_of
from tests.pipelines import ALL_STAGES, one_port_with_stages, random_machine_with_stages
from tests.rtl.faults import failed_goals
from tests.test_simulator_equals_rtl import assert_equal, assert_same_counters, job, random_jobs
from tilewright.isa import timing
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.program.program import place_regions
from tilewright.rtl.proof.load import load_engine
from tilewright.rtl.proof.mma import mma_engine
from tilewright.rtl.proof.nest_ahead import vector_iterations
from tilewright.rtl.proof.ports import memory_ports, ported_memories
from tilewright.rtl.proof.queues import dispatch
from tilewright.rtl.proof.store import store_engine
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycles import simulate_cycles


@pytest.mark.slow
def test_random_programs_with_one_port_a_bank() -> None:
    machine, seeds = one_port_with_stages(), range(24)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(5, marks=pytest.mark.long)])
def test_random_programs_on_random_machines(seed: int) -> None:
    machine, seeds = random_machine_with_stages(seed), range(100 * seed, 100 * seed + 16)
    assert_equal(machine, random_jobs(machine, seeds, 24), seeds)


@pytest.mark.slow
def test_proofs_hold_with_stages() -> None:
    machine = one_port_with_stages()
    subjects = [dispatch(machine), mma_engine(machine, array_of(machine)), store_engine(machine, store_of(machine))]
    subjects += [load_engine(machine, load_of(machine)), vector_iterations(machine, vector_of(machine))]
    subjects += [memory_ports(of) for of in ported_memories(machine)]
    assert [goal for subject in subjects for goal in failed_goals(subject)] == []


@pytest.mark.slow
def test_a_fault_is_the_same_with_stages() -> None:
    """Of each machine a random bad access, a wait that cannot end, an unknown opcode; and a good program after them."""
    rng = np.random.default_rng(7)
    machine = load_machine("tiny8", [f"pipeline.{key}=1" for key in ALL_STAGES])
    bad, expected = bad_accesses(machine, 24, rng)
    good = random_jobs(machine, range(2), 20)
    program, dram, bases = good[0]
    waits = list(program.instructions)
    waits[6] = waits[6].replace({"wait.store": 9})
    never = job(replace(program, instructions=tuple(waits)), rng)
    unknown = dram.copy()
    unknown[bases["program"] + sum(each.format.bytes for each in program.instructions[:7])] = 255
    jobs = [*bad, never, (program, unknown, bases), *good]
    came = [counters for _, counters in run_rtl_many(machine, jobs)]
    wait, opcode = Fault(FaultCode.WAIT, 6, 9), Fault(FaultCode.OPCODE, 7, 255)
    assert [each.fault for each in came] == [*expected, wait, opcode, None, None]
    assert came[len(bad)].cycles == simulate_cycles(*never[::2]).cycles + 1
    assert_same_counters(simulate_cycles(*good[0][::2]), came[-2], "after faults")


def test_stages_are_none_where_the_file_says_none() -> None:
    assert load_machine("tiny8").pipeline == Pipeline()
    assert set(dataclasses.asdict(Pipeline()).values()) == {0}
    assert dataclasses.asdict(one_port_with_stages().pipeline) == ALL_STAGES


def test_a_register_behind_the_banks_is_a_cycle_of_each_latency() -> None:
    base, later = (load_machine("tiny8", [f"pipeline.memory_output={stages}"]) for stages in (0, 1))
    for latency in (timing.store_read, timing.vec_operands):
        assert latency(later) == latency(base) + 1
    for of_array in (timing.mma_sum, timing.mma_update, timing.mma_write):
        assert of_array(later.array) == of_array(base.array) + 1
    assert timing.mma_read(later.array) == timing.mma_read(base.array)
    assert timing.vec_write(later.format("copy")) == timing.vec_write(base.format("copy")) + 1


def test_a_register_behind_the_choice_of_a_bank_is_the_same_cycle() -> None:
    behind_banks, behind_choice = (load_machine("tiny8", [f"pipeline.{key}=1"]) for key in ("memory_output", "select"))
    for latency in (timing.store_read, timing.vec_operands, lambda machine: timing.mma_write(machine.array)):
        assert latency(behind_choice) == latency(behind_banks)


def test_a_register_between_product_and_sum_is_a_cycle_of_the_array() -> None:
    base, later = (load_machine("tiny8", [f"pipeline.mac={stages}"]) for stages in (0, 1))
    assert timing.mma_read(later.array) == timing.mma_read(base.array) + 1
    assert timing.mma_write(later.array) == timing.mma_write(base.array) + 1
    assert timing.mma_tile(later.array) == timing.mma_tile(base.array)
    assert timing.vec_write(later.format("mul")) == timing.vec_write(base.format("mul"))


def test_what_a_bank_is_asked_for_takes_as_long_as_a_register_behind_it() -> None:
    before, behind = (load_machine("tiny8", [f"pipeline.{key}=1"]) for key in ("request", "memory_output"))
    assert timing.memory_read(before.pipeline) == timing.memory_read(behind.pipeline) == 2
    assert timing.mma_write(before.array) == timing.mma_write(behind.array)


@pytest.mark.parametrize(("keys", "cycles"), [((), 8), (("check",), 9), (("start",), 9), (("check", "start"), 10)])
def test_when_the_next_instruction_starts(keys: tuple[str, ...], cycles: int) -> None:
    """Eight words are written from the cycle after the start on: the next one starts with the eighth.

    `check` lets the first word wait for a cycle; with `start`, the next instruction starts in the cycle after the last.
    """
    machine = load_machine("base16", [f"pipeline.{key}=1" for key in keys])
    fill = make_instruction(machine.format("fill"), {"trip.k": 8, "y.k": 1})
    started = simulate_cycles(program_of(machine, [fill, fill]), place_regions(LIMITS)).started
    assert started[1] - started[0] == cycles


def test_a_register_behind_tables_is_a_cycle_of_what_looks_up() -> None:
    base, later = (load_machine("vector16", [f"pipeline.table_output={stages}"]) for stages in (0, 1))
    more = {name for name in base.formats if base.format(name).engine.name == "vec"}
    more = {name for name in more if timing.vec_write(later.format(name)) != timing.vec_write(base.format(name))}
    assert more == {name for name, format in base.formats.items() if format.tables}
    assert {timing.vec_write(later.format(name)) - timing.vec_write(base.format(name)) for name in more} == {1}


@pytest.mark.parametrize(
    ("key", "in_a_row"),
    [
        ("multiply", {"mul": 2, "requantize": 1, "add": 1, "max_pool": 0}),
        ("round_shift", {"mul": 1, "requantize": 1, "add": 1, "max_pool": 0}),
    ],
)
def test_further_stages_of_an_operator_are_cycles_of_each_on_the_way(key: str, in_a_row: dict[str, int]) -> None:
    """So many of them wait for each other in the statement: `add` has two products side by side."""
    base, later = (load_machine("tiny8", [f"pipeline.{key}={stages}"]) for stages in (0, 2))
    more = {name: timing.vec_write(later.format(name)) - timing.vec_write(base.format(name)) for name in in_a_row}
    assert more == {name: 2 * count for name, count in in_a_row.items()}


def test_a_stage_that_is_none_is_refused() -> None:
    with pytest.raises(IsaError, match=r"pipeline\.memory_output: 2 is out of range; expected 0 to 1$"):
        load_machine("tiny8", ["pipeline.memory_output=2"])
    with pytest.raises(IsaError, match=r"has no 'memory_outputs' \(did you mean 'memory_output'\?\); it has: "):
        load_machine("tiny8", ["pipeline.memory_outputs=1"])
    with pytest.raises(IsaError, match=r"^--set pipeline=3: pipeline: expected a mapping, not 3$"):
        load_machine("tiny8", ["pipeline=3"])
