"""Room: no memory is overfull at any time, and what comes early never shuts out what comes in its turn."""

from __future__ import annotations

import numpy as np

from tests.compiler.tile_programs import TileBuilder
from tilewright.compiler.emission.room import Room
from tilewright.isa.files.loader import load_machine


def two_products(words: int) -> TileBuilder:
    """load_wgt load_act mma, load_wgt mma: operations 0 to 4, in 64 words of wgt."""
    build = TileBuilder(load_machine("base16", ["memories.wgt.kib=1"]), np.random.default_rng(0))
    first, x = build.load("wgt", words), build.load_input()
    sums = build.buffer("acc", 1)
    build.run("mma", {}, a=x, w=first, c=sums)
    build.run("mma", {}, a=x, w=build.load("wgt", words), c=sums)
    return build


def ready(room: Room, index: int, reserved: int = 0) -> int | None:
    return room.ready(index, room.fresh(index), {"wgt": reserved})


def test_words_are_there_from_the_completion_of_the_last_use_on() -> None:
    room = Room(two_products(64).program())
    room.take(0, 0, 90)
    room.take(1, 10, 80)
    assert ready(room, 3) is None  # the product that gives words back has not started
    room.take(2, 90, 140)
    assert ready(room, 3) == 140


def test_words_are_there_at_once_where_two_buffers_fit() -> None:
    room = Room(two_products(24).program())
    room.take(0, 0, 90)
    assert ready(room, 3) == 0
    assert ready(room, 3, reserved=24) is None


def test_only_three_quarters_are_for_what_comes_early() -> None:
    room = Room(two_products(32).program())
    room.take(0, 0, 90)
    assert ready(room, 3) is None
    room.take(1, 0, 90)
    room.take(2, 90, 140)
    assert room.turn == 3
    assert ready(room, 3) == 0  # its turn


def test_what_comes_early_leaves_room_for_all_before_it() -> None:
    build = two_products(24)
    second = build.operations.pop(3)
    build.run("load_wgt", {"trip.k": 40, "d.k": 16, "y.k": 1}, d="weights", y=build.buffer("wgt", 40))
    build.operations.insert(3, build.operations.pop())
    build.operations.insert(4, second)
    room = Room(build.program())
    room.take(0, 0, 90)
    assert ready(room, 4) is None  # beside the 40 words of operation 3 it has no room before its turn


def test_what_is_done_before_its_turn_takes_no_words_until_then() -> None:
    """load_wgt load_act mma, and twice load_wgt mma: the second product is done while the first load waits."""
    build = two_products(24)
    x = build.operations[1].bases["y"].buffer
    build.run("mma", {}, a=x, w=build.load("wgt", 24), c=build.buffer("acc", 1))
    for is_done, expected in ((False, None), (True, 0)):
        room = Room(build.program())
        room.take(1, 0, 10)  # the input; the first load, whose turn it is, waits
        room.take(3, 0, 20)
        if is_done:
            room.take(4, 20, 30)
        assert ready(room, 5) == expected  # beside the words of two others it has no room before its turn
