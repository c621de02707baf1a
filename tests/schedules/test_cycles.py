"""Every network takes the cycles of the committed table: more are a fault; with fewer, the table is to be renewed."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tests.schedules.cycles import ALLOWED, ENTRIES, WITH_EFFORT, measure, read_table

RENEW = "python -m tests.schedules.cycles --measure --update"


FAST, SLOW = 2, 17
"""Entries, in the table's order: in the fast ring, and in the slow one; the long ring has all others."""


def hold(name: str, isa: str, effort: int = 1) -> None:
    entry, now = read_table()[name, isa], measure(name, isa, effort).cycles
    committed = entry.cycles if effort == 1 else entry.with_effort
    assert committed is not None
    assert now <= ALLOWED * committed, f"{name} on {isa}: {now} cycles, {committed} in cycles.json"
    assert committed <= ALLOWED * now, f"{name} on {isa}: {now} cycles; renew cycles.json: {RENEW} {name}"


@pytest.mark.parametrize(("name", "isa"), ENTRIES[:FAST])
def test_takes_the_cycles_of_the_table(name: str, isa: str) -> None:
    hold(name, isa)


@pytest.mark.slow
@pytest.mark.parametrize("entry", long_beyond(SLOW, ENTRIES[FAST:]), ids="-".join)
def test_every_network_takes_the_cycles_of_the_table(entry: tuple[str, str]) -> None:
    hold(*entry)


@pytest.mark.long
@pytest.mark.parametrize(("name", "isa"), WITH_EFFORT, ids="-".join)
def test_more_effort_takes_the_cycles_of_the_table(name: str, isa: str) -> None:
    hold(name, isa, effort=2)


def test_every_entry_is_committed_and_above_its_bound() -> None:
    table = read_table()
    assert list(table) == list(ENTRIES)
    assert all(entry.fewest >= entry.array for entry in table.values())
    assert [key for key, entry in table.items() if entry.with_effort is not None] == list(WITH_EFFORT)
    assert all(entry.fewest < entry.cycles for key, entry in table.items() if key in WITH_EFFORT)
