"""Runs a network in the simulator and on the simulated hardware, with several latencies and on a random bus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from programs.networks.registry import int8_network
from tilewright.bundle.bundle import bundle_files
from tilewright.bundle.simulated import BOARD, WARNINGS
from tilewright.bundle.vector_c import random_inputs
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.program import Program as WholeProgram
from tilewright.rtl.simulation.board import UNRULY, run_on_board
from tilewright.rtl.simulation.session import Job, RtlSession
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.profile import instructions_of_layers, layers_of
from tilewright.simulator.values import simulate_values

LATENCIES = (1, 64, 300)

OF_256 = 128
"""Under random back-pressure, each channel of the bus moves in so many of 256 cycles."""

SEED = 5

MOOD = f"""
#include <stdint.h>
#include <stdio.h>
void board_mood(uint64_t seed, uint32_t of_256);
uint64_t board_broken_rules(void);
__attribute__((constructor)) static void set_mood(void) {{ board_mood({SEED}U, {OF_256}U); }}
__attribute__((destructor)) static void say(void)
{{
    printf("%lu rules broken\\n", (unsigned long)board_broken_rules());
}}
"""
"""Sets how the bus behaves before `main`, and says afterwards how often the machine broke a rule of AXI."""

FILES = {"digits": "programs/digits/digits_int8.onnx", "decoder step": "programs/decoder/step_int8.onnx"}
"""Networks that are trained here; the others are of programs/networks."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The same number of the simulator and of the hardware."""

    simulator: int
    hardware: int


@dataclass(frozen=True, slots=True)
class Run:
    """A network with one memory: cycles of each layer, all counters by name, and what differs besides.

    `instructions_that_differ` are those which start or end in another cycle, `bytes_that_differ` are of all memories.
    """

    latency: int
    cycles: Sides
    layers: Mapping[str, Sides]
    counters: Mapping[str, Sides]
    instructions: int
    instructions_that_differ: int
    bytes_that_differ: int


@dataclass(frozen=True, slots=True)
class Pressed:
    """What the hardware takes on a bus that lets every channel wait at random, and what it gives there."""

    cycles: int
    values: int
    values_that_differ: int
    broken_rules: int


@dataclass(frozen=True, slots=True)
class Network:
    name: str
    machine: str
    runs: Sequence[Run]
    pressed: Pressed


def measure(name: str, machine: str) -> Network:
    """All runs of a network on a machine of isa/specs."""
    program = compile_model(FILES[name] if name in FILES else int8_network(name), load_machine(machine))
    return Network(name, machine, [run(program, latency) for latency in LATENCIES], pressed(program))


def run(program: Program, latency: int) -> Run:
    """A run with a memory whose first beat comes so many cycles after its address."""
    bases = place_regions(program.limits)
    dram = host.dram_image(program, random_inputs(program, SEED))
    expected = simulate_values(program, dram, bases)
    machine = replace(program.machine, dram=replace(program.machine.dram, latency_cycles=latency))
    simulated = simulate_cycles(replace(program, machine=machine), bases)
    ((state, counted),) = RtlSession(program.machine, latency_cycles=latency).run([Job(program, dram, bases)])
    images = [
        (expected.dram, state.dram),
        *((expected.memories[each], state.memories[each]) for each in state.memories),
    ]
    moved = (simulated.started != counted.started) | (simulated.retired != counted.retired)
    return Run(
        latency,
        Sides(simulated.cycles, counted.cycles),
        sides(layer_cycles(program, simulated), layer_cycles(program, counted)),
        sides(dict(counters(simulated)), dict(counters(counted))),
        len(program.instructions),
        int(np.count_nonzero(moved)),
        sum(int(np.count_nonzero(one != other)) for one, other in images),
    )


def layer_cycles(program: Program, counted: RunCounters) -> dict[str, int]:
    """Of each layer: the cycles by which it ends after all layers before it; together, all until the last one ends."""
    layers = layers_of(program)
    own = instructions_of_layers(program, layers)
    last = [max((int(counted.retired[n]) for n in numbers), default=0) for numbers in own]
    ends = np.maximum.accumulate([0, *last]).tolist()
    names = [f"{number}. {layer.name}" for number, layer in enumerate(layers, 1)]
    return {name: after - before for name, (before, after) in zip(names, pairwise(ends), strict=True)}


def counters(counted: RunCounters) -> Iterator[tuple[str, int]]:
    """All of a run by name; those of engines only of machines that count them."""
    yield "cycles", counted.cycles
    yield "bytes read", counted.dram_bytes_read
    yield "bytes written", counted.dram_bytes_written
    for name, engine in counted.engines.items():
        yield f"{name} busy", engine.busy
        yield from ((f"{name} waits for {other}", cycles) for other, cycles in engine.wait.items())
        yield from ((f"{name} stands still: {cause}", cycles) for cause, cycles in engine.stall.items())
        yield f"{name} idle", engine.idle


def sides(simulated: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, Sides]:
    """Of what the hardware counts; the simulator knows more of machines with few counters."""
    return {name: Sides(simulated[name], value) for name, value in counted.items()}


def pressed(program: Program) -> Pressed:
    """The program's C on the unruly board."""
    files = bundle_files(WholeProgram(program), "net", seed=SEED, data_apart=True)
    sources = {**files, "platform.c": BOARD.read_bytes(), "mood.c": MOOD.encode()}
    _, output = run_on_board(program.machine, sources, WARNINGS, board=UNRULY)
    found = [
        re.search(pattern, output)
        for pattern in (r"(\d+) of (\d+) values differ", r"(\d+) cycles", r"(\d+) rules broken")
    ]
    if None in found:
        raise AssertionError(f"seed {SEED}: {output}")
    differ, cycles, rules = (match.groups() for match in found if match)
    return Pressed(int(cycles[0]), int(differ[1]), int(differ[0]), int(rules[0]))
