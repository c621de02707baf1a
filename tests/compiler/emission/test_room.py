"""Room: no memory is overfull at any time, and what comes early never shuts out what comes in its turn."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.emission.stepped_room import SteppedRoom
from tests.compiler.tile_programs import TileBuilder, random_tiles
from tilewright.compiler.emission.room import BuffersOnChip
from tilewright.isa.files.loader import load_machine


def two_products(words: int) -> TileBuilder:
    """load_wgt load_act mma, load_wgt mma: operations 0 to 4, in 64 words of wgt."""
    build = TileBuilder(load_machine("base16", ["memories.wgt.kib=1"]), np.random.default_rng(0))
    first, x = build.load("wgt", words), build.load_input()
    sums = build.buffer("acc", 1)
    build.run("mma", {}, a=x, w=first, c=sums)
    build.run("mma", {}, a=x, w=build.load("wgt", words), c=sums)
    return build


def ready(room: SteppedRoom, index: int, reserved: int = 0) -> int | None:
    (found,) = room.ready(index, room.fresh(index), [{"wgt": reserved}])
    return found


def test_words_are_there_from_the_completion_of_the_last_use_on() -> None:
    room = SteppedRoom(BuffersOnChip(two_products(64).program()))
    room.take(0, 0, 90)
    room.take(1, 10, 80)
    assert ready(room, 3) is None  # the product that gives words back has not started
    room.take(2, 90, 140)
    assert ready(room, 3) == 140


def test_words_are_there_at_once_where_two_buffers_fit() -> None:
    room = SteppedRoom(BuffersOnChip(two_products(24).program()))
    room.take(0, 0, 90)
    assert ready(room, 3) == 0
    assert ready(room, 3, reserved=24) is None


def test_only_three_quarters_of_what_is_free_are_for_what_comes_early() -> None:
    room = SteppedRoom(BuffersOnChip(two_products(32).program()))
    room.take(0, 0, 90)
    assert ready(room, 3) is None
    room.take(1, 0, 90)
    room.take(2, 90, 140)
    assert room.turn == 3
    assert ready(room, 3) == 0  # its turn


@pytest.mark.parametrize(("eighths", "most"), [(8, 54), (7, 54), (6, 48)])
def test_as_many_words_at_the_most_are_for_what_comes_early(eighths: int, most: int) -> None:
    """Of 64 words, 24 are in use in its turn; it may have three quarters of the 40 others, up to so many eighths."""
    room = SteppedRoom(BuffersOnChip(two_products(24).program(), eighths))
    assert ready(room, 3, reserved=most - 24) == 0
    assert ready(room, 3, reserved=most - 24 + 1) is None


def test_what_comes_early_leaves_room_for_all_before_it() -> None:
    build = two_products(24)
    second = build.operations.pop(3)
    build.run("load_wgt", {"trip.k": 40, "d.k": 16, "y.k": 1}, d="weights", y=build.buffer("wgt", 40))
    build.operations.insert(3, build.operations.pop())
    build.operations.insert(4, second)
    room = SteppedRoom(BuffersOnChip(build.program()))
    room.take(0, 0, 90)
    assert ready(room, 4) is None  # beside the 40 words of operation 3 it has no room before its turn


def test_what_is_done_before_its_turn_takes_no_words_until_then() -> None:
    """load_wgt load_act mma, and twice load_wgt mma: the second product is done while the first load waits."""
    build = two_products(24)
    x = build.operations[1].bases["y"].buffer
    build.run("mma", {}, a=x, w=build.load("wgt", 24), c=build.buffer("acc", 1))
    for is_done, expected in ((False, None), (True, 0)):
        room = SteppedRoom(BuffersOnChip(build.program()))
        room.take(1, 0, 10)  # the input; the first load, whose turn it is, waits
        room.take(3, 0, 20)
        if is_done:
            room.take(4, 20, 30)
        assert ready(room, 5) == expected  # beside the words of two others it has no room before its turn


def test_what_was_refused_is_asked_again_once_something_early_is_done() -> None:
    build = two_products(24)
    x = build.operations[1].bases["y"].buffer
    build.run("mma", {}, a=x, w=build.load("wgt", 24), c=build.buffer("acc", 1))
    room = SteppedRoom(BuffersOnChip(build.program()))
    room.take(1, 0, 10)
    room.take(3, 0, 20)
    assert ready(room, 5) is None
    room.take(4, 20, 30)
    assert ready(room, 5) == 0


def test_what_is_done_before_its_turn_takes_no_words_in_its_turn_either() -> None:
    """Three products, with 8, 24 and 40 words of weights: the second is done while the first load waits."""
    build = TileBuilder(load_machine("base16", ["memories.wgt.kib=1"]), np.random.default_rng(0))
    x = build.load_input()
    for words in (8, 24, 40):
        build.run("mma", {}, a=x, w=build.load("wgt", words), c=build.buffer("acc", 1))
    room = SteppedRoom(BuffersOnChip(build.program()))
    room.take(0, 0, 10)  # the input
    room.take(3, 0, 20)
    room.take(4, 20, 30)
    assert ready(room, 5) == 30  # no position has the 24 words as well


def test_begins_in_the_middle_as_if_all_before_were_done() -> None:
    """Of three products the first is done, and what it read is free; the input is there until the third."""
    build = two_products(24)
    x = build.operations[1].bases["y"].buffer
    build.run("mma", {}, a=x, w=build.load("wgt", 24), c=build.buffer("acc", 1))
    one_by_one, at_once = SteppedRoom(BuffersOnChip(build.program())), SteppedRoom(BuffersOnChip(build.program()))
    for index in range(3):
        one_by_one.take(index, 0, 0)
    at_once.begin_at(3)
    for room in (one_by_one, at_once):
        room.take(3, 1, 1)
        assert room.turn == 4
        assert not room.fresh(1)
        assert ready(room, 5, reserved=6) == 0  # beside the 24 words of the second product, of 24 + 3/4 · 40
        assert ready(room, 5, reserved=7) is None


@pytest.mark.parametrize("seed", range(4))
def test_goes_on_from_anywhere_as_if_all_before_were_done(seed: int) -> None:
    tiles = random_tiles(load_machine("tiny8"), seed)
    residents, count = BuffersOnChip(tiles), len(tiles.operations)
    memories = tiles.machine.memories
    reserved = [{name: memory.depth - words for name, memory in memories.items()} for words in range(12, 60, 6)]

    def seen(room: SteppedRoom, index: int) -> tuple[object, ...]:
        fresh = room.fresh(index)
        return fresh, room.ready(index, fresh, reserved)

    for begin in range(count):
        one_by_one, at_once = SteppedRoom(residents), SteppedRoom(residents)
        for index in range(begin):
            one_by_one.take(index, 0, 0)
        at_once.begin_at(begin)
        for index in range(begin, count):
            for later in range(index, min(index + 6, count)):
                assert seen(at_once, later) == seen(one_by_one, later)
            for room in (one_by_one, at_once):
                room.take(index, 10 * index, 10 * index + 30)
    assert residents.words.tolist() == BuffersOnChip(tiles).words.tolist(), "they are everyone's"
