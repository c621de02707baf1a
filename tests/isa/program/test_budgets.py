"""Budgets as the command line takes them."""

import dataclasses
import re
from pathlib import Path

import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, Budgets, OverBudget, parse_budgets, require


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), Budgets()),
        (("memory=4G",), Budgets(memory=4 << 30)),
        (("iterations=7", "moved=2T", "pieces=3K"), Budgets(iterations=7, moved=2 << 40, pieces=3 << 10)),
        (("memory=1", "memory=2M"), Budgets(memory=2 << 20)),
    ],
)
def test_reads_settings(settings: tuple[str, ...], expected: Budgets) -> None:
    assert parse_budgets(settings) == expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("memroy=1", "no budget 'memroy' (did you mean 'memory'?); there are: iterations, moved, memory, pieces"),
        ("memory", "expected a whole number, with K, M, G or T after it or not"),
        ("memory=-1", "expected a whole number, with K, M, G or T after it or not"),
        ("memory=1.5G", "expected a whole number, with K, M, G or T after it or not"),
        ("memory=\u0663", "expected a whole number, with K, M, G or T after it or not"),
    ],
)
def test_refuses_other_settings(setting: str, message: str) -> None:
    with pytest.raises(IsaError) as refused:
        parse_budgets([setting])
    assert str(refused.value) == f"--budget {setting!r}: {message}"


def test_a_refusal_names_what_how_much_the_budget_and_the_option() -> None:
    require(DEFAULT_BUDGETS, "memory", 1 << 30, "a run takes %s of memory")
    with pytest.raises(OverBudget) as refused:
        require(DEFAULT_BUDGETS, "memory", (1 << 30) + 1, "a run takes %s of memory")
    assert str(refused.value) == (
        "a run takes 1,025 MiB of memory; the budget is 1,024 MiB: if you trust the program, raise it with "
        "--budget memory=1025M"
    )
    assert parse_budgets(["memory=1025M"]).memory > refused.value.asked


def test_the_defaults_are_those_of_the_documents(repository: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+)( GiB)? \|", (repository / "docs" / "security.md").read_text(), re.M)
    sizes = {name: int(number.replace(",", "")) << (30 if gibibytes else 0) for name, number, gibibytes in rows}
    assert sizes == dataclasses.asdict(DEFAULT_BUDGETS)
