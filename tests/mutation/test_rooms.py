"""Every room gets faults, and has tests that exist."""

from itertools import chain

import pytest

from tests.mutation.rooms import PACKAGES, SHARED, all_rooms, far_tests, files_of, found_tests, near_tests, shared_out


def test_shares_follow_the_sizes_and_nobody_goes_empty() -> None:
    assert shared_out({"a": 70, "b": 28, "c": 2}, 10) == {"a": 6, "b": 3, "c": 1}


def test_knows_every_room_once() -> None:
    rooms = list(all_rooms())
    assert len(set(rooms)) == len(rooms)
    assert {room.split("/")[0] for room in rooms} == set(PACKAGES)
    assert "compiler/importers/tflite" in rooms
    assert "tilewright/isa" not in rooms


def test_every_file_has_tests() -> None:
    paths = list(chain.from_iterable(map(files_of, all_rooms())))
    assert [path for path in paths if not near_tests(path)] == []
    assert [path for path in paths if set(near_tests(path)) & set(far_tests(path))] == []


def test_asks_the_test_of_the_file_first() -> None:
    assert near_tests("compiler/tiling/choice.py")[0] == "tests/compiler/tiling/test_choice.py"
    assert near_tests("rtl/proof/nest.py")[0] == "tests/rtl/test_proof_nest.py"


@pytest.mark.parametrize("pattern", sorted(set(chain.from_iterable(SHARED.values()))))
def test_shared_tests_exist(pattern: str) -> None:
    assert found_tests(pattern)
