"""Every operation that its row says is in the vector datapath has hardware there, once."""

from __future__ import annotations

import pytest

from tilewright.isa.language.facts import Circuit, Kind
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op, combining
from tilewright.isa.timing import CIRCUIT_STAGES
from tilewright.rtl.operators import COMBINATIONAL, SEQUENTIAL


def test_each_operation_of_a_lane_is_in_one_table() -> None:
    """Wires are in `_Lane.value` of the datapath, tables are lookups in a memory."""
    built = [
        op.value
        for op in Op
        if op.facts.kind is Kind.LANE and op.facts.circuit not in (Circuit.WIRES, Circuit.TABLE)
    ]

    assert sorted(built) == sorted(op.value for op in (*COMBINATIONAL, *SEQUENTIAL))


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS | ACROSS_LANES, key=lambda op: op.value))
def test_what_a_reduction_combines_with_takes_one_step(reduction: Op) -> None:
    assert combining(reduction) in COMBINATIONAL
    assert combining(reduction).facts.circuit is Circuit.STEP


def test_what_has_no_registers_inside_takes_one_step() -> None:
    assert {CIRCUIT_STAGES[op.facts.circuit] for op in COMBINATIONAL} == {1}
