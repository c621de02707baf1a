"""Stages: how they overlap; of tiles that arrays share, whose turn it is, and where each begins."""

from __future__ import annotations

from tests.twins import arrays
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation
from tilewright.compiler.tiling.stage import Stage, interleaved, one_by_one, pipelined


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


BUFFERS = {
    name: TileBuffer(name, place, 4)
    for name, place in [
        ("tensor", "act"),
        ("data", "weights"),
        *((f"box{n}", "act") for n in range(8)),
        *((f"w{n}", "wgt") for n in range(8)),
        *((f"sums{n}", "acc") for n in range(8)),
    ]
}


def on_buffers(mnemonic: str, accumulate: int = 0, **bases: str) -> TileOperation:
    fields = {"accumulate": accumulate} if mnemonic == "mma" else {}
    return TileOperation(mnemonic, fields, {operand: BufferAddress(name, 0) for operand, name in bases.items()}, 0)


def partial_sum(weights: str, sums: str, loads: bool = True, adds: int = 0, ends: bool = True) -> Stage:
    """A partial sum: its weights, if they are not there yet, its product, and what becomes of the sums."""
    early = [on_buffers("load_wgt", d="data", y=weights)] if loads else []
    rest = [on_buffers("requantize", a=sums, y="tensor")] if ends else []
    return Stage(early, [on_buffers("mma", adds, a="tensor", w=weights, c=sums)], [], rest)


def sums_of(stages: object) -> list[str]:
    return [each.products[0].bases["c"].buffer for each in stages]  # type: ignore[attr-defined]


def weights_of(stages: object) -> list[tuple[str, int]]:
    found = [each.products[0] for each in stages]  # type: ignore[attr-defined]
    return [(product.bases["w"].buffer, product.fields["accumulate"]) for product in found]


EIGHT = [partial_sum(f"w{n}", f"sums{n}") for n in range(8)]


def test_each_array_gets_tiles_that_follow_each_other() -> None:
    assert sums_of(interleaved(EIGHT, arrays(2), BUFFERS)) == [f"sums{n}" for n in (0, 4, 1, 5, 2, 6, 3, 7)]
    assert sums_of(interleaved(EIGHT, arrays(4), BUFFERS)) == [f"sums{n}" for n in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert sums_of(interleaved(EIGHT[:3], arrays(2), BUFFERS)) == ["sums0", "sums2", "sums1"]


def test_one_array_takes_tiles_as_they_come() -> None:
    assert interleaved(EIGHT, arrays(1), BUFFERS) is EIGHT


def test_the_partial_sums_of_a_tile_stay_together_and_begin_elsewhere_on_the_second_array() -> None:
    tiles = [
        [partial_sum("w0", sums, ends=False), partial_sum("w1", sums, adds=1, ends=False),
         partial_sum("w2", sums, adds=1, ends=False), partial_sum("w3", sums, adds=1)]
        for sums in ("sums0", "sums1")
    ]  # fmt: skip
    for part, weights in zip(tiles[1], ("w4", "w5", "w6", "w7"), strict=True):
        part.early = [on_buffers("load_wgt", d="data", y=weights)]
        part.products = [part.products[0]._replace(bases={**part.products[0].bases, "w": BufferAddress(weights, 0)})]
    found = interleaved([*tiles[0], *tiles[1]], arrays(2), BUFFERS)

    assert sums_of(found) == ["sums0"] * 4 + ["sums1"] * 4
    assert weights_of(found) == [
        ("w0", 0), ("w1", 1), ("w2", 1), ("w3", 1), ("w6", 0), ("w7", 1), ("w4", 1), ("w5", 1),
    ]  # fmt: skip
    assert [len(each.rest) for each in found] == [0, 0, 0, 1, 0, 0, 0, 1]


def test_no_tile_comes_before_the_one_that_loads_its_weights() -> None:
    """The third tile loads what the last one reads, and would come behind it: 0 3 1 4 2 5."""
    stages = [partial_sum(f"w{n}", f"sums{n}") for n in range(6)]
    stages[3] = partial_sum("w2", "sums3", loads=False)

    assert interleaved(stages, arrays(2), BUFFERS) == stages


def test_tiles_that_bring_much_to_a_memory_that_arrays_share_keep_their_order() -> None:
    large = {**BUFFERS, **{f"box{n}": TileBuffer(f"box{n}", "act", 256) for n in range(8)}}
    stages = [
        Stage([on_buffers("load_act", d="data", y=f"box{n}")], [on_buffers("mma", a=f"box{n}", w="w0", c=f"sums{n}")])
        for n in range(8)
    ]

    assert interleaved(stages, arrays(2), large) is stages
    assert sums_of(interleaved(stages, arrays(2), BUFFERS)) != sums_of(stages)
