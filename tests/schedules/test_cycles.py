"""Every network takes the cycles of the committed table: more are a fault; with fewer, the table is to be renewed."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tests.schedules.cycles import ALLOWED, ENTRIES, measure, read_table

RENEW = "python -m tests.schedules.cycles --measure --update"


FAST, SLOW = 2, 15
"""Entries, in the table's order: in the fast ring, and in the slow one; the long ring has all others."""


def hold(name: str, isa: str) -> None:
    committed, now = read_table()[name, isa].cycles, measure(name, isa).cycles
    assert now <= ALLOWED * committed, f"{name} on {isa}: {now} cycles, {committed} in cycles.json"
    assert committed <= ALLOWED * now, f"{name} on {isa}: {now} cycles; renew cycles.json: {RENEW} {name}"


@pytest.mark.parametrize(("name", "isa"), ENTRIES[:FAST])
def test_takes_the_cycles_of_the_table(name: str, isa: str) -> None:
    hold(name, isa)


@pytest.mark.slow
@pytest.mark.parametrize("entry", long_beyond(SLOW, ENTRIES[FAST:]), ids="-".join)
def test_every_network_takes_the_cycles_of_the_table(entry: tuple[str, str]) -> None:
    hold(*entry)


def test_every_entry_is_committed_and_above_its_bound() -> None:
    table = read_table()
    assert list(table) == list(ENTRIES)
    assert all(entry.cycles >= entry.array for entry in table.values())
