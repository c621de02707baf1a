"""Random instructions, memories and programs: valid ones, with every field that a machine has, drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.checker import check
from tilewright.isa.check.footprint import OperandAccess, footprint
from tilewright.isa.machine.encoding import FieldKind, Instruction, InstructionFormat, Operand, make_instruction
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS, Memory
from tilewright.isa.program.program import Program, dram_bytes, place_regions
from tilewright.isa.program.state import MachineState, initial_state
from tilewright.isa.templates.systolic import systolic_weights

LIMITS: Mapping[str, int] = {"program": 4096, "weights": 6000, "workspace": 9001, "inputs": 5000, "outputs": 4097}
"""Region sizes of tests that run one instruction; none but the program's is a multiple of a burst."""


def random_instruction(
    machine: Machine,
    of: InstructionFormat,
    rng: np.random.Generator,
    limits: Mapping[str, int] = LIMITS,
    max_iterations: int = 48,
    windows: Mapping[str, range] | None = None,
) -> Instruction:
    """Random fields, every access inside its memory; waits are 0. Destinations may overlap themselves and sources.

    `windows` has the words of each memory that may be touched; without it, all may.
    """
    trips = _random_trips(of, rng, max_iterations)
    values: dict[str, int] = {f"trip.{name}": trip for name, trip in trips.items()}
    for operand in of.operands:
        if operand.memory == DRAM:
            values |= _random_dram_walk(machine, of, operand, trips, rng, limits)
        else:
            window = windows[operand.memory] if windows else range(machine.memories[operand.memory].depth)
            values |= _random_walk(machine, of, operand, trips, rng, window)
    for field in of.fields:
        if field.kind in (FieldKind.IMMEDIATE, FieldKind.FLAG):
            values[field.name] = _random_value(field.low, field.high, rng)
    return make_instruction(of, values)


def _random_trips(of: InstructionFormat, rng: np.random.Generator, max_iterations: int) -> dict[str, int]:
    trips = dict.fromkeys((loop.name for loop in of.loops), 1)
    left = int(rng.integers(1, max_iterations + 1))
    for position in rng.permutation(len(of.loops)):
        loop = of.loops[position]
        trip = int(rng.integers(1, min(left, 1 << loop.bits) + 1)) if rng.random() < 0.8 else 1
        if rng.random() < 0.2:
            trip = min(left, 1 << loop.bits)
        trips[loop.name] = trip
        left //= trip
    return trips


def _random_value(low: int, high: int, rng: np.random.Generator) -> int:
    if rng.random() < 0.3:
        return int(rng.choice([low, high, min(max(0, low), high)]))
    return int(rng.integers(low, high, endpoint=True))


def _random_strides(
    of: InstructionFormat, operand: Operand, trips: Mapping[str, int], unit: int, span: int, rng: np.random.Generator
) -> dict[str, int]:
    """Strides whose whole reach is at most `span`; in one of several styles."""
    style = rng.choice(["dense", "random", "any", "still"], p=[0.45, 0.3, 0.2, 0.05])
    strides: dict[str, int] = {}
    moved, reach = unit, 0
    for loop in reversed(of.loops):
        if loop.name not in operand.loops:
            continue
        trip = trips[loop.name]
        room = (span - reach) // (trip - 1) if trip > 1 else span
        match style:
            case "dense":
                stride = moved + (unit * int(rng.integers(0, 3)) if rng.random() < 0.3 else 0)
            case "random":
                stride = unit * int(rng.integers(-3, 9))
            case "any":
                stride = int(rng.integers(-room, room, endpoint=True)) if trip > 1 else int(rng.integers(-span, span))
            case _:
                stride = 0
        if abs(stride) > room:
            stride = 0
        if rng.random() < 0.1:
            stride = -stride
        if rng.random() < 0.1:
            stride = 0
        field = of.field(f"{operand.name}.{loop.name}")
        strides[loop.name] = min(max(stride, field.low), field.high)
        reach += abs(strides[loop.name]) * (trip - 1)
        moved = max(moved, abs(strides[loop.name]) * trip)
    return strides


def _random_walk(
    machine: Machine,
    of: InstructionFormat,
    operand: Operand,
    trips: Mapping[str, int],
    rng: np.random.Generator,
    window: range,
) -> dict[str, int]:
    memory = machine.memories[operand.memory]
    is_by_row = of.engine.template is Template.SYSTOLIC and operand is systolic_weights(of)
    for _ in range(50):
        strides = _random_strides(of, operand, trips, operand.block, len(window) - operand.block, rng)
        low = sum(min(0, s * (trips[name] - 1)) for name, s in strides.items())
        high = sum(max(0, s * (trips[name] - 1)) for name, s in strides.items())
        if high - low + operand.block > len(window):
            continue
        base = _random_value(window.start - low, window.stop - operand.block - high, rng)
        if is_by_row or _blocks_fit(memory, operand, trips, strides, base):
            return {f"{operand.name}.base": base, **{f"{operand.name}.{name}": s for name, s in strides.items()}}
    return {f"{operand.name}.base": window.start}


