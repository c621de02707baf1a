"""Values of earlier cycles."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, Signal, Value


def delayed(m: Module, value: Value, cycles: int, name: str, reset_less: bool = True) -> Value:
    """`value` of `cycles` cycles ago, through as many registers; what decides an action wants `reset_less=False`."""
    for cycle in range(cycles):
        register = Signal(Shape.cast(value.shape()), name=f"{name}_{cycle + 1}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value
