"""Coverage: the file is read as Verilator writes it, runs are added, and what is missed is told."""

from __future__ import annotations

import pytest

from tests.rtl.coverage.__main__ import PAGE, page
from tests.rtl.coverage.data import Point, read_points, together
from tests.rtl.coverage.missed import Choice, Reason, idle, missed, unexplained

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


SOURCE = """\
module other(
  assign value_1 = is_wrong;
endmodule
module npu_load(
  assign value_1 = running & value_2;
  assign value_2 = fault__valid_39;
    if (value_1) begin
endmodule
""".splitlines()

BRANCHES = [Point("npu.v", "npu_load", 7, 5, "branch", what) for what in ("if", "else")]


def test_a_choice_is_told_by_what_its_names_mean() -> None:
    text = "if ((running & fault__valid))"
    found = missed({BRANCHES[0]: 0, BRANCHES[1]: 0, TOGGLE: 0}, SOURCE)
    assert found == {Choice("npu_load", f"`{text}`"): 1, Choice("npu_load", f"not `{text}`"): 1}
    assert not missed(dict.fromkeys(BRANCHES, 1), SOURCE)


def test_a_choice_without_a_reason_and_a_reason_without_a_choice_are_found() -> None:
    one, other = Choice("npu_load", "`if (a)`"), Choice("npu_store", "`if (a)`")
    reason = Reason("never", (("npu_load", r"`if \(a\)`"),))
    assert unexplained({one: 1, other: 2}, [reason]) == [other]
    assert idle({one: 1}, [reason]) == [] and idle({other: 1}, [reason]) == [reason]


@pytest.mark.long
def test_the_page_has_a_reason_for_each_choice_that_no_run_takes() -> None:
    text, faults = page()
    assert faults == []
    assert text == PAGE.read_text()
