"""Floating types from statement to hardware: the interpreter, the simulator, the hardware and the proofs agree."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.sim import Simulator

from tests.float_machine import FLOATS
from tests.test_random_programs import check_checker, check_executors
from tests.test_simulator_equals_rtl import assert_equal, random_jobs
from tilewright.isa.assembly.assembler import AssemblyError, assemble
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.language.expressions import Expr, make
from tilewright.isa.language.numeric import FLOAT_TYPES, FloatType, Interval, nearest_code, steps
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.timing import operator_stages
from tilewright.rtl.float_codes import build_nearest
from tilewright.rtl.float_codes import steps as hardware_steps
from tilewright.rtl.proof.all import datapath_proofs
from tilewright.rtl.proof.array import array, reduced_arrays
from tilewright.rtl.proof.mma import mma_engine

TYPES = list(FLOAT_TYPES.values())


def machine() -> Machine:
    return load_machine_text(FLOATS, "floats.yaml")


def test_the_simulator_is_the_interpreter_and_the_checker_is_brute_force() -> None:
    check_executors(machine(), 1, 10)
    assert check_checker(machine(), 1)


@pytest.mark.slow
def test_the_simulator_is_the_hardware() -> None:
    assert_equal(machine(), random_jobs(machine(), range(12), 30), range(12))


@pytest.mark.long
def test_the_datapath_is_proved() -> None:
    refuted = [(proof.claim, proof.counterexample) for _, proof in datapath_proofs([machine()]) if not proof.holds]
    assert refuted == []


@pytest.mark.long
def test_arrays_are_proved() -> None:
    floats = machine()
    (engine,) = floats.of(Template.SYSTOLIC)
    subjects = [*(array(*shape) for shape in reduced_arrays(floats)), mma_engine(floats, engine)]
    refuted = [(each.claim, each.counterexample) for of in subjects for each in of.proofs() if not each.holds]
    assert refuted == []


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_hardware_gives_the_steps_of_every_code(of: FloatType) -> None:
    m, code = Module(), Signal(of.bits)
    number = Signal(signed(of.values.bits))
    m.d.comb += number.eq(hardware_steps(code, of))
    found = []

    async def bench(ctx) -> None:  # type: ignore[no-untyped-def]
        for each in range(of.count):
            ctx.set(code, each)
            found.append(ctx.get(number))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == steps(np.arange(of.count), of).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("of", TYPES, ids=str)
def test_hardware_gives_the_nearest_code_at_every_tie_and_beyond(of: FloatType) -> None:
    """A new number in each cycle: all ties, what is beside them, and numbers of all sizes, for counts from 0 to 63."""
    rng = np.random.default_rng(1)
    ties = steps(np.arange(of.greatest), of) + steps(np.arange(1, of.greatest + 1), of)
    counts = np.arange(1, 30)
    near = (ties[:, None] << (counts - 1)).ravel()[:: 3 if of.name == "e4m3" else 1]
    beside = np.concatenate([near + by for by in (-1, 0, 1)])
    any_size = rng.integers(-(1 << 50), 1 << 50, 400) >> rng.integers(0, 50, 400)
    x = np.concatenate([beside, -beside, any_size])
    n = np.concatenate([np.resize(np.resize(counts, near.size), beside.size * 2), rng.integers(0, 64, 400)])
    sources = Expr(Op.SOURCE, Interval(-(1 << 50), 1 << 50), name="x"), Expr(Op.SOURCE, Interval(0, 63), name="n")
    m = Module()
    number, count, code = Signal(signed(52)), Signal(unsigned(6)), Signal(of.bits)
    node = make(Op.NEAREST, *sources, type=of)
    build_nearest(m, number, count, node, code, operator_stages(node, Pipeline()))
    found = []

    async def bench(ctx) -> None:  # type: ignore[no-untyped-def]
        for each, by in zip(x.tolist(), n.tolist(), strict=True):
            ctx.set(number, each)
            ctx.set(count, by)
            await ctx.tick()
            found.append(ctx.get(code))

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found[3:] == nearest_code(x, n, of).tolist()[: len(found) - 3]


def test_data_are_numbers_of_the_type() -> None:
    """0.5 = 8 · 2^3 steps of 2^-9 is code 6 · 8; -448 is the greatest with a sign; 2^-9 is a step."""
    assert assemble(".e4m3 0.5, -448 x 2, 0, 0.001953125\n.e2m1 -1.5 x 2\n", machine()).weights.hex() == "30fefe0001bb"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (".e4m3 0.3", "1:7: e4m3: 0.3 is no number of e4m3; the nearest is 0.3125"),
        (".e4m3 449", "1:7: e4m3: 449 is no number of e4m3; the nearest is 448"),
        (".e4m3 nan", "1:7: e4m3: expected a number, not 'nan'"),
        (
            ".e2m1 1.5",
            "1:10: 1 of e2m1; expected a multiple of 2, which fills whole bytes, such as `1.5 x 2`; or use .hex",
        ),
    ],
)
def test_data_that_the_type_does_not_have_are_refused(line: str, fault: str) -> None:
    with pytest.raises(AssemblyError) as error:
        assemble(line, machine(), "net.s")
    assert list(error.value.complaints) == [f"net.s:{fault}"]
