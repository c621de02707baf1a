"""Functions of pins: which texts are some."""

from __future__ import annotations

import pytest

from tilewright.codesign.price.functions import fault_of_function


@pytest.mark.parametrize("text", ["A", "!A", "A'", "!((A*B)+!C)", "A ^ B", "(A & B) | C", "0", "1", "!!A"])
def test_a_function_has_no_fault(text: str) -> None:
    assert fault_of_function(text, "ABC") == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it ends too early"),
        ("(A", "it ends too early"),
        ("A)", ") does not fit there"),
        ("A*+B", "+ does not fit there"),
        ("*A", "* does not fit there"),
        ("A*", "it ends too early"),
        ("'A", "' does not fit there"),
        ("D", "D is no pin of its cell"),
        ("A;B", "expected names, !, *, +, ^, &, |, ', 0, 1 and brackets"),
        ('A"', "expected names, !, *, +, ^, &, |, ', 0, 1 and brackets"),
        ("(" * 31 + "A" + ")" * 31, "( does not fit there"),
        ("!" * 1001 + "A", "has more than 1000 characters"),
    ],
)
def test_other_text_has_one(text: str, fault: str) -> None:
    assert fault_of_function(text, "ABC") == fault
