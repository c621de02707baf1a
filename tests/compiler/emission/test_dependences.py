"""Dependences: whatever touches a common word keeps its order, however the words are found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.dependences import dependences
from tilewright.compiler.tile.footprint import dense_region, operation_footprints
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.files.loader import load_machine


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
