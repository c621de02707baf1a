"""Constraints compute with numbers, in little time and memory, whatever they say."""

from __future__ import annotations

import re

import pytest

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.expression import Expression

NAMES = {"lanes": 8, "rounding": "even", "none": None}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("'a' * 999999999 == 1", "'a' is no number"),
        ("'%999999999d' % 1 == 2", "'%999999999d' is no number"),
        ("rounding * 999999999 == 1", "'even' is no number"),
        ("max(rounding, 'a') == 1", "'even' is no number"),
        ("rounding < 'odd'", "'even' is no number"),
        ("none <= 1", "None is no number"),
        ("-rounding == 1", "'even' is no number"),
        ("lanes // 0 == 1", "integer division or modulo by zero"),
        (" * ".join(["lanes"] * 60), "a number grows too large"),
        ("unknown <= 1", "unknown is not known"),
    ],
)
def test_what_has_no_value_is_said(text: str, fault: str) -> None:
    with pytest.raises(StudyError, match=re.escape(fault)):
        Expression(text).value(NAMES)


@pytest.mark.parametrize(
    "text", ["2 ** 9", "1 << 3", "1e999", "9" * 40, "-" * 160 + "1", "lanes.__class__()", "f(1)", "[1]"]
)
def test_other_words_are_no_constraint(text: str) -> None:
    with pytest.raises(StudyError, match="is not a constraint"):
        Expression(text)


def test_words_are_equal_or_not() -> None:
    assert Expression("rounding == 'even' and rounding != lanes").value(NAMES) is True
