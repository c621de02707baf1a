"""Cycles that no program for a machine goes below."""

from __future__ import annotations

from tilewright.codesign.bounds.needs import Needs
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Systolic, Vector
from tilewright.isa.machine.machine import Machine


def least_cycles(needs: Needs, machine: Machine) -> int:
    """A lower bound of the cycles of a network on a machine, if no node of it runs on the host."""
    engines = products_a_cycle(machine)
    beats = -(-needs.weight_bytes // machine.dram.bus_bytes)
    return max(-(-needs.products // engines) if engines else 0, beats)


def products_a_cycle(machine: Machine) -> int:
    """The most products that all engines together can do in a cycle, one with a weight of 1 included."""
    total = 0
    for engine in machine.engines.values():
        own = machine.formats_of(engine)
        match engine.settings:
            case Systolic(rows, cols) if own:
                total += rows * cols
            case Vector(lanes) if own:
                total += lanes * max(terms(format.statement.expr)[0] for format in own)
            case _:
                pass  # it moves, or does nothing
    return total


def terms(expr: Expr) -> tuple[int, int]:
    """How many terms the sum has that an expression is when multiplied out: those with an operand, and the others.

    Each of the former may be a product of a network. `(a + p.bias) * p.scale + zero` has 2 and 1. Of what is no sum or
    product, such as a maximum, each argument's terms count; a shift's are those of what it shifts.
    """
    match expr.op:
        case Op.SOURCE | Op.LUT:
            return 1, 0
        case Op.CONST | Op.IMMEDIATE:
            return 0, 1
        case Op.MUL:
            (a, a_others), (b, b_others) = map(terms, expr.args)
            return a * b + a * b_others + a_others * b, a_others * b_others
    found = [terms(arg) for arg in (expr.args[:1] if expr.op.facts.is_shift else expr.args)]
    return sum(own for own, _ in found), sum(others for _, others in found)
