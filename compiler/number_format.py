"""How wide a machine's requantisation is: the widths of its multipliers, shifts and biases, read off its statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isa.machine import Machine
from isa.numeric import MAX_INTEGER_BITS, Rounding
from isa.statement import Expr, Op, walk

LEAVES = (Op.SOURCE, Op.IMMEDIATE)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """What every requantising instruction of a machine can hold; constants are quantised to this.

    `scale_bits` are of a non-negative multiplier: a normalised one is in [2**(scale_bits - 1), 2**scale_bits).
    `shift_bits` are of a shift count, `bias_bits` of a signed bias.
    """

    scale_bits: int
    shift_bits: int
    bias_bits: int
    rounding: Rounding

    @property
    def max_shift(self) -> int:
        return min((1 << self.shift_bits) - 1, MAX_INTEGER_BITS - 1)


def number_format(machine: Machine) -> NumberFormat:
    """The narrowest widths over all vector statements of the form `round_shift((… + bias) * scale + …, shift)`.

    What no statement has takes the width of the array's sums: selection finds nothing to compute it with, and says so.
    """
    sums = max(
        (f.destination.element.bits for f in machine.formats.values() if f.engine == "mma"), default=MAX_INTEGER_BITS
    )
    scales, shifts, biases = [sums], [MAX_INTEGER_BITS.bit_length()], [sums]
    for of in machine.formats_of("vec"):
        for rounded in _nodes(of.statement.expr, Op.ROUND_SHIFT):
            value, count = rounded.args
            products = [product for product in walk(value) if product.op is Op.MUL]
            shifts += [count.range.high.bit_length()] if count.op in LEAVES else []
            scales += [
                leaf.range.high.bit_length() for product in products for leaf in _leaves(product) if leaf.range.low == 0
            ]
            biases += [min(leaf.range.bits for leaf in leaves) for product in products for leaves in _sums(product)]
    return NumberFormat(min(scales), min(shifts), min(biases), machine.rounding)


def _nodes(expr: Expr, op: Op) -> Iterator[Expr]:
    return (node for node in walk(expr) if node.op is op)


def _leaves(expr: Expr) -> list[Expr]:
    return [arg for arg in expr.args if arg.op in LEAVES]


def _sums(product: Expr) -> Iterator[list[Expr]]:
    """The operands of each `a + bias` that is multiplied."""
    for arg in product.args:
        if arg.op is Op.ADD and len(_leaves(arg)) == 2:
            yield _leaves(arg)
