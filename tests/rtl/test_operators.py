"""Every operation that its row says is in the vector datapath has hardware there, once."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Module, Shape, Signal, signed, unsigned
from amaranth.sim import Simulator

from tilewright.isa.language.facts import Circuit, Kind
from tilewright.isa.language.operations import Op, combining
from tilewright.isa.timing import CIRCUIT_STAGES
from tilewright.rtl.operators import COMBINATIONAL, SEQUENTIAL
from tilewright.rtl.shifts import leading_zeros


def test_each_operation_of_a_lane_is_in_one_table() -> None:
    """Wires are in `_Lane.value` of the datapath, tables are lookups in a memory."""
    built = [
        op.value
        for op in Op
        if op.facts.kind in (Kind.LANE, Kind.WORDS) and op.facts.circuit not in (Circuit.WIRES, Circuit.TABLE)
    ]

    assert sorted(built) == sorted(op.value for op in (*COMBINATIONAL, *SEQUENTIAL))


@pytest.mark.parametrize("reduction", [op for op in Op if op.facts.combines])
def test_what_a_reduction_combines_with_takes_one_step(reduction: Op) -> None:
    assert combining(reduction) in COMBINATIONAL
    assert combining(reduction).facts.circuit is Circuit.STEP


def test_what_has_no_registers_inside_takes_one_step() -> None:
    assert {CIRCUIT_STAGES[op.facts.circuit] for op in COMBINATIONAL} == {1}


@pytest.mark.parametrize("shape", [unsigned(1), unsigned(5), unsigned(8), signed(2), signed(7), signed(8)], ids=str)
def test_counts_the_leading_zeros_of_every_value(shape: Shape) -> None:
    """As text: the 64 digits of the word, without those from the first 1 on."""
    m = Module()
    x, count = Signal(shape), Signal(7)
    m.d.comb += count.eq(leading_zeros(x))
    low = -(1 << (shape.width - 1)) if shape.signed else 0

    async def bench(ctx: Any) -> None:
        for value in range(low, low + (1 << shape.width)):
            ctx.set(x, value)
            word = f"{value % (1 << 64):064b}"
            assert ctx.get(count) == len(word.partition("1")[0]), value

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
