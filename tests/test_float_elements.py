"""What docs/types.md says of elements that multiply floats is what its command prints; these elements are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tests.float_elements import E2M1, E4M3, E5M2, Element, rows
from tests.types import tables
from tilewright.isa.language.numeric import FloatType, steps


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints() -> None:
    assert [*rows()] in tables()


@pytest.mark.parametrize(
    "types", [(E5M2, E5M2), (E4M3, E5M2), (E2M1, E2M1)], ids=lambda types: " ".join(map(str, types))
)
def test_an_element_adds_the_exact_product(types: tuple[FloatType, FloatType]) -> None:
    """Numbers of all sizes, the greatest among them. Codes of NaN never come here: the array makes them zeros."""
    element, found = Element(*types), []
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, of.greatest + 1, 40) | rng.integers(0, 2, 40) << of.sign_bit for of in types]
    for each, of in zip(codes, types, strict=True):
        each[:2] = of.greatest
    above = [int(each) for each in rng.integers(-(1 << 12), 1 << 12, 40)]

    async def bench(ctx: Any) -> None:
        for a, w, before in zip(*codes, above, strict=True):
            ctx.set(element.activation, int(a))
            ctx.set(element.weight, int(w))
            ctx.set(element.above, before)
            for load, swap in ((1, 0), (0, 1), (0, 0)):
                ctx.set(element.load, load)
                ctx.set(element.swap, swap)
                await ctx.tick()
            found.append(ctx.get(element.sum))

    simulator = Simulator(element)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    numbers = [steps(each, of).tolist() for each, of in zip(codes, types, strict=True)]
    assert found == [before + a * w for a, w, before in zip(*numbers, above, strict=True)]
