"""Averages by an instruction that sums: the same bits as by products with an identity matrix, where it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler.machines import without
from tests.compiler.models import pool_model, random_inputs
from tests.compiler.pipelines import base16, distances, simulated
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

SUM = (
    "  window_sum:",
    "    engine: vec",
    "    loops: {c: 8, y: 10, x: 10, r: 3, s: 3}",
    "    reduce: [r, s]",
    "    from: {a: act}",
    "    to: {y: 'acc[c, y, x]'}",
    "    do: y = sum(a)",
)

POOLS: Mapping[str, dict[str, Any]] = {
    "global": {"op_type": "GlobalAveragePool", "channels": 20, "size": (7, 5)},
    "windows": {"op_type": "AveragePool", "channels": 20, "size": 9, "kernel": 3, "stride": 2},
    "padding": {"op_type": "AveragePool", "size": 8, "kernel": 3, "stride": 1, "pads": [1, 1, 1, 1]},
    "padding counted": {
        "op_type": "AveragePool", "size": 8, "kernel": 3, "stride": 1, "pads": [1, 1, 1, 1], "count_include_pad": 1,
        "activation": np.uint8,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, Machine]:
    """One that sums windows of up to 8×8, and the same without."""
    path = tmp_path_factory.mktemp("machines") / "summing.yaml"
    path.write_text("\n".join(["extends: base16", "instructions:", *SUM]))
    sums = [name for name, of in base16().formats.items() if of.statement.text.strip() == "y = sum(a)"]
    summing = without(load_machine(str(path), ["engines.vec.writes=[act, acc]"]), *sums)
    return summing, without(summing, "window_sum")


@pytest.mark.parametrize("name", POOLS)
def test_is_the_same_as_a_product(name: str, machines: tuple[Machine, Machine]) -> None:
    model = pool_model(np.random.default_rng(1), same_scale=False, **POOLS[name])
    summing, multiplying = (compile_model(model, machine) for machine in machines)
    assert "window_sum" in {i.mnemonic for i in summing.instructions}
    assert "mma" not in {i.mnemonic for i in summing.instructions}
    inputs = random_inputs(model, np.random.default_rng(2))
    results = [simulated(program, inputs)["result"] for program in (summing, multiplying)]
    np.testing.assert_array_equal(*results)
    assert distances(model, lambda inputs: simulated(summing, inputs)).max() <= 1


def test_a_window_that_the_loops_do_not_hold_stays_a_product(machines: tuple[Machine, Machine]) -> None:
    """Nothing adds the sums of its parts."""
    model = pool_model(np.random.default_rng(1), "GlobalAveragePool", 20, (9, 9))
    mnemonics = {i.mnemonic for i in compile_model(model, without(machines[0], "add_sums")).instructions}
    assert "mma" in mnemonics and "window_sum" not in mnemonics
