"""The order of stages: what overlaps, and what never passes what."""

from __future__ import annotations

from tilewright.compiler.tile.program import TileOperation
from tilewright.compiler.tiling.stage import Stage, one_by_one, pipelined


def operation(name: str) -> TileOperation:
    return TileOperation(name, {}, {}, 0)


def stage(number: int) -> Stage:
    return Stage(*([operation(f"{kind}{number}")] for kind in ("early", "product", "late", "rest")))


def names(operations: object) -> list[str]:
    return [op.mnemonic for op in operations]  # type: ignore[attr-defined]


def test_brings_the_next_tile_before_this_one_is_computed() -> None:
    assert names(pipelined([stage(0), stage(1), stage(2)])) == [
        "early0", "late0", "early1", "product0", "late1", "early2", "product1", "rest0", "late2", "product2", "rest1",
        "rest2",
    ]  # fmt: skip


def test_finishes_a_tile_before_the_next_begins() -> None:
    assert names(one_by_one([stage(0), stage(1)])) == [
        "early0", "product0", "late0", "rest0", "early1", "product1", "late1", "rest1",
    ]  # fmt: skip
