"""Whether an access leaves its memory: in gates, where a subtraction would wait for a carry."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Value

from tilewright.isa.machine.memory import Memory


def is_outside(address: Value, memory: Memory, block: int) -> Value:
    """An access of `block` words from a signed `address` leaves its memory, or crosses from one bank into another."""
    last = memory.depth - block
    bits = last.bit_length()
    outside = address[bits:].any() | is_above(address[:bits], last)  # its highest bit, the sign, is beyond the last's
    if block == 1:
        return outside
    crossings = [
        (address > boundary - block) & (address < boundary)
        for boundary in range(memory.stretch_words, memory.depth, memory.stretch_words)
    ]
    return outside | Cat(crossings).any()


def is_above(value: Value, number: int) -> Value:
    """Whether a value is more than a number of as many bits: in gates, where a subtraction would wait for a carry.

    It is if one of its bits is set where the number has none, and so are all above where the number has one.
    """
    ones = [position for position in range(len(value)) if number >> position & 1]
    reasons = [
        Cat(value[position], *(value[one] for one in ones if one > position)).all()
        for position in range(len(value))
        if position not in ones
    ]
    return Cat(reasons).any() if reasons else Const(0, 1)
