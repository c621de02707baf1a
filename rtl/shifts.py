"""Shifts to the right that keep what is needed to round, and leading zeros."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tilewright.isa.language.numeric import WORD_BITS
from tilewright.rtl.delay import delayed


def leading_zeros(x: Value) -> Value:
    """The zeros before the first 1 of `x` as a 64-bit word: those of its own bits, and those that extend it to 64."""
    own_bits = Value.cast(x)
    count = _leading_zeros(own_bits.as_unsigned()) + (WORD_BITS - len(own_bits))
    return Mux(x < 0, 0, count)


def _leading_zeros(bits: Value) -> Value:
    """A tree: the zeros of the high half, or if it has nothing else, its length and the zeros of the low half."""
    if len(bits) == 1:
        return ~bits
    low, high = bits[: len(bits) // 2], bits[len(bits) // 2 :]
    return Mux(high.any(), _leading_zeros(high), len(high) + _leading_zeros(low))


@dataclass(frozen=True, slots=True)
class Shifted:
    """x / 2**n as its low bits, the first of them below the point; `rest` is whether any bit below that is set.

    `is_outside`: it takes more bits.
    """

    low: Value
    rest: Value
    is_outside: Value


def shifted_right(m: Module, x: Value, n: Value, bits: int, name: str, registers: int = 0) -> Shifted:
    """Shift right by the bits of `n`, the highest first: then ever fewer bits of `x` can still reach the low ones.

    So many `registers` stand between the bits, at about equal distances.
    """
    sign = x[-1] if x.shape().signed else Const(0, 1)
    low: Value = Cat(Const(0, 1), x, sign)
    rest: list[Value] = []
    outside: list[Value] = []
    registers_at = [len(n) * (i + 1) // (registers + 1) for i in range(registers)]
    for level, position in enumerate(reversed(range(len(n)))):
        if here := registers_at.count(level):
            values = {"low": low, "by": n, "sign": sign, "rest": Cat(rest).any(), "outside": Cat(outside).any()}
            low, n, sign, *found = (delayed(m, v, here, f"{name}_{what}_{level}") for what, v in values.items())
            rest, outside = found[:1], found[1:]
        step = 1 << position
        needed = min(len(low), bits + step)
        rest.append(n[position] & low[:step].any())
        shifted = Mux(n[position], Cat(low, sign.replicate(step))[step:], low)
        low = Signal(len(low), name=f"{name}_shifted_{position}")  # a name, or each level would be written out twice
        m.d.comb += low.eq(shifted)
        outside.append((low[needed:] ^ sign.replicate(len(low) - needed)).any())
        low = low[:needed]
    missing = max(0, bits - len(low))
    low = Cat(low, sign.replicate(missing))
    outside.append((low[bits - 1 :] ^ sign.replicate(len(low) - bits + 1)).any())
    return Shifted(low[:bits], Cat(rest).any(), Cat(outside).any())
