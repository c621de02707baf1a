"""The netlist's evaluation equals Amaranth's own simulator, operator by operator, register by register."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tests.netlist_trace import trace_outputs

CYCLES = 60


class Everything(wiring.Component):
    """Each operator of two operands, a shift register, a total that is cleared and held, and assignments of parts."""

    def __init__(self, width: int, is_signed: bool) -> None:
        self.shape = signed(width) if is_signed else unsigned(width)
        super().__init__(
            {
                "a": In(self.shape),
                "b": In(self.shape),
                "count": In(7),
                "clear": In(1),
                "valid": In(1),
                "compared": Out(8),
                "computed": Out(6 * width + 8),
                "shifted": Out(3 * width),
                "total": Out(width),
                "delayed": Out(width),
                "parts": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = self.a, self.b
        compared = [a < b, a <= b, a > b, a >= b, a == b, a != b, a.any(), a.all()]
        computed = [a + b, a - b, (a * b)[: self.shape.width], ~a, -a, (a & b) | (a ^ b)]
        m.d.comb += [
            self.compared.eq(Cat(compared)),
            self.computed.eq(Cat(computed)),
            self.shifted.eq(Cat((a >> self.count)[: self.shape.width], (a << self.count)[: 2 * self.shape.width])),
            self.parts.eq(a),
        ]
        total = Signal(self.shape, init=1)
        with m.If(self.valid):
            m.d.sync += total.eq(Mux(self.clear, a, total + a))
        m.d.comb += self.total.eq(total)
        first, second = Signal(self.shape, init=3), Signal(self.shape)
        m.d.sync += [first.eq(a), second.eq(first)]
        m.d.comb += self.delayed.eq(second)
        with m.Switch(self.count):
            with m.Case("1------", "0000001"):
                m.d.comb += self.parts[2:4].eq(b)
            with m.Case("-1-----"):
                m.d.comb += self.parts.eq(b)
        return m


def simulated(component: wiring.Component, inputs: dict[str, list[int]]) -> dict[str, list[int]]:
    outputs = [name for name, member in component.signature.members.items() if member.flow is Out]
    seen: dict[str, list[int]] = {name: [] for name in outputs}

    async def bench(ctx: Any) -> None:
        for cycle in range(CYCLES):
            for name, values in inputs.items():
                ctx.set(getattr(component, name), values[cycle])
            for name in outputs:
                seen[name].append(ctx.get(getattr(component, name)))
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


@pytest.mark.parametrize("is_signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("width", [5, 31, 32, 62, 63, 64, 65, 90])
def test_equals_the_simulator(width: int, is_signed: bool) -> None:
    rng = random.Random(f"{width} {is_signed}")
    ends = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1]
    numbers = [
        [rng.choice(ends) if rng.random() < 0.4 else rng.getrandbits(width) for _ in range(CYCLES)] for _ in "ab"
    ]
    inputs = {
        "a": numbers[0],
        "b": numbers[1],
        "count": [rng.choice([0, 1, width - 1, min(width, 127), rng.getrandbits(7)]) for _ in range(CYCLES)],
        "clear": [rng.getrandbits(1) for _ in range(CYCLES)],
        "valid": [int(rng.random() < 0.7) for _ in range(CYCLES)],
    }
    expected = simulated(Everything(width, is_signed), inputs)
    assert trace_outputs(Everything(width, is_signed), inputs) == expected
