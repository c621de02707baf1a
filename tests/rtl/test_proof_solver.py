"""Questions to the solver: values where there are some, none where there are none, and no answer in time."""

from __future__ import annotations

from pathlib import Path

import pytest
import z3

from tilewright.rtl.proof import result
from tilewright.rtl.proof.logic import all_of, any_of
from tilewright.rtl.proof.result import Goal, refute, values_of

X, Y = z3.BitVecs("lane0.x two", 8)
IS_SET = z3.Bool("a truth value")
PRODUCT = z3.Function("product", X.sort(), X.sort(), X.sort())

FACTORS = 1_152_921_504_606_846_883, 1_000_000_016_531
"""Two primes: finding them takes a solver far more than a second."""


def test_values_make_all_terms_true() -> None:
    values = values_of([X + Y == 3, z3.ULT(X, 200), X > 5, z3.Not(IS_SET), PRODUCT(X, Y) == 7], 60)
    assert values is not None
    x, y = int(values["lane0.x"]), int(values["two"])
    assert (x + y) % 256 == 3 and 5 < x < 128 and values["a truth value"] == "False"


def test_there_are_none_of_a_contradiction() -> None:
    assert values_of([X == Y, PRODUCT(X, X) != PRODUCT(X, Y)], 60) is None


def factoring() -> Goal:
    """No two numbers have this product, which is false."""
    x, y = z3.BitVecs("x y", 200)
    given = [z3.ULT(1, each) for each in (x, y)] + [z3.ULT(each, 1 << 99) for each in (x, y)]
    return Goal("prime", given, x * y != FACTORS[0] * FACTORS[1] * FACTORS[1])


def test_no_answer_in_time_is_not_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "TIMEOUT_SECONDS", 1)
    assert refute(factoring()) == "prime: no answer in 1 seconds"


def test_a_counterexample_is_shown() -> None:
    assert refute(Goal("equal", [Y == 7], X == Y - 7)).startswith("equal: false, for example with lane0.x = ")
    assert refute(Goal("equal", [Y == 7, X == 0], X == Y - 7)) == ""


@pytest.mark.parametrize("number", range(4))
def test_claims_of_any_number_are_put_together(number: int) -> None:
    """Of values 0 and 1: all are 1, and one at least is."""
    claims = [z3.Bool(f"claim {at}") for at in range(number)]
    every, some = values_of([all_of(*claims)], 60), values_of([any_of(*claims)], 60)
    assert every is not None and list(every.values()) == ["True"] * number
    assert "True" in some.values() if some is not None else number == 0
    assert values_of([z3.Not(any_of(*claims)), *claims[:1]], 60) == ({} if number == 0 else None)


def test_proofs_put_claims_together_in_one_way(repository: Path) -> None:
    """z3's own functions make terms of one claim or none, which are not SMT-LIB."""
    own = {
        path.name
        for path in (repository / "rtl/proof").glob("*.py")
        if "z3.And(" in (text := path.read_text()) or "z3.Or(" in text
    }
    assert own == {"logic.py"}
