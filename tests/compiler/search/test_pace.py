"""Waits that hold other engines back as a queue of another depth would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.search.test_finisher import two_layers
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.search import pace as pace_module
from tilewright.compiler.search.pace import pace, paced
from tilewright.compiler.tile.program import TileProgram, engines
from tilewright.isa.machine.machine import Machine


def ordered(queue: int) -> OrderedTiles:
    tiles = two_layers()
    placed = allocate(replace(tiles, machine=with_queue(tiles.machine, queue)))
    return waits(placed)


def with_queue(machine: Machine, depth: int) -> Machine:
    return replace(machine, engines={**machine.engines, "vec": replace(machine.engines["vec"], queue_depth=depth)})


def most_ahead(tiles: TileProgram, waits: tuple[dict[str, int], ...]) -> int:
    """How many instructions of vec may at most be unfinished when one of another engine starts."""
    before, most, seen = 0, 0, dict[str, int]()
    for engine, wait in zip(tiles.of_each(engines), waits, strict=True):
        if engine.name == "vec":
            before += 1
        else:
            seen[engine.name] = max(seen.get(engine.name, 0), wait.get("vec", 0))  # of an engine in order
            most = max(most, before - seen[engine.name])
    return most


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_other_engine_is_further_ahead(depth: int) -> None:
    made = ordered(8)
    waits = paced(made.tiles, made.waits, made.tiles.machine.engines["vec"], depth)
    assert most_ahead(made.tiles, waits) <= depth < most_ahead(made.tiles, made.waits)
    assert all(new.get(k, 0) >= count for old, new in zip(made.waits, waits, strict=True) for k, count in old.items())


def test_machines_with_usual_queues_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "exact_cycles", None)
    made = ordered(4)
    assert pace(made) is made


@pytest.mark.parametrize(("paced_cycles", "is_held"), [(9, True), (10, False)])
def test_the_fastest_is_taken(monkeypatch: pytest.MonkeyPatch, paced_cycles: int, is_held: bool) -> None:
    cycles = iter([10, paced_cycles])
    monkeypatch.setattr(pace_module, "exact_cycles", lambda program: next(cycles))
    made = ordered(8)
    assert (pace(made).waits != made.waits) == is_held
