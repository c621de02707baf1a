"""A reduction across lanes: a tree that halves the number of values in each stage."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.language.operations import Op
from tilewright.rtl.operators import combined
from tilewright.rtl.outline import outlined


class LaneTree(wiring.Component):
    """`result` is what the reduction `op` makes of the lanes' `values` of `stages` cycles ago.

    `stages` is at least the number of halvings that it takes to reach one value. `result_shape` holds the result.
    """

    def __init__(self, op: Op, lanes: int, stages: int, shape: Shape, result_shape: Shape) -> None:
        self.op = op
        self.stages = stages
        super().__init__({"values": In(data.ArrayLayout(shape, lanes)), "result": Out(result_shape)})

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        level: list[Value] = list(self.values)
        for stage in range(self.stages):
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = []
            for position, pair in enumerate(pairs):
                value = combined(self.op, *pair) if len(pair) == 2 else pair[0]
                register = Signal(value.shape(), name=f"level{stage}_{position}", reset_less=True)
                m.d.sync += register.eq(value)
                level.append(register)
        m.d.comb += self.result.eq(level[0])
        return m
