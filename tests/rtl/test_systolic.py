"""The array against numpy's matrix product."""

import random
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tilewright.isa.language.numeric import IntegerType
from tilewright.rtl.systolic import SystolicArray


def random_matrix(type_: IntegerType, shape: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """Values of a type, its extremes among them."""
    low, high = type_.interval.low, type_.interval.high
    values = generator.integers(low, high, shape, endpoint=True)
    return np.where(generator.random(shape) < 0.3, generator.choice([low, high], shape), values)


@pytest.mark.parametrize("is_packed", [True, False], ids=["back to back", "with gaps"])
@pytest.mark.parametrize("types", ["int8 int8", "uint8 int8", "int4 uint6"])
@pytest.mark.parametrize(
    ("rows", "cols", "can_transpose", "product_registers"),
    [
        (2, 2, False, 0),
        (3, 5, False, 0),
        (8, 4, False, 0),
        (1, 3, False, 1),
        (4, 1, False, 0),
        (1, 1, True, 0),
        (2, 2, True, 0),
        (5, 5, True, 1),
    ],
)
def test_multiplies_tiles(
    rows: int, cols: int, can_transpose: bool, product_registers: int, types: str, is_packed: bool
) -> None:
    a, w = (IntegerType(int(name.split("int")[1]), not name.startswith("u")) for name in types.split())
    seed, generator = random.Random(rows * 100 + cols), np.random.default_rng(rows * 100 + cols)
    array = SystolicArray(rows, cols, a, w, can_transpose, product_registers)

    assert array.latency == rows + cols + product_registers
    row_at: dict[int, tuple[list[int], bool, bool]] = {}  # cycle → weight row, is it a tile's first, of a transpose
    vector_at: dict[int, tuple[list[int], bool]] = {}
    expected: dict[int, list[int]] = {}
    next_row = next_vector = 0
    for number in range(8):
        is_transposed = can_transpose and (number < 2 or seed.random() < 0.5)
        tile = random_matrix(w, (rows, cols), generator)
        count = seed.randint(1, 2 * rows + 2)
        for r in range(rows):
            row_at[next_row + r] = tile[r].tolist(), r == 0, is_transposed if r == 0 else seed.random() < 0.5
        next_vector = max(next_vector, next_row + SystolicArray.WEIGHT_LEAD)
        for v, vector in enumerate(random_matrix(a, (count, rows), generator)):
            next_vector += 0 if is_packed else seed.choice([0, 0, 1, 3])
            vector_at[next_vector] = vector.tolist(), v == 0
            expected[next_vector + array.latency] = (vector @ (tile.T if is_transposed else tile)).tolist()
            if v == 0:
                next_row = max(next_row + rows, next_vector + 1)
            next_vector += 1

    async def bench(ctx: Any) -> None:
        for cycle in range(max(expected) + 1):
            row, is_first_row, is_transposed = row_at.get(cycle, ([w.interval.high] * cols, False, True))
            vector, is_first = vector_at.get(cycle, ([a.interval.high] * rows, False))
            ctx.set(array.weights, row)
            ctx.set(array.loads, is_first_row)
            if can_transpose:
                ctx.set(array.transposes, is_transposed)
            ctx.set(array.vector, vector)
            ctx.set(array.is_first, is_first)
            if cycle in expected:
                assert [ctx.get(array.sums[c]) for c in range(cols)] == expected[cycle], f"cycle {cycle}"
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
