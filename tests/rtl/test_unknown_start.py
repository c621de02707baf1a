"""Hardware whose every register and memory is unknown at first runs programs, also after a reset in the middle."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.generators import random_dram, random_program
from tests.pipelines import ALL_STAGES
from tests.rtl.four_state import run_from_unknown, without_initial_values
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.values import simulate_values

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("stages", [0, 1])
def test_a_random_program_leaves_the_bytes_of_the_simulator(resets: bool, stages: int, tmp_path: Path) -> None:
    keys = [f"pipeline.{key}={stages}" for key in ALL_STAGES]
    machine, rng = load_machine("tiny8", [*SMALL, *keys]), np.random.default_rng(3)
    program = random_program(machine, rng, 24)
    dram, bases = random_dram(program, rng), place_regions(program.limits)
    printed, after = run_from_unknown(tmp_path, machine, program, dram, bases, resets)
    assert printed[-1] == "done 1, 0 cycles with unknown pins", printed
    assert printed[:-1] == [] or (resets and printed[0].startswith("reset with "))
    expected = simulate_values(program, dram, bases).dram
    assert after is not None and np.flatnonzero(after[: expected.size] != expected).tolist() == []


def test_nothing_keeps_an_initial_value() -> None:
    text = "  reg a;\n  initial a = 1'h1;\n  initial for (r = 0; r < 2; r = r + 1)\n    m[r] = 3'h0;\n  wire b;\n"
    assert without_initial_values(text) == "  reg a;\n  wire b;\n"
