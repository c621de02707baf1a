"""When the operators of a statement take their arguments: as early as they can, products one after the other."""

import pytest

from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import IntegerType, Rounding
from tilewright.isa.language.statement import parse_statement
from tilewright.isa.timing import operator_starts, statement_stages

INT8 = IntegerType(8, True)
BLOCKS = {"v": 3, "w": 3, "u": 9}
SCOPE = Scope(
    {name: {"": INT8} for name in "abcduvw"}, {}, "y", IntegerType(63, True), 1, 1, Rounding.EVEN, BLOCKS, lanes=5
)


def starts(text: str) -> dict[str, int]:
    expr = parse_statement(f"y = {text}", SCOPE).expr
    return {str(node): stage for node, stage in operator_starts(expr).items() if node.args}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b - c", {"a + b": 0, "(a + b) - c": 1}),
        ("min(a, b + c)", {"b + c": 0, "min(a, b + c)": 1}),
        ("a * b * c", {"a * b": 0, "(a * b) * c": 2}),
        ("a * b + c * d", {"a * b": 0, "c * d": 2, "(a * b) + (c * d)": 4}),
        # c * d is ready first, so it goes first: written order decides between equals only
        ("(a + b) * c + c * d", {"a + b": 0, "c * d": 0, "(a + b) * c": 2, "((a + b) * c) + (c * d)": 4}),
        ("lanes_sum(a) + b", {"lanes_sum(a)": 0, "lanes_sum(a) + b": 3}),  # 5 → 3 → 2 → 1 value
        ("words_sum(v * w)", {"v * w": 0, "words_sum(v * w)": 2}),  # the products of all three words at once
        ("words_sum(v * w) * a", {"v * w": 0, "words_sum(v * w)": 2, "words_sum(v * w) * a": 3}),
        ("words_sum(u) + a", {"words_sum(u)": 0, "words_sum(u) + a": 2}),  # 9 → 3 → 1 value
        ("a * b + a * b", {"a * b": 0, "(a * b) + (a * b)": 2}),
    ],
)
def test_starts_each_operator_as_early_as_it_may(text: str, expected: dict[str, int]) -> None:
    assert starts(text) == expected


def test_a_statement_ends_with_its_last_operator() -> None:
    assert statement_stages(parse_statement("y = a * b + c * d", SCOPE).expr) == 5
    assert statement_stages(parse_statement("y = a", SCOPE).expr) == 0
