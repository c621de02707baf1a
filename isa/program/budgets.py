"""The most that a program of a stranger may ask for, and the refusal of one that asks for more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from tilewright.isa.errors import IsaError, did_you_mean, short

MIB = 1 << 20

SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""What may follow the number of a budget."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that a program may ask for; the defaults are far above what the largest networks need.

    `iterations`: of all its instructions together. `moved`: bytes that its DMA instructions move.
    `memory`: bytes of memory that a run takes beyond the file's own content.
    `pieces`: separate ranges of words that the checker looks at.
    """

    iterations: int = 1_000_000_000
    moved: int = 1 << 34
    memory: int = 1 << 30
    pieces: int = 1 << 23


DEFAULT_BUDGETS = Budgets()

UNBOUNDED = Budgets(*(1 << 100 for _ in fields(Budgets)))
"""For programs of our own."""


class OverBudget(IsaError):
    """A program asks for more than its budget. `budget` is the name of that, `asked` how much it asks for."""

    def __init__(self, budget: str, asked: int, message: str) -> None:
        super().__init__(message)
        self.budget = budget
        self.asked = asked

    def inside(self, place: str) -> OverBudget:
        """The same error, told with the place where it is."""
        return OverBudget(self.budget, self.asked, f"{place}: {self}")


def require(budgets: Budgets, budget: str, asked: int, what: str) -> None:
    """Raise OverBudget when `asked` is more than a budget allows; `what` says what asks, with %s for how much."""
    allowed: int = getattr(budgets, budget)
    if asked > allowed:
        raise OverBudget(
            budget,
            asked,
            f"{what % _counted(budget, asked)}; the budget is {_counted(budget, allowed)}: if you trust the "
            f"program, raise it with --budget {budget}={_spelled(budget, asked)}",
        )


def parse_budgets(settings: Iterable[str], budgets: Budgets = DEFAULT_BUDGETS) -> Budgets:
    """`memory=4G` and the like on top of `budgets`; raises IsaError for anything else."""
    found, names = budgets, [field.name for field in fields(Budgets)]
    for setting in settings:
        name, _, amount = setting.partition("=")
        if name not in names:
            known = ", ".join(names)
            raise IsaError(
                f"--budget {short(setting)}: no budget {short(name)}{did_you_mean(name, names)}; there are: {known}"
            )
        number = re.fullmatch(r"(\d{1,18})([KMGT]?)", amount, re.ASCII)
        if number is None:
            raise IsaError(f"--budget {short(setting)}: expected a whole number, with K, M, G or T after it or not")
        found = replace(found, **{name: int(number[1]) * SUFFIXES[number[2]]})
    return found


BYTES = ("moved", "memory")
"""The budgets that count bytes."""


def _counted(budget: str, amount: int) -> str:
    """An amount as messages say it, such as `1,000 iterations` or `1,024 MiB`."""
    if budget not in BYTES:
        return f"{amount:,} {budget}"
    return f"{-(-amount // MIB):,} MiB" if amount >= MIB else f"{amount:,} bytes"


def _spelled(budget: str, amount: int) -> str:
    """An amount as --budget takes it, rounded up."""
    return f"{-(-amount // MIB)}M" if budget in BYTES else str(amount)
