"""Faults are real changes, chosen the same way each time, and unmoved by edits elsewhere."""

import ast

import pytest

from tests.mutation.faults import fault, places, shortened

SOURCE = '''"""Text."""
LIMIT: "int | None" = 3

def half(x: int | None) -> int:
    """Text of 1."""
    assert x is not None
    if x < 0:
        raise ValueError(f"{x + 1}")
    return max(x // 2, "a" + x)
'''


def faults_of(source: str) -> list[tuple[int, str, str]]:
    found = map(fault, places("m.py", source))
    return [(one.line, one.before, one.after) for one in found]


def test_changes_what_runs_and_leaves_types_and_texts_alone() -> None:
    assert faults_of(SOURCE) == [
        (2, "LIMIT: 'int | None' = 3", "LIMIT: 'int | None' = 4"),
        (7, "if x < 0:", "if not x < 0:"),
        (7, "if x < 0:", "if x <= 0:"),
        (7, "if x < 0:", "if x < 1:"),
        (9, "return max(x // 2, 'a' + x)", "return min(x // 2, 'a' + x)"),
        (9, "return max(x // 2, 'a' + x)", "return max(x * 2, 'a' + x)"),
        (9, "return max(x // 2, 'a' + x)", "return max(x // 3, 'a' + x)"),
    ]


def test_changes_one_thing_and_leaves_the_source_as_it_was() -> None:
    for place in places("m.py", SOURCE):
        before = ast.unparse(place.tree)
        assert sum(a != b for a, b in zip(before.splitlines(), fault(place).source.splitlines(), strict=True)) == 1
        assert ast.unparse(place.tree) == before


def test_an_edit_elsewhere_moves_no_rank() -> None:
    edited = SOURCE.replace("LIMIT", "OTHER = 5\n\n\ndef more() -> int:\n    return 7\n\n\nLIMIT")
    assert {place.rank(0) for place in places("m.py", SOURCE)} < {place.rank(0) for place in places("m.py", edited)}


def test_another_seed_is_another_order() -> None:
    ranks = [[place.rank(seed) for place in places("m.py", SOURCE)] for seed in (0, 1)]
    assert len(set(ranks[0])) == len(ranks[0])
    assert not set(ranks[0]) & set(ranks[1])


@pytest.mark.parametrize("end", ["", "z" * 200])
def test_shows_what_differs_in_a_long_line(end: str) -> None:
    before, after = shortened("x" * 200 + "+ 1" + end, "x" * 200 + "- 1" + end)
    assert "+ 1" in before and "- 1" in after
    assert len(before) <= 82
