"""Buffers are placed again where engines often wait for ports: never slower, and the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.nests import network_for
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import DoesNotFit
from tilewright.compiler.search import ports as ports_module
from tilewright.compiler.search.finisher import run_of
from tilewright.compiler.search.ports import ports
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.check.checker import require_valid
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.state import RunCounters


def in_order(program: TileProgram, starts: object = None) -> OrderedTiles:
    placed = allocate(program, starts)  # type: ignore[arg-type]
    return waits(placed)


@pytest.fixture(scope="module")
def crowded() -> OrderedTiles:
    """Products with few channels, whose sums the vector engine reads as fast as the array adds to others."""
    of = load_machine("base16", ["memories.acc.kib=16"])
    network = network_for(of, 0)
    wide = network.conv(network.input(1, 32, 24, 24), 64, (1, 1))
    output = network.conv(network.rescale(wide), 32, (1, 1))
    return in_order(schedule(tile(select(network.program(output), of), TilingOptions(residency="none"))))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_module, "OFTEN", 0.0)
    monkeypatch.setattr(ports_module, "WORTH", 0.0)


def cycles(ordered: OrderedTiles) -> int:
    return run_of(ports_module.emit(ordered)).cycles


def noted(monkeypatch: pytest.MonkeyPatch, said: Iterator[int]) -> list[RunCounters]:
    """Runs take as many cycles as is said."""
    runs: list[RunCounters] = []
    run = ports_module.run_of

    def run_as_said(program: object) -> RunCounters:
        runs.append(replace(run(program), cycles=next(said)))  # type: ignore[arg-type]
        return runs[-1]

    monkeypatch.setattr(ports_module, "run_of", run_as_said)
    return runs


def test_takes_no_more_cycles_and_is_valid(crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    found = ports(crowded, 4)
    assert cycles(found) <= cycles(crowded)
    assert found.tiles.operations == crowded.tiles.operations
    require_valid(ports_module.emit(found))


def test_each_run_says_where_buffers_are_in_the_next(crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    runs = noted(monkeypatch, iter([100, 90, 95]))
    found = ports(crowded, 2)
    assert found.placement.addresses == in_order(crowded.tiles, runs[0].started.astype(np.int64)).placement.addresses
    assert len(runs) == 3


@pytest.mark.parametrize(("after", "is_taken"), [(998, False), (997, True)])
def test_other_places_must_be_worth_it(
    crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch, after: int, is_taken: bool
) -> None:
    monkeypatch.setattr(ports_module, "OFTEN", 0.0)
    noted(monkeypatch, iter([1000, after]))
    assert (ports(crowded, 1) is not crowded) == is_taken


def test_a_program_in_which_nobody_waits_long_for_a_port_stays(
    crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports_module, "OFTEN", 1.0)
    runs = noted(monkeypatch, iter([10**9]))
    assert ports(crowded, 4) is crowded
    assert len(runs) == 1


def test_nothing_runs_where_no_run_is_allowed(crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_module, "run_of", None)
    assert ports(crowded, 0) is crowded


def _refused(*_: object) -> OrderedTiles:
    raise DoesNotFit("act", 2, 1, "conv0")


def _as_it_is(ordered: OrderedTiles) -> Callable[..., object]:
    return lambda *_: ordered


def test_ends_where_no_other_places_are_found(crowded: OrderedTiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for placing in (_refused, _as_it_is(crowded)):
        always(monkeypatch)
        monkeypatch.setattr(ports_module, "allocate", placing)
        runs = noted(monkeypatch, iter([100]))
        assert ports(crowded, 4) is crowded
        assert len(runs) == 1
        monkeypatch.undo()
