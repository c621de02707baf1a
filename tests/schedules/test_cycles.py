"""No network takes more cycles than the committed table says, by more than half a percent."""

from __future__ import annotations

import pytest

from tests.schedules.cycles import ALLOWED, ENTRIES, measure, read_table


def hold(name: str, isa: str) -> None:
    committed, now = read_table()[name, isa].cycles, measure(name, isa).cycles
    assert now <= ALLOWED * committed, f"{name} on {isa}: {now} cycles, {committed} in cycles.json"


@pytest.mark.parametrize(("name", "isa"), ENTRIES[:2])
def test_takes_no_more_cycles_than_committed(name: str, isa: str) -> None:
    hold(name, isa)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "isa"), ENTRIES[2:])
def test_no_network_takes_more_cycles_than_committed(name: str, isa: str) -> None:
    hold(name, isa)


def test_every_entry_is_committed_and_above_its_bound() -> None:
    table = read_table()
    assert list(table) == list(ENTRIES)
    assert all(entry.cycles >= entry.array for entry in table.values())
