"""Sums over windows that fit no tile or no loops: in parts, with the bits of products with an identity matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler.machines import without
from tests.compiler.models import pool_model, random_inputs
from tests.compiler.pipelines import distances, simulated
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

POOLS: Mapping[str, dict[str, Any]] = {
    "an image": {"op_type": "GlobalAveragePool", "channels": 20, "size": (20, 23)},
    "one row": {"op_type": "GlobalAveragePool", "size": (1, 700)},
    "one column": {"op_type": "GlobalAveragePool", "size": (700, 1), "activation": np.uint8},
    "windows": {"op_type": "AveragePool", "size": 24, "kernel": 20, "stride": 3},
    "padding": {"op_type": "AveragePool", "size": 20, "kernel": 19, "stride": 2, "pads": [3, 2, 1, 0]},
    "padding counted": {
        "op_type": "AveragePool", "size": 18, "kernel": 20, "stride": 2, "pads": [3, 2, 1, 3], "count_include_pad": 1,
        "activation": np.uint8,
    },
}  # fmt: skip


def small(kib: int = 4) -> Machine:
    """base16 with 256 words of activations, or as many as wanted."""
    return load_machine("base16", [f"memories.act.kib={kib}"])


def quickly(model: Any, machine: Machine) -> Program:
    return compile_model(model, machine, Options(effort=0))


@pytest.mark.parametrize("name", POOLS)
def test_is_the_same_as_a_product(name: str) -> None:
    model = pool_model(np.random.default_rng(1), same_scale=False, **POOLS[name])
    in_parts, as_product = quickly(model, small()), quickly(model, without(small(64), "sum"))
    assert "sum" in {i.mnemonic for i in in_parts.instructions}
    assert "mma" not in {i.mnemonic for i in in_parts.instructions}
    inputs = random_inputs(model, np.random.default_rng(2))
    results = [simulated(program, inputs)["result"] for program in (in_parts, as_product)]
    np.testing.assert_array_equal(*results)
    assert distances(model, lambda inputs: simulated(in_parts, inputs)).max() <= 1


def test_a_larger_window_takes_as_many_cycles_as_it_has_pixels() -> None:
    """The memory has 4,096 words: the first window fits beside its result, the second fits alone, the others do not."""
    cycles = [
        exact_cycles(quickly(pool_model(np.random.default_rng(1), "GlobalAveragePool", 16, size), small(64)))
        for size in ((60, 68), (64, 64), (68, 64), (128, 64))
    ]
    assert cycles == sorted(cycles)
    assert cycles[-1] <= 2 * cycles[0]


def test_of_parts_that_nothing_adds_stays_a_product() -> None:
    model = pool_model(np.random.default_rng(1), "GlobalAveragePool", 16, (20, 23))
    program = quickly(model, without(small(), "add_sums"))
    assert "mma" in {i.mnemonic for i in program.instructions} and "sum" not in {
        i.mnemonic for i in program.instructions
    }
