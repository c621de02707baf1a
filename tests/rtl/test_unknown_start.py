"""Hardware whose every register and memory is unknown at first runs programs, also after a reset in the middle."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.generators import random_dram, random_program
from tests.pipelines import ALL_STAGES
from tests.rtl.four_state import run_from_unknown, without_initial_values
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.faults import FaultCode
from tilewright.isa.program.program import place_regions
from tilewright.simulator.values import simulate_values

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")

WITH_STAGES = tuple(f"pipeline.{key}=1" for key in ALL_STAGES)

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("ends", ["", "reset", "stop"])
@pytest.mark.parametrize("keys", [(), WITH_STAGES, ("clock_gating=unit",)], ids=["plain", "stages", "gated"])
def test_a_random_program_leaves_the_bytes_of_the_simulator(ends: str, keys: Sequence[str], tmp_path: Path) -> None:
    machine, rng = load_machine("tiny8", [*SMALL, *keys]), np.random.default_rng(3)
    program = random_program(machine, rng, 24)
    dram, bases = random_dram(program, rng), place_regions(program.limits)
    printed, after = run_from_unknown(tmp_path, machine, program, dram, bases, ends)
    assert printed[-1] == "done 1, 0 cycles with unknown pins", printed
    match ends:
        case "reset":
            assert [line.startswith("reset with ") for line in printed[:-1]] == [True]
        case "stop":
            assert printed[:-1] == [f"stopped with fault {FaultCode.STOPPED:d}, 0 bursts open"]
        case _:
            assert printed[:-1] == []
    expected = simulate_values(program, dram, bases).dram
    assert after is not None and np.flatnonzero(after[: expected.size] != expected).tolist() == []


def test_nothing_keeps_an_initial_value() -> None:
    text = "  reg a;\n  initial a = 1'h1;\n  initial for (r = 0; r < 2; r = r + 1)\n    m[r] = 3'h0;\n  wire b;\n"
    assert without_initial_values(text) == "  reg a;\n  wire b;\n"
