"""When the operators of a statement take their arguments: as early as they can, products from the second stage on."""

import pytest

from tests.engines import vector_of
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import Scope
from tilewright.isa.language.numeric import IntegerType, Rounding
from tilewright.isa.language.statement import parse_statement
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.timing import (
    can_be_refused,
    in_pipeline,
    is_wires,
    operator_starts,
    statement_stages,
    vec_result_limit,
    vec_results,
    vec_write,
)

INT8 = IntegerType(8, True)
WIDE, SHIFT = IntegerType(20, True), IntegerType(4, False)
SOURCES = {name: {"": INT8} for name in "abcduvx"} | {"w": {"": WIDE}, "n": {"": SHIFT}}
BLOCKS = {"v": 3, "x": 3, "u": 9}
SCOPE = Scope(SOURCES, {}, "y", IntegerType(63, True), 1, 1, Rounding.EVEN, BLOCKS, lanes=5)


def starts(text: str) -> dict[str, int]:
    expr = parse_statement(f"y = {text}", SCOPE).expr
    starts = operator_starts(in_pipeline(expr), Pipeline())
    return {str(node): stage for node, stage in starts.items() if not is_wires(node)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b - c", {"a + b": 0, "(a + b) - c": 1}),
        ("min(a, b + c)", {"b + c": 0, "min(a, b + c)": 1}),
        ("a * b * c", {"a * b": 1, "(a * b) * c": 2}),
        ("a * b + c * d", {"a * b": 1, "c * d": 1, "(a * b) + (c * d)": 2}),
        ("(a + b) * c + c * d", {"a + b": 0, "c * d": 1, "(a + b) * c": 1, "((a + b) * c) + (c * d)": 2}),
        # a stage is left for the sum of a wide product, which this is not
        ("max(a * b, c)", {"a * b": 1, "max(a * b, c)": 3}),
        ("max(wrap(a * b, int8), c)", {"a * b": 1, "max(wrap(a * b, int8), c)": 3}),
        ("w * a", {"wrap(w, uint10) * a": 1, "(w >> 10) * a": 1, "(wrap(w, uint10) * a) + (((w >> 10) * a) << 10)": 2}),
        ("(a >> 3) + b", {"(a >> 3) + b": 0}),  # a shift by a constant is wires
        ("lanes_sum(a) + b", {"lanes_sum(a)": 0, "lanes_sum(a) + b": 3}),  # 5 → 3 → 2 → 1 value
        ("words_sum(v * x)", {"v * x": 1, "words_sum(v * x)": 2}),  # the products of all three words at once
        ("words_sum(v * x) * a", {"v * x": 1, "words_sum(v * x)": 2, "words_sum(v * x) * a": 3}),
        ("words_sum(u) + a", {"words_sum(u)": 0, "words_sum(u) + a": 2}),  # 9 → 3 → 1 value
        ("a * b + a * b", {"a * b": 1, "(a * b) + (a * b)": 2}),
        ("round_shift(a, n) + c", {"round_shift(a, n)": 0, "round_shift(a, n) + c": 2}),
    ],
)
def test_starts_each_operator_as_early_as_it_may(text: str, expected: dict[str, int]) -> None:
    assert starts(text) == expected


def test_a_statement_ends_with_its_last_operator() -> None:
    assert statement_stages(parse_statement("y = a * b + c * d", SCOPE).expr, Pipeline()) == 3
    assert statement_stages(parse_statement("y = a", SCOPE).expr, Pipeline()) == 0


def test_only_results_that_go_where_the_array_writes_may_wait() -> None:
    machine = load_machine("base16")
    waiting = [of for of in machine.formats_of(Template.VECTOR) if can_be_refused(machine, of)]

    assert [of.mnemonic for of in waiting] == ["sum", "add_bias", "add_sums"]
    assert vec_result_limit(machine, waiting[0]) == vec_results(machine, vector_of(machine))
    assert vec_result_limit(machine, machine.format("requantize")) == 1


def test_as_many_results_wait_as_the_file_says() -> None:
    machine = load_machine("base16", ["engines.vec.results=7"])
    whole_pipeline = max(vec_write(of) for of in machine.formats_of(Template.VECTOR) if can_be_refused(machine, of))

    assert vec_results(machine, vector_of(machine)) == 7
    base16 = load_machine("base16")
    assert vec_results(base16, vector_of(base16)) == whole_pipeline + 1  # what would be taken without the key
