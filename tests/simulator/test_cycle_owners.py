"""Each cycle has one owner: against a search through all instructions, cycle by cycle, and on layers that overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from programs.networks.quantise import random_inputs
from programs.networks.registry import int8_network
from tests.generators import program_of, random_program
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.program.program import Program, place_regions
from tilewright.isa.program.state import RunCounters
from tilewright.rtl.run import run_rtl_many
from tilewright.simulator.cycle_owners import IDLE, Stretches, cycle_owners, in_flight_order, layer_span
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.profile import instructions_of_layers, layers_of, profile


def counters_of(program: Program) -> RunCounters:
    return simulate_cycles(program, place_regions(program.limits))


def by_hand() -> tuple[Program, RunCounters]:
    """A load of layer 0 in cycles 2 to 8, an mma of layer 1 in 7 to 11; two cycles later the run is over."""
    machine = load_machine("tiny8")
    program = program_of(machine, tuple(make_instruction(machine.format(name), {}) for name in ("load_act", "mma")))
    counters = replace(counters_of(program), cycles=14, started=np.array([2, 7]), retired=np.array([9, 12]))
    return program, counters


def test_stretches_by_hand() -> None:
    program, counters = by_hand()
    found = cycle_owners(program, [[0], [1]], counters)
    order = [engine.name for engine in found.order]
    assert order == ["mma", "vec", "load", "store"]
    load, mma = order.index("load"), order.index("mma")
    assert found.times.tolist() == [0, 2, 7, 9, 12, 14]
    assert found.engine.tolist() == [IDLE, load, mma, mma, IDLE]
    assert found.layer.tolist() == [0, 0, 1, 1, 1]
    assert found.of_layer(0) == [(0, 7)] and found.of_layer(1) == [(7, 14)]
    assert found.cycles(2).sum(axis=1).tolist() == [7, 7]


def test_a_layers_span_leaves_out_loads_that_come_before() -> None:
    program, counters = by_hand()
    assert layer_span(program, [0, 1], counters) == (7, 12)
    assert layer_span(program, [0], counters) == (2, 9)
    assert layer_span(program, [], counters) == (0, 0)


@pytest.mark.parametrize("name", ["tiny8", "base16", "rect"])
def test_every_cycle_belongs_to_whom_a_search_finds(name: str) -> None:
    machine = load_machine(name)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        program = random_program(machine, rng, 24)
        serves = rng.integers(0, 4, len(program.instructions))
        counters = counters_of(program)
        found = cycle_owners(program, [np.flatnonzero(serves == layer).tolist() for layer in range(4)], counters)
        searched = searched_owners(program, serves.tolist(), counters)
        assert each_cycle(found) == searched, f"seed {seed}"


def searched_owners(program: Program, serves: list[int], counters: RunCounters) -> list[tuple[int, int]]:
    """(layer, engine) of every cycle."""
    owners: list[tuple[int, int]] = []
    started, retired = counters.started.tolist(), counters.retired.tolist()
    order = in_flight_order(program.machine)
    for cycle in range(counters.cycles):
        flying = [at for at in range(len(serves)) if started[at] <= cycle < retired[at]]
        engines = {at: order.index(program.instructions[at].engine) for at in range(len(serves))}
        if flying:
            owner = min(flying, key=lambda at: (engines[at], at))
            owners.append((serves[owner], engines[owner]))
            continue
        begin = min((start for start in started if start > cycle), default=None)
        if begin is None:
            owners.append((owners[-1][0], IDLE))
        else:
            following = min((at for at in range(len(serves)) if started[at] == begin), key=lambda at: engines[at])
            owners.append((serves[following], IDLE))
    return owners


def each_cycle(found: Stretches) -> list[tuple[int, int]]:
    lengths = np.diff(found.times)
    return list(zip(np.repeat(found.layer, lengths).tolist(), np.repeat(found.engine, lengths).tolist(), strict=True))


def test_no_layer_beside_another_uses_more_than_all_of_the_array() -> None:
    program = compile_model(int8_network("mobilenetv1-0.25"), load_machine("dw16"))
    counters = counters_of(program)
    assert overlapping_layers(program, counters) > 10
    found = profile(program, counters)
    places = program.machine.array.rows * program.machine.array.cols
    assert sum(layer.cycles for layer in found.layers) == found.cycles == counters.cycles
    for layer in found.layers:
        assert 0 <= layer.utilisation <= 1, layer.name
        assert min(layer.loss.values()) >= 0, layer.name
        assert sum(layer.loss.values()) == pytest.approx(layer.cycles - layer.array_macs / places)


def overlapping_layers(program: Program, counters: RunCounters) -> int:
    """Layers that begin to work before the one in front of them ends."""
    spans = [layer_span(program, own, counters) for own in instructions_of_layers(program, layers_of(program))]
    return sum(second[0] < first[1] for first, second in zip(spans, spans[1:], strict=False))


@pytest.mark.slow
def test_the_hardwares_profile_of_layers_beside_each_other_is_the_simulators() -> None:
    model = int8_network("mobilenetv1-0.25")
    program = compile_model(model, load_machine("dw16"))
    dram = dram_image(program, random_inputs(model, 0))
    ((_, counters),) = run_rtl_many(program.machine, [(program, dram, place_regions(program.limits))])
    assert profile(program, counters) == profile(program, counters_of(program))
