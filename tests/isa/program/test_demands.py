"""What a run takes, as it is computed beforehand, is no less than what it takes indeed."""

import tracemalloc

import numpy as np
import pytest

from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.budgets import Budgets, OverBudget
from tilewright.isa.program.demands import are_apart, require_within
from tilewright.program import Program

BASE16 = load_machine("base16")

PROGRAMS = {
    "regions": ".workspace 40000000\n.outputs 20000000\nload_act d=workspace[0] y=act[0]",
    "an output": ".outputs 4000000\n.output y shape(1, 16, 500, 500) dtype=float32 scale=0.5 zero_point=0 offset=0",
    "an input": ".inputs 4000000\n.input x shape(1, 16, 500, 500) dtype=float32 scale=0.5 zero_point=0 offset=0",
    "the same word again and again": "copy loops(j=400, k=400) a=act[0] y=act[9]",
    "words written twice": "copy loops(j=400, k=400) a=act[0; j=1, k=2] y=act[4000; j=2, k=1]",
    "bytes written twice": ".outputs 100000\nstore_act loops(j=100, k=400) y=act[0; k=1] d=outputs[0; j=16, k=8]",
    "sums": "mma loops(n=2, k=8, y=20, x=20) a=act[0; y=20, x=1] w=wgt[0; k=16] c=acc[0; n=400, y=20, x=1]",
    "lookups": "lookup loops(j=100, k=400) a=act[0; j=1, k=2] t=lut[0] y=act[5000; k=1]",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_run_takes_no_more_memory_than_is_computed(what: str) -> None:
    program = assemble(PROGRAMS[what], BASE16)
    with pytest.raises(OverBudget) as refused:
        require_within([program], Budgets(memory=0))
    runner = Program(program)
    inputs = {tensor.name: np.ones(tensor.shape, tensor.dtype) for tensor in program.inputs}
    runner.profile(unchecked=True)  # compiles the cycle model, which is no matter of this program
    runner = Program(program)
    tracemalloc.start()
    try:
        runner.run(inputs, unchecked=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= refused.value.asked + (1 << 20)


@pytest.mark.parametrize(
    ("steps", "taken", "expected"),
    [
        ([(1, 4)], 1, True),
        ([(1, 4)], 2, False),
        ([(0, 1), (0, 1)], 5, True),
        ([(0, 2)], 1, False),
        ([(100, 3), (1, 100)], 1, True),
        ([(99, 3), (1, 100)], 1, False),
        ([(-3, 4), (1, 3)], 1, True),
    ],
)
def test_sees_that_places_are_apart(steps: list[tuple[int, int]], taken: int, expected: bool) -> None:
    assert are_apart(steps, taken) is expected
