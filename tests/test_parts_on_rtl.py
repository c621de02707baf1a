"""Vector engines with fewer lanes than a word has elements: the simulator is the hardware, in every byte and cycle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder
from tests.parts import PARTS
from tests.test_simulator_equals_rtl import assert_equal, random_jobs
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.engine import Template
from tilewright.isa.program.program import place_regions

SMALL = ["array.rows=4", "array.cols=4", "lanes=4", "engines.norm.lanes=2", "dram.bus_bytes=4"]


@pytest.mark.slow
def test_random_programs_in_parts_of_words() -> None:
    """Three parts; each statement of the machine is in some of the programs."""
    machine, seeds = load_machine_text(PARTS, "parts"), range(24)
    jobs = random_jobs(machine, seeds, 24)
    used = {instruction.format.mnemonic for program, *_ in jobs for instruction in program.instructions}

    assert {format.mnemonic for format in machine.formats_of(Template.VECTOR)} <= used
    assert_equal(machine, jobs, seeds)


@pytest.mark.slow
def test_a_wide_and_a_narrow_engine() -> None:
    """Random programs, and a network that uses both: a sum, and a softmax of it."""
    machine, seeds = load_machine("wide-narrow", SMALL), range(12)
    rng = np.random.default_rng(0)
    builder = ModelBuilder(rng)
    x = builder.quantize(builder.input("x", (1, 10, 3, 3)), 0.1, 3, name="x.q")
    twice = builder.quantize(builder.node("Add", [x, x], name="add"), 0.2, 3, name="add.q")
    y = builder.node("Softmax", [twice], name="softmax", axis=1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    program = compile_model(builder.build("softmax"), machine)
    used = {instruction.engine.name for instruction in program.instructions}
    dram = dram_image(program, {"x": rng.normal(0, 3, (1, 10, 3, 3)).astype(np.float32)})

    assert {"vec", "norm"} <= used
    jobs = [*random_jobs(machine, seeds, 24), (program, dram, place_regions(program.limits))]
    assert_equal(machine, jobs, [*seeds, "softmax"])
