"""Values of earlier cycles."""

from __future__ import annotations

from collections.abc import Hashable

from amaranth.hdl import Module, Shape, Signal, Value


def delayed(m: Module, value: Value, cycles: int, name: str, reset_less: bool = True, domain: str = "sync") -> Value:
    """`value` of `cycles` cycles ago, through as many registers; what decides an action wants `reset_less=False`."""
    for cycle in range(cycles):
        register = Signal(Shape.cast(value.shape()), name=f"{name}_{cycle + 1}", reset_less=reset_less)
        m.d[domain] += register.eq(value)
        value = register
    return value


class DelayLines:
    """Delay lines, each made once and only as long as it is used."""

    def __init__(self, m: Module) -> None:
        self.m = m
        self.lines: dict[Hashable, list[Value]] = {}

    def at(self, key: Hashable, name: str, value: Value, cycles: int) -> Value:
        """`value` of `cycles` cycles ago; `key` identifies the value."""
        line = self.lines.setdefault(key, [value])
        while len(line) <= cycles:
            register = Signal(value.shape(), name=f"{name}_{len(line)}", reset_less=True)
            self.m.d.sync += register.eq(line[-1])
            line.append(register)
        return line[cycles]
