"""What the checker promises beyond one run: no order of the engines, and nothing left in memories, changes a result.

The oracle knows queues and waits only. Engines work one instruction at a time, in any order that waits allow, from
memories that hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tests.fuzz.harness import WrongAnswer
from tilewright.host.tensors import read_outputs
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.program.faults import MachineFault
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import MachineState, initial_state
from tilewright.simulator.interpreter import interpret_instruction
from tilewright.simulator.regions import regions_of

ORDERS = 2
"""Orders of the engines that a program is run in."""


def require_one_meaning(program: Program, dram: NDArray[np.uint8], rng: Generator, kind: str) -> None:
    """Raises WrongAnswer where an order of the engines changes a byte, or old contents of memories an output."""
    start = initial_state(program.machine, dram)
    for words in start.memories.values():
        words[:] = rng.integers(0, 256, words.shape, np.uint8)
    expected = _run(program, start, range(len(program.instructions)), kind)
    for _ in range(ORDERS):
        _require_same(_run(program, start, orders(program, rng, kind), kind), expected, kind)
    refilled = _run(program, _refilled(program, start, rng), range(len(program.instructions)), kind)
    _require_outputs(program, expected, refilled, kind)


def orders(program: Program, rng: Generator, kind: str) -> Iterator[int]:
    """The instructions in an order that queues and waits allow: of the engines that can go on, the favourite goes."""
    queues: dict[str, list[tuple[int, Instruction]]] = {engine: [] for engine in program.machine.engines}
    for index, instruction in reversed(list(enumerate(program.instructions))):
        queues[instruction.engine.name].append((index, instruction))
    completed = dict.fromkeys(queues, 0)
    favourites = [list(queues)[position] for position in rng.permutation(len(queues))]
    for _ in program.instructions:
        if rng.random() < 0.1:
            favourites = [favourites[position] for position in rng.permutation(len(favourites))]
        engine = next((e for e in favourites if queues[e] and _may_start(queues[e][-1][1], completed)), None)
        if engine is None:
            raise WrongAnswer(f"the checker accepts a deadlock after {completed}", f"{kind}: deadlock")
        index, _ = queues[engine].pop()
        completed[engine] += 1
        yield index


def _may_start(instruction: Instruction, completed: Mapping[str, int]) -> bool:
    return all(completed[engine] >= count for engine, count in instruction.waits.items())


def _run(program: Program, start: MachineState, order: Iterable[int], kind: str) -> MachineState:
    state = MachineState({name: words.copy() for name, words in start.memories.items()}, start.dram.copy())
    regions = regions_of(program, place_regions(program.limits))
    try:
        for index in order:
            interpret_instruction(program.machine, program.instructions[index], state, regions, index)
    except MachineFault as error:
        raise WrongAnswer(f"the checker accepts what ends in a {error.fault}", f"{kind}: fault") from error
    return state


def _refilled(program: Program, start: MachineState, rng: Generator) -> MachineState:
    """Other contents of everything that a program must not read before it has written it."""
    memories = {name: rng.integers(0, 256, words.shape, np.uint8) for name, words in start.memories.items()}
    dram, bases = start.dram.copy(), place_regions(program.limits)
    for region in ("workspace", "outputs"):
        first, size = bases[region], program.limits[region]
        dram[first : first + size] = rng.integers(0, 256, size, np.uint8)
    return MachineState(memories, dram)


def _require_same(computed: MachineState, expected: MachineState, kind: str) -> None:
    stored = {"dram": (computed.dram, expected.dram)}
    stored |= {name: (computed.memories[name], words) for name, words in expected.memories.items()}
    for name, (came, told) in stored.items():
        if not np.array_equal(came, told):
            raise WrongAnswer(f"another order of the engines changes {name}", f"{kind}: race")


def _require_outputs(program: Program, expected: MachineState, computed: MachineState, kind: str) -> None:
    came, told = (read_outputs(program, state.dram) for state in (computed, expected))
    for name, values in told.items():
        if not np.array_equal(came[name], values, equal_nan=values.dtype.kind == "f"):
            raise WrongAnswer(f"output {name!r} depends on what memories held before", f"{kind}: unwritten")
