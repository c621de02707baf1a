"""Integers for proofs about addresses and counts: bit vectors so wide that nothing wraps around."""

from __future__ import annotations

import z3

WIDTH = 80
"""The number of bits. It is more than bus addresses, offsets, sizes, counts and sums of a few of them need."""


def natural(bits: z3.BitVecRef) -> z3.BitVecRef:
    """The value of unsigned bits."""
    return z3.ZeroExt(WIDTH - bits.size(), bits)


def signed(bits: z3.BitVecRef) -> z3.BitVecRef:
    """The value of signed bits."""
    return z3.SignExt(WIDTH - bits.size(), bits)


def number(value: int) -> z3.BitVecRef:
    return z3.BitVecVal(value, WIDTH)


def one_if(claim: z3.BoolRef) -> z3.BitVecRef:
    return z3.If(claim, number(1), number(0))
