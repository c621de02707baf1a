"""A netlist as terms: inputs that Yosys cut into pieces are given a value as whole ones are."""

from __future__ import annotations

import pytest
import z3

from tilewright.rtl.proof.netlist import NetlistRun, SymbolicNetlist

WORD = 0b10110_0110_1


@pytest.mark.parametrize("value", [WORD, z3.BitVecVal(WORD, 10)], ids=["integer", "term"])
def test_an_input_in_pieces_is_given_a_value(value: int | z3.BitVecRef) -> None:
    """A word of five bits, four, and one that is a truth value, goes into a register."""
    high, middle, low, register = z3.BitVec("high", 5), z3.BitVec("middle", 4), z3.Bool("low"), z3.BitVec("out", 10)
    word = z3.Concat(high, z3.Concat(middle, z3.If(low, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))))
    leaves = (high, middle, low, register)
    hardware = SymbolicNetlist(leaves, {register: word}, z3.BoolVal(True), {"word": word, "out": register})
    assert z3.simplify(NetlistRun(hardware, {("word", 0): value}).at("out", 1)).as_long() == WORD


def test_a_run_with_one_more_fixed_net_is_one_that_was_made_with_it() -> None:
    """Two registers: a total of an input, and the total of the cycle before. The first run has looked at all cycles."""
    given, total, before = (z3.BitVec(name, 8) for name in ("given", "total", "before"))
    after = {total: total + given, before: total}
    nets = {"given": given, "total": total, "before": before}
    hardware = SymbolicNetlist((given, total, before), after, z3.BoolVal(True), nets)
    first = NetlistRun(hardware, {("given", 1): 7})
    asked = [(name, cycle) for name in nets for cycle in range(5)]
    unlike = {(name, cycle): first.at(name, cycle) for name, cycle in asked}
    more = first.with_fixed("total", 3, z3.BitVec("any number", 8))
    anew = NetlistRun(hardware, {("given", 1): 7, ("total", 3): z3.BitVec("any number", 8)})
    for name, cycle in asked:
        assert more.at(name, cycle).eq(anew.at(name, cycle)), (name, cycle)
        assert more.at(name, cycle).eq(unlike[name, cycle]) == (
            (name, cycle) not in {("total", 3), ("total", 4), ("before", 4)}
        )
