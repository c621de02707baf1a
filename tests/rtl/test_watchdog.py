"""Watchdog: late after as many cycles as it is told, counted anew whenever the bus moves."""

from typing import Any

from tests.rtl.benches import simulate
from tilewright.rtl.watchdog import Watchdog


def lateness(limit: int, owed: str) -> str:
    """Cycle by cycle, whether it is late (1), for whether an answer is owed."""
    dut, found = Watchdog(), []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.limit, limit)
        for is_owed in owed:
            ctx.set(dut.is_owed, int(is_owed))
            found.append(str(ctx.get(dut.is_late)))
            await ctx.tick()

    simulate(dut, bench)
    return "".join(found)


def test_is_late_after_so_many_cycles_until_the_bus_has_moved() -> None:
    assert lateness(3, "111111011110") == "000111100011"


def test_is_never_late_without_a_limit() -> None:
    assert lateness(0, "1" * 20) == "0" * 20
