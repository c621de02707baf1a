"""Every network takes the cycles of the committed table: more are a fault; with fewer, the table is to be renewed."""

from __future__ import annotations

import pytest

from tests.rings import long_beyond
from tests.schedules.cycles import ALLOWED, ENTRIES, WITH_EFFORT, Block, blocks_of, measure, read_table

RENEW = "python -m tests.schedules.cycles --measure --update"


FAST, SLOW = 2, 18
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


def test_layers_that_begin_alike_are_a_block() -> None:
    """Whatever stands between them; without a count of parts, even layers of one name stay apart."""
    facts = ("a.0.x", 10, 4), ("a.1.x", 20, 5), ("a.0.y", 30, 6), ("end", 40, 7), ("end", 1, 1)
    layers = [{"name": name, "cycles": taken, "bound_cycles": {"compute": of, "dram": 1}} for name, taken, of in facts]

    assert blocks_of(layers, 2) == [
        Block("a.0", 40, {"compute": 10, "dram": 2}),
        Block("a.1", 20, {"compute": 5, "dram": 1}),
        Block("end", 41, {"compute": 8, "dram": 2}),
    ]
    assert [block.name for block in blocks_of(layers, 1)] == ["a", "end"]
    assert [block.cycles for block in blocks_of(layers, None)] == [10, 20, 30, 40, 1]
