"""Coverage: the file is read as Verilator writes it, runs are added, and what is missed is told."""

from __future__ import annotations

import pytest

from tests.rtl.coverage.data import Point, read_points, together

KEY = "C '\x01f\x02npu.v\x01l\x02{}\x01n\x02{}\x01t\x02{}\x01page\x02v_{}/npu_load\x01o\x02{}\x01h\x02npu.load' {}\n"

TEXT = (
    "# SystemC::Coverage-3\n"
    + KEY.format(10, 3, "toggle", "toggle", "valid[0]:0->1", 4)
    + KEY.format(12, 5, "branch", "branch", "else", 0)
)

TOGGLE = Point("npu.v", "npu_load", 10, 3, "toggle", "valid[0]:0->1")
BRANCH = Point("npu.v", "npu_load", 12, 5, "branch", "else")


def test_a_file_is_read() -> None:
    assert read_points(TEXT) == {TOGGLE: 4, BRANCH: 0} and TOGGLE.is_toggle and not BRANCH.is_toggle


def test_runs_are_added_and_what_none_reached_stays() -> None:
    total = together([read_points(TEXT), read_points(TEXT)])
    assert total == {TOGGLE: 8, BRANCH: 0} and BRANCH in total


@pytest.mark.parametrize("text", ["# SystemC::Coverage-4\n", TEXT + "C npu.v 4\n"])
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_points(text)
