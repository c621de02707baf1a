"""The tree across lanes against Python's sum and max."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from amaranth.hdl import signed

from tests.rtl.benches import simulate
from tilewright.isa.language.operations import Op
from tilewright.rtl.lane_tree import LaneTree

PYTHON: Mapping[Op, Callable[[list[int]], int]] = {Op.LANES_SUM: sum, Op.LANES_MAX: max}


@pytest.mark.parametrize("op", PYTHON)
@pytest.mark.parametrize(("lanes", "stages"), [(1, 1), (2, 1), (3, 2), (7, 3), (8, 3), (8, 5)])
def test_gives_the_reduction_of_as_many_cycles_ago_as_it_has_stages(op: Op, lanes: int, stages: int) -> None:
    tree, seed = LaneTree(op, lanes, stages, signed(6), signed(10)), random.Random(lanes)
    inputs = [[seed.choice([-32, 31, seed.randint(-32, 31)]) for _ in range(lanes)] for _ in range(50)]

    async def bench(ctx: Any) -> None:
        for cycle, values in enumerate(inputs):
            for position, value in enumerate(values):
                ctx.set(tree.values[position], value)
            await ctx.tick()
            if cycle + 1 >= stages:
                assert ctx.get(tree.result) == PYTHON[op](inputs[cycle + 1 - stages])

    simulate(tree, bench)
