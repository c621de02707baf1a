"""Dependences keep the order on common words; durations are the cycle model's; loads start as late as they can."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.dependences import EARLY_ROUND_TRIPS, Dependences, dependences, durations, plan_loads
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.tile.accesses import dense_region, operation_footprints
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.engine import Engine
from tilewright.isa.program.program import place_regions
from tilewright.isa.templates.work import Work
from tilewright.simulator.cycles import simulate_cycles


def builder() -> TileBuilder:
    return TileBuilder(load_machine("base16"), np.random.default_rng(0))


def touched(program: TileProgram, index: int) -> list[tuple[str, bool, set[int]]]:
    found = []
    for footprint in operation_footprints(program.machine, program.operations[index]):
        space, offset = dense_region(program.buffers[footprint.buffer])
        words = np.flatnonzero(footprint.mask) + offset + footprint.first
        found.append((space, footprint.is_write, set(words.tolist())))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_holds_every_pair_with_a_common_word(seed: int) -> None:
    program = random_tiles(load_machine("tiny8"), seed)
    before = dependences(program)
    known: list[set[int]] = []
    for completed, started in zip(before.completed, before.started, strict=True):
        known.append({earlier for direct in (*completed, *started) for earlier in ({direct} | known[direct])})
    words = [touched(program, index) for index in range(len(program.operations))]
    for early, late in itertools.combinations(range(len(words)), 2):
        meet = any(
            space == other and (writes or other_writes) and here & there
            for space, writes, here in words[late]
            for other, other_writes, there in words[early]
        )
        assert not meet or early in known[late], (seed, early, late)


def test_what_only_reads_depends_on_no_reader() -> None:
    build = builder()
    x = build.load_input()
    build.add(x, x)
    build.store(x)
    before = dependences(build.program())
    assert before.completed == ((), (0,), (0,))
    assert before.started == ((), (), ())


def test_words_in_between_are_free() -> None:
    build = builder()
    to = build.buffer("act", 8)
    build.run("fill", {"trip.k": 4, "y.k": 2}, y=to)
    build.run("load_act", {"trip.k": 4, "d.k": 16, "y.k": 2}, d="inputs", y=(to, 1))
    build.run("load_act", {"trip.k": 4, "d.k": 16, "y.k": 2}, d="inputs", y=(to, 0))
    assert dependences(build.program()).completed == ((), (), (0,))


def test_an_engine_keeps_its_own_writes_in_order_but_waits_to_read_them() -> None:
    build = builder()
    x = build.fill()
    build.fill()
    y = build.add(x, x)
    build.run("fill", {"trip.k": WORDS, "y.k": 1}, y=y)
    before = dependences(build.program())
    assert before.completed == ((), (), (0,), ())
    assert before.started == ((), (), (), (2,))


def test_many_that_meet_many() -> None:
    """More pairs than four for each access, for which there is room at first."""
    build = builder()
    x = build.fill()
    many = range(1, 41)
    for _ in many:
        build.store(x)
    build.run("load_act", {"trip.k": 2, "d.k": 16, "y.k": 2}, d="inputs", y=x)
    for _ in many:
        build.run("load_act", {"trip.k": 2, "d.k": 16, "y.k": 3}, d="inputs", y=x)
    completed = dependences(build.program()).completed
    assert list(completed[41]) == [0, *many]
    assert all(list(own) == [0, *many] for own in completed[42:])


CLOSE = 12
"""Cycles by which an estimate may be off."""


def expect_close(build: TileBuilder, index: int) -> None:
    program = build.program()
    binary = emit(waits(allocate(program)))
    counters = simulate_cycles(binary, place_regions(binary.limits))
    took = int(counters.retired[index] - counters.started[index])
    assert abs(durations(program)[index].complete - took) <= CLOSE, took


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("words", [1, 48, 300])
def test_of_a_load_of_consecutive_words(machine: str, words: int) -> None:
    build = TileBuilder(load_machine(machine), np.random.default_rng(0))
    size = build.machine.memories["wgt"].word_bytes
    to = build.buffer("wgt", words)
    build.run("load_wgt", {"trip.k": words, "d.k": size, "y.k": 1}, d="weights", y=to)
    expect_close(build, 0)


def test_of_a_load_of_single_words_is_that_of_its_bursts() -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    to = build.buffer("act", 160)
    build.run("load_act", {"trip.k": 160, "d.k": 3, "y.k": 1}, d="weights", y=to)
    assert durations(build.program())[0].busy == 160 * 70 // 16
    expect_close(build, 0)


@pytest.mark.parametrize("vectors", [4, 16, 100])
def test_of_a_product(vectors: int) -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    a, w, c = build.buffer("act", 4 * vectors), build.buffer("wgt", 48), build.buffer("acc", vectors)
    fields = {"trip.k": 3, "trip.x": vectors, "a.k": vectors, "a.x": 1, "w.k": 16, "c.x": 1}
    build.run("mma", fields, a=a, w=w, c=c)
    expect_close(build, 0)


def test_of_a_vector_statement_and_of_a_store() -> None:
    build = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    to = build.buffer("act", 100)
    build.run("fill", {"trip.k": 100, "y.k": 1}, y=to)
    there = build.buffer("workspace", 1600)
    build.run("store_act", {"trip.k": 100, "y.k": 1, "d.k": 16}, y=to, d=there)
    expect_close(build, 0)
    expect_close(build, 1)


ENGINES = load_machine("base16").engines
ROUND_TRIP = 10
MARGIN = EARLY_ROUND_TRIPS * ROUND_TRIP


def engines_called(*names: str) -> list[Engine]:
    return [ENGINES[name] for name in names]


def test_the_load_that_is_needed_first_goes_first() -> None:
    engines = engines_called("load", "load", "mma", "vec")
    lasting = [Work(20, 30), Work(20, 30), Work(50, 60), Work(5, 9)]
    before = Dependences(((), (), (1,), (0, 2)), ((),) * 4)
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert plan.loads == (1, 0)
    assert list(plan.starts) == [0, 0, 30, 90]
    # Needed in 30 and in 90; a load's words begin to come ROUND_TRIP after its start.
    assert [plan.from_cycle[index] + MARGIN for index in (1, 0)] == [0, 60]


def test_loads_that_follow_each_other_start_earlier() -> None:
    engines = engines_called("load", "load", "mma")
    lasting = [Work(100, 110), Work(100, 110), Work(50, 60)]
    before = Dependences(((), (), (0, 1)), ((),) * 3)
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert [at + MARGIN for at in plan.from_cycle[:2]] == [110 - 10 - 200, 110 - 10 - 100]


@pytest.mark.parametrize(("ports", "first"), [(1, 360), (2, 400)])
def test_beats_of_two_engines_follow_each_other_on_one_port(ports: int, first: int) -> None:
    """The example of the module: loads of 100 cycles needed in 500, 520 and 900, the first by another engine."""
    machine = load_machine("base16-2dma", [f"dram.ports={ports}", f"engines.load2.port={ports - 1}"])
    names = ("load2", "load", "load", "vec", "vec", "vec")
    engines, port = [machine.engines[name] for name in names], ports - 1
    loads = [Work(100, 100, read_beats=60, port=port), *[Work(100, 100, read_beats=60)] * 2]
    lasting = [*loads, Work(20, 520), Work(380, 380), Work(9, 9)]
    before = Dependences(((), (), (), (0,), (1,), (2, 4)), ((),) * 6)
    plan = plan_loads(engines, lasting, before, 0)
    assert [plan.starts[at] for at in (3, 4, 5)] == [100, 120, 500]
    assert plan.loads == (0, 1, 2)
    # Needed in 100, 120 and 500.
    assert list(plan.from_cycle[:3]) == [first - 400, 420 - 400, 800 - 400]


def test_words_that_another_load_overwrites_are_needed_when_its_are() -> None:
    engines = engines_called("load", "load", "vec", "load")
    lasting = [Work(10, 20)] * 4
    before = Dependences(((), (), (1,), ()), ((), (0,), (), ()))
    plan = plan_loads(engines, lasting, before, ROUND_TRIP)
    assert plan.loads == (0, 1, 3)
    assert plan.from_cycle[3] == 0  # nobody reads it: it starts in its turn, and keeps nothing behind it waiting
