"""The fast simulator against the interpreter: every instruction of every machine, random fields, every byte."""

from __future__ import annotations

import numpy as np
import pytest

from tests.blocks import BLOCKS
from tests.generators import one_instruction_program, random_instruction, random_state
from tests.lanes import across_lanes
from tests.normalizing import NORMALIZING
from tests.odd_elements import ODD_ELEMENTS
from tests.packed_elements import NARROW_WEIGHTS, PACKED_ELEMENTS
from tests.rings import long_beyond
from tests.tables import TABLES
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.state import MachineState
from tilewright.simulator.interpreter import interpret_instruction
from tilewright.simulator.regions import regions_of
from tilewright.simulator.values import PreparedProgram

MACHINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("base16", ()),
    ("tiny8", ()),
    ("rect", ()),
    ("vector-only", ()),
    ("base16", ("rounding=up",)),
    ("tiny8", ("rounding=away",)),
    ("base16", ("lanes=8",)),
    ("base16", ("array.rows=4", "array.cols=12", "lanes=4", "dram.bus_bytes=4")),
)

SEEDS = 12


def machine_id(machine: tuple[str, tuple[str, ...]]) -> str:
    return " ".join((machine[0], *machine[1]))


IN_THE_SLOW_RING = (("rect", ()), ("base16", ("rounding=up",)))
"""Some ten seconds each."""


@pytest.mark.parametrize(
    "named",
    [pytest.param(each, marks=[pytest.mark.slow] if each in IN_THE_SLOW_RING else []) for each in MACHINES],
    ids=machine_id,
)
def test_equals_the_interpreter_on_every_instruction(named: tuple[str, tuple[str, ...]]) -> None:
    machine = load_machine(*named)
    for of in machine.formats.values():
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            instruction = random_instruction(machine, of, rng)
            assert_same_bytes(machine, instruction, random_state(machine, rng), f"{of.mnemonic}, seed {seed}")


@pytest.mark.parametrize(
    "text",
    [ODD_ELEMENTS, PACKED_ELEMENTS, NARROW_WEIGHTS, TABLES, across_lanes(3), NORMALIZING, BLOCKS],
    ids=["odd", "packed", "narrow weights", "tables", "lanes", "leading zeros", "blocks"],
)
def test_equals_the_interpreter_with_every_word_of_the_language(text: str) -> None:
    machine = load_machine_text(text, "odd")
    for of in machine.formats.values():
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            instruction = random_instruction(machine, of, rng)
            assert_same_bytes(machine, instruction, random_state(machine, rng), f"{of.mnemonic}, seed {seed}")


def noise(machine: Machine) -> MachineState:
    """Different bytes everywhere, where `random_state` has memories full of one extreme as well."""
    rng = np.random.default_rng(3)
    state = random_state(machine, rng)
    for stored in (*state.memories.values(), state.dram):
        stored[:] = rng.integers(0, 256, stored.shape)
    return state


CROSSING_STRIDES = [(1, 1), (1, 2), (2, -1), (-1, 3), (0, 5), (-2, -2), (3, 1)]


@pytest.mark.parametrize(("outer", "inner"), CROSSING_STRIDES)
@pytest.mark.parametrize("mnemonic", ["load_act", "store_act", "copy"])
def test_the_last_iteration_wins_in_whatever_order_places_lie(mnemonic: str, outer: int, inner: int) -> None:
    machine = load_machine("tiny8")
    of = machine.format(mnemonic)
    source, destination = of.sources[0], of.destination
    fields = {
        **{"trip.j": 5, "trip.k": 6, f"{source.name}.base": 500, f"{destination.name}.base": 100},
        **{f"{source.name}.j": 60, f"{source.name}.k": 8},
        **{f"{destination.name}.j": outer, f"{destination.name}.k": inner},
        **{f"{o.name}.region": REGIONS.index("workspace") for o in of.operands if o.memory == DRAM},
    }
    assert_same_bytes(machine, make_instruction(of, fields), noise(machine), mnemonic)


@pytest.mark.parametrize("distance", [-1, 0, 1, 3])
def test_an_instruction_that_reads_what_it_wrote(distance: int) -> None:
    machine = load_machine("tiny8")
    fields = {"trip.k": 9, "a.base": 20, "a.k": 1, "y.base": 20 + distance, "y.k": 1}
    instruction = make_instruction(machine.format("copy"), fields)
    assert_same_bytes(machine, instruction, noise(machine), f"distance {distance}")


def test_sums_beyond_what_a_float32_holds() -> None:
    # 90 · 16 products of about 124²: more than 2^24, and odd in some columns.
    machine = load_machine("base16")
    rng = np.random.default_rng(0)
    start = random_state(machine, rng)
    for name in ("act", "wgt"):
        start.memories[name][:] = rng.integers(120, 128, start.memories[name].shape)
    fields = {"trip.k": 90, "trip.x": 2, "a.k": 2, "a.x": 1, "w.k": 16, "c.x": 1}
    assert_same_bytes(machine, make_instruction(machine.format("mma"), fields), start, "large sums")


@pytest.mark.slow
@pytest.mark.parametrize("first", long_beyond(1, range(1000, 1060, 10)))
@pytest.mark.parametrize("named", long_beyond(1, MACHINES), ids=machine_id)
def test_equals_the_interpreter_on_many_instructions(named: tuple[str, tuple[str, ...]], first: int) -> None:
    machine = load_machine(*named)
    for of in machine.formats.values():
        for seed in range(first, first + 10):
            rng = np.random.default_rng(seed)
            instruction = random_instruction(machine, of, rng, max_iterations=160)
            assert_same_bytes(machine, instruction, random_state(machine, rng), f"{of.mnemonic}, seed {seed}")


def assert_same_bytes(machine: Machine, instruction: Instruction, start: MachineState, case: str) -> None:
    program, bases = one_instruction_program(machine, instruction)
    expected = MachineState({name: stored.copy() for name, stored in start.memories.items()}, start.dram.copy())
    interpret_instruction(machine, instruction, expected, regions_of(program, bases))
    found = run_from(PreparedProgram(program, bases), start)
    case = f"{case}: {dict(zip((f.name for f in instruction.format.fields), instruction.values, strict=True))}"
    for name, stored in expected.memories.items():
        assert np.array_equal(found.memories[name], stored), f"{name} differs: {case}"
    assert np.array_equal(found.dram, expected.dram), f"dram differs: {case}"


def run_from(prepared: PreparedProgram, start: MachineState) -> MachineState:
    """Run a prepared program from a state that is not that after reset."""
    assert prepared.fault is None, str(prepared.fault)
    return prepared.run(start.dram, start.memories)