def _blocks_fit(
    memory: Memory, operand: Operand, trips: Mapping[str, int], strides: Mapping[str, int], base: int
) -> bool:
    first = np.array([base])
    for name, stride in strides.items():
        first = np.unique((first[:, None] + stride * np.arange(trips[name])).ravel())
    return bool(np.all(first // memory.bank_depth == (first + operand.block - 1) // memory.bank_depth))


def _random_dram_walk(
    machine: Machine,
    of: InstructionFormat,
    operand: Operand,
    trips: Mapping[str, int],
    rng: np.random.Generator,
    limits: Mapping[str, int],
) -> dict[str, int]:
    """Any region but the program; byte strides, often contiguous, sometimes overlapping windows."""
    on_chip = next(o for o in of.operands if o is not operand)
    word = machine.memories[on_chip.memory].word_bytes
    names = [name for name in REGIONS if name != "program" and limits[name] >= word]
    name = str(rng.choice(names))
    unit = word if rng.random() < 0.7 else int(rng.integers(1, 2 * word))
    strides = _random_strides(of, operand, trips, unit, limits[name] - word, rng)
    low = sum(min(0, s * (trips[loop] - 1)) for loop, s in strides.items())
    high = sum(max(0, s * (trips[loop] - 1)) for loop, s in strides.items())
    base = _random_value(-low, limits[name] - word - high, rng)
    values = {f"{operand.name}.region": REGIONS.index(name), f"{operand.name}.base": base}
    return {**values, **{f"{operand.name}.{loop}": s for loop, s in strides.items()}}


def random_state(machine: Machine, rng: np.random.Generator, limits: Mapping[str, int] = LIMITS) -> MachineState:
    """Every byte of every memory and of DRAM is random, or all are at an extreme."""
    state = initial_state(machine, np.zeros(dram_bytes(limits), np.uint8))
    for stored in (*state.memories.values(), state.dram):
        if rng.random() < 0.15:
            stored[:] = rng.choice([0, 0x7F, 0x80, 0xFF])
        else:
            stored[:] = rng.integers(0, 256, stored.shape, np.uint8)
    return state


def one_instruction_program(
    machine: Machine, instruction: Instruction, limits: Mapping[str, int] = LIMITS
) -> tuple[Program, dict[str, int]]:
    """A program of one instruction with regions of the given sizes, and where they lie."""
    return program_of(machine, (instruction,), limits), place_regions(limits)


def program_of(machine: Machine, instructions: tuple[Instruction, ...], limits: Mapping[str, int] = LIMITS) -> Program:
    """A program without tensors or layers; its weights are zero."""
    return Program(
        machine=machine,
        instructions=instructions,
        weights=bytes(limits["weights"]),
        workspace_bytes=limits["workspace"],
        inputs=(),
        outputs=(),
        input_bytes=limits["inputs"],
        output_bytes=limits["outputs"],
    )


# -- programs ----------------------------------------------------------------------------------------------------------

PROGRAM_LIMITS: Mapping[str, int] = {"weights": 12000, "workspace": 3000, "inputs": 9001, "outputs": 3001}


def random_program(machine: Machine, rng: np.random.Generator, count: int, max_iterations: int = 64) -> Program:
    """A program of about `count` instructions that the checker accepts, with waits that are seldom more than needed.

    It begins by loading a window of every memory, some of them across a bank boundary; then come random instructions
    on those windows. Each waits for what it conflicts with; then waits are left out wherever the checker lets them.
    """
    windows = random_windows(machine, rng)
    instructions = initial_loads(machine, windows, rng)
    formats = [
        of for of in machine.formats.values() if _is_usable(of, {i.format.destination.memory for i in instructions})
    ]
    limits = {"program": 0, **PROGRAM_LIMITS}
    for _ in range(4 * count):
        if len(instructions) >= count:
            break
        of = formats[int(rng.integers(len(formats)))]
        drawn = random_instruction(machine, of, rng, limits, max_iterations, windows)
        candidate = [*instructions, with_waits(machine, instructions, drawn)]
        if not check(program_of(machine, tuple(candidate), limits)):
            instructions = candidate
    return program_of(machine, tuple(_drop_waits(machine, instructions, limits, rng)), limits)


def random_windows(machine: Machine, rng: np.random.Generator) -> dict[str, range]:
    """The words of each memory that a random program touches."""
    return {memory.name: _random_window(machine, memory, rng) for memory in machine.memories.values()}


def initial_loads(machine: Machine, windows: Mapping[str, range], rng: np.random.Generator) -> list[Instruction]:
    """Instructions that fill these words."""
    return [_initial_load(machine, of, windows, rng) for of in _one_load_per_memory(machine)]


def with_waits(machine: Machine, earlier: list[Instruction], instruction: Instruction) -> Instruction:
    """The instruction with a wait for the last instruction of each engine that touches what it touches."""
    counts = dict.fromkeys(machine.engines, 0)
    waits = dict.fromkeys(machine.engines, 0)
    touched = footprint(instruction, machine)
    for before in earlier:
        counts[before.engine.name] += 1
        if any(_conflict(a, b) for a in footprint(before, machine) for b in touched):
            waits[before.engine.name] = counts[before.engine.name]
    return instruction.replace({f"wait.{engine}": count for engine, count in waits.items()})


def _conflict(a: OperandAccess, b: OperandAccess) -> bool:
    if a.place != b.place or not (a.is_write or b.is_write):
        return False
    return bool(np.intersect1d(a.words, b.words).size)


def _drop_waits(
    machine: Machine, instructions: list[Instruction], limits: Mapping[str, int], rng: np.random.Generator
) -> list[Instruction]:
    """Waits that can be left out are, most of the time; some stay."""
    kept = list(instructions)
    for position, instruction in enumerate(instructions):
        for engine, count in instruction.waits.items():
            if count == 0 or rng.random() < 0.3:
                continue
            fewer = [*kept]
            fewer[position] = kept[position].replace({f"wait.{engine}": 0})
            if not check(program_of(machine, tuple(fewer), limits)):
                kept = fewer
    return kept


def _random_window(machine: Machine, memory: Memory, rng: np.random.Generator) -> range:
    """Up to 128 words more than a few blocks of the array's widest access, or two of the widest block."""
    blocks = [t.block for of in machine.formats.values() for t in of.operands if t.memory == memory.name]
    sides = [side for array in machine.of(Template.SYSTOLIC) for side in (array.array.rows, array.array.cols)]
    widest = max([1, *sides, *blocks])
    size = min(memory.depth, int(rng.integers(2 * widest, 2 * widest + 128)))
    if memory.banks > 1 and rng.random() < 0.5:
        boundary = memory.bank_depth * int(rng.integers(1, memory.banks))
        start = min(max(0, boundary - int(rng.integers(0, size))), memory.depth - size)
    else:
        start = int(rng.choice([0, memory.depth - size, rng.integers(0, memory.depth - size, endpoint=True)]))
    return range(start, start + size)


def _one_load_per_memory(machine: Machine) -> tuple[InstructionFormat, ...]:
    return tuple({of.destination.memory: of for of in machine.formats_of(machine.engines["load"])}.values())


def _initial_load(
    machine: Machine, of: InstructionFormat, windows: Mapping[str, range], rng: np.random.Generator
) -> Instruction:
    """Fill a memory's window from weights or inputs; words may overlap there, so that all fit."""
    source, destination = of.sources[0], of.destination
    window, word = windows[destination.memory], machine.memories[destination.memory].word_bytes
    region = str(rng.choice(["weights", "inputs"]))
    room = PROGRAM_LIMITS[region] - word
    stride = word if word * len(window) <= room and rng.random() < 0.7 else int(rng.integers(1, room // len(window)))
    innermost = of.loops[-1].name
    return make_instruction(
        of,
        {
            f"trip.{innermost}": len(window),
            f"{source.name}.region": REGIONS.index(region),
            f"{source.name}.base": int(rng.integers(0, room - stride * (len(window) - 1), endpoint=True)),
            f"{source.name}.{innermost}": stride,
            f"{destination.name}.base": window.start,
            f"{destination.name}.{innermost}": 1,
        },
    )


def _is_usable(of: InstructionFormat, filled: set[str]) -> bool:
    """Every source is DRAM or a memory that was filled."""
    return all(source.memory == DRAM or source.memory in filled for source in of.sources)


def random_dram(program: Program, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A DRAM image with the program's text in its place and random bytes everywhere else."""
    image = rng.integers(0, 256, dram_bytes(program.limits), np.uint8)
    start = place_regions(program.limits)["program"]
    image[start : start + len(program.text)] = np.frombuffer(program.text, np.uint8)
    return image
