"""Valid programs that the targets change: random ones on several machines, and a small compiled network."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.compiler.models import gemm_model, residual_model
from tests.generators import random_program
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles

RANDOM = (("tiny8", 0), ("tiny8", 1), ("rect", 2), ("vector16", 3), ("vta16", 4), ("wide32", 5))
"""Machines and seeds."""

NAMES = (*(f"{machine} {seed}" for machine, seed in RANDOM), "residual", "gemm")


@cache
def valid_program(name: str) -> Program:
    """The program of one of NAMES."""
    rng = np.random.default_rng(7)
    match name:
        case "residual":
            return compile_model(residual_model(rng, 6, 4), load_machine("tiny8"))
        case "gemm":
            return compile_model(gemm_model(rng, 3, 20, 17), load_machine("vector16"))
        case _:
            machine, _, seed = name.partition(" ")
            return random_program(load_machine(machine), np.random.default_rng(int(seed)), 6, max_iterations=16)


@cache
def prepare_programs() -> None:
    """Make all of them, and compile the cycle model."""
    for name in NAMES:
        program = valid_program(name)
    simulate_cycles(program, place_regions(program.limits))
