"""The profile: sums that must come out, and one small program whose every figure is derived by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.generators import program_of, random_program
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import make_instruction
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import Layer, Program, place_regions
from tilewright.simulator.cycles import simulate_cycles
from tilewright.simulator.profile import profile
from tilewright.simulator.run_profile import DramBytes, Resource, RunProfile


def layered(program: Program, rng: np.random.Generator) -> Program:
    """The program with five layers over its instructions; the fourth has none. Some instructions run ahead."""
    count = len(program.instructions)
    firsts = [0, *sorted(int(n) for n in rng.integers(0, count, 2))]
    firsts += [firsts[-1], count - 1]
    layers = tuple(
        Layer(f"layer{n}", first, (f"node{n}",), int(rng.integers(0, 5000))) for n, first in enumerate(firsts)
    )
    provenance = []
    for index in range(count):
        serves = max(n for n, first in enumerate(firsts) if first <= index)
        provenance.append(min(serves + int(rng.random() < 0.2), len(layers) - 1))
    return replace(program, layers=layers, provenance=tuple(provenance) if rng.random() < 0.7 else ())


def profile_of(program: Program) -> RunProfile:
    return profile(program, simulate_cycles(program, place_regions(program.limits)))


@pytest.mark.parametrize("name", ["base16", "tiny8", "rect"])
def test_everything_adds_up(name: str) -> None:
    machine = load_machine(name)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = profile_of(layered(random_program(machine, rng, 16), rng))
        layers = found.layers
        assert sum(layer.cycles for layer in layers) == found.cycles
        assert sum(layer.macs for layer in layers) == found.macs
        assert sum(layer.dram_bytes.read for layer in layers) == found.dram_bytes.read, f"seed {seed}"
        assert sum(layer.dram_bytes.written for layer in layers) == found.dram_bytes.written, f"seed {seed}"
        for layer in layers:
            full = layer.array_macs / (machine.array.rows * machine.array.cols)
            assert sum(layer.loss.values()) == pytest.approx(layer.cycles - full), f"seed {seed}"
            assert layer.array_macs <= layer.macs and layer.utilisation <= 1
            assert min(layer.loss.values()) >= 0
        for engine in found.engines.values():
            total = engine.busy + sum(engine.wait.values()) + sum(engine.stall.values()) + engine.idle
            assert total == found.cycles


def test_no_run_is_faster_than_its_bounds() -> None:
    machine = load_machine("tiny8")
    for seed in range(8):
        found = profile_of(random_program(machine, np.random.default_rng(seed), 16))
        assert found.cycles >= max(found.bound_cycles.values())


def test_a_load_and_a_product_by_hand() -> None:
    # A load of 8 words, then, after it, one tile of 20 vectors.
    machine = load_machine("tiny8")
    load = make_instruction(
        machine.format("load_wgt"), {"trip.k": 8, "d.region": REGIONS.index("weights"), "d.k": 8, "y.k": 1}
    )
    mma = make_instruction(machine.format("mma"), {"trip.x": 20, "a.x": 1, "c.x": 1, "wait.load": 1})
    layers = (Layer("load", 0, (), 0), Layer("product", 1, ("conv",), 640))
    program = replace(program_of(machine, (load, mma)), layers=layers)
    counters = simulate_cycles(program, place_regions(program.limits))
    found = profile(program, counters)
    assert [layer.name for layer in found.layers] == ["load", "product"]
    first, second = found.layers
    started, retired = counters.started.tolist(), counters.retired.tolist()
    assert (first.cycles, second.cycles) == (retired[0], retired[1] - retired[0])
    # The load's layer: nothing is in flight until it starts, then only the load.
    assert first.loss == {
        **{"edge": 0.0, "array": 0.0, "vector": 0.0, "store": 0.0},
        **{"load": float(retired[0] - started[0]), "idle": float(started[0])},
    }
    # The product starts in the cycle in which the load's completion shows, and is in flight to the end: 20 of its
    # cycles are vectors, of which 640 / 64 = 10 would do.
    assert second.loss == {
        **{"edge": 10.0, "vector": 0.0, "load": 0.0, "store": 0.0, "idle": 0.0},
        "array": float(second.cycles - 20),
    }
    assert second.utilisation == 640 / (second.cycles * 64)
    # Both instructions have 40 bytes, which are five beats.
    assert first.bound_cycles == {"compute": 0, "dram": 8 + 5, "vector": 0, "weights": 0}
    assert second.bound_cycles == {"compute": 20, "dram": 5, "vector": 0, "weights": 8}
    assert (first.bound, second.bound) == ("dram", "compute")
    assert first.dram_bytes == DramBytes(64 + 40, 0)


def test_a_beat_of_two_instructions_is_counted_where_it_begins() -> None:
    # add_bias has 28 bytes: of three, the first begins in beats 0 to 3, the second in 4 to 6, the third in 7 to 10.
    machine = load_machine("tiny8")
    one = make_instruction(machine.format("add_bias"), {})
    layers = tuple(Layer(f"{index}", index, (), 0) for index in range(3))
    found = profile_of(replace(program_of(machine, (one, one, one)), layers=layers))
    assert [layer.dram_bytes.read for layer in found.layers] == [4 * 8, 3 * 8, 4 * 8]
    assert found.dram_bytes.read == 11 * 8  # of 84 bytes


def test_an_unaligned_store_takes_the_beats_that_it_overlaps() -> None:
    # 8 bytes a word at byte 5: two beats of the bus for each, apart from each other, so 3 · 2 beats.
    machine = load_machine("tiny8")
    fields = {"trip.k": 3, "y.k": 1, "d.region": REGIONS.index("outputs"), "d.base": 5, "d.k": 64}
    program = program_of(machine, (make_instruction(machine.format("store_act"), fields),))
    found = profile_of(program)
    assert found.dram_bytes.written == 24
    assert found.bound_cycles[Resource.DRAM] == 6  # its instruction has 40 bytes: five beats


def test_an_empty_program_has_a_profile() -> None:
    found = profile_of(program_of(load_machine("tiny8"), ()))
    assert (found.cycles, found.utilisation, found.layers[0].bound) == (0, 0.0, "none")
