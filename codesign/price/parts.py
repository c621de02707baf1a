"""The parts that a machine repeats, as sums of few modules: a lane, a processing element."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from amaranth.hdl import Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.codesign.price.netlist import Bill, M, NetlistReader
from tilewright.codesign.price.storage import times, whole
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.delay import delayed
from tilewright.rtl.lane_tree import LaneTree
from tilewright.rtl.layout import integer_shape
from tilewright.rtl.systolic import SystolicArray

REGISTER_BITS = 8


# -- lanes -------------------------------------------------------------------------------------------------------------


def lanes(read: NetlistReader[M], machine: Machine, engine: Engine) -> Bill[M]:
    """A vector engine's datapath: each further lane costs what the second one does; trees across lanes come once."""
    one = read(VectorDatapath(machine.with_lanes(1), engine), LaneTree)
    count = engine.vector.lanes
    trees = [_tree(place.part, count) for place in one.places.values() if isinstance(place.part, LaneTree)]
    of_trees = [each for tree in trees for each in whole(read, tree)]
    further = count - 1
    if not further:  # its words may be too narrow for a second lane
        return [(1, one.modules[0]), *of_trees]
    two = read(VectorDatapath(machine.with_lanes(2), engine), LaneTree)
    return [(1 - further, one.modules[0]), (further, two.modules[0]), *of_trees]


def _tree(like: LaneTree, lanes: int) -> LaneTree:
    layout = like.values.shape()
    assert isinstance(layout, data.ArrayLayout)
    return LaneTree(like.op, lanes, like.stages, Shape.cast(layout.elem_shape), like.result.shape())


# -- the array ---------------------------------------------------------------------------------------------------------


class ProcessingElement(wiring.Component):
    """The processing element of the array in a row; one that `selects` takes its weight from either of two buses."""

    def __init__(self, array: SystolicArray, row: int, selects: bool) -> None:
        self.array, self.row, self.selects = array, row, selects
        members = array.signature.members
        activation, weight = members["vector"].shape.elem_shape, members["weights"].shape.elem_shape
        above = integer_shape(array.partial_sum(row)) if row else Shape(0)
        super().__init__(
            {
                "activation": In(activation),
                "weight": In(weight),
                "other_weight": In(weight),
                "takes_other": In(1),
                "load": In(1),
                "swap": In(1),
                "above": In(above),
                "sum": Out(integer_shape(array.partial_sum(row + 1))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        weight: Value = self.weight
        if self.selects:
            weight = Signal(self.weight.shape())
            m.d.comb += weight.eq(self.weight)
            with m.If(self.takes_other):
                m.d.comb += weight.eq(self.other_weight)
        above = self.above if self.row else Const(0)
        total = self.array.build_element(m, self.row, 0, self.activation, weight, above, self.load, self.swap)
        m.d.comb += self.sum.eq(total)
        return m


class RegisterRow(wiring.Component):
    """A row of flip-flops."""

    def __init__(self, bits: int) -> None:
        super().__init__({"input": In(bits), "output": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.output.eq(delayed(m, self.input, 1, "bits"))
        return m


def array(read: NetlistReader[M], like: SystolicArray) -> Bill[M]:
    """Processing elements by the width of their sums, and the registers around them."""
    selecting = like.cols - 1 if like.can_transpose else 0  # elements of a row that are not on the diagonal
    bill = times(bits_around(like) / REGISTER_BITS, whole(read, partial(RegisterRow, REGISTER_BITS)))
    for _, group in groupby(range(like.rows), key=lambda row: _sum_bits(like, row)):
        rows = list(group)
        for selects, count in ((False, like.cols - selecting), (True, selecting)):
            if count:
                bill += times(count * len(rows), whole(read, ProcessingElement(like, rows[0], selects)))
    return bill


def _sum_bits(array: SystolicArray, row: int) -> tuple[int, int]:
    """Widths of what comes in from above and of the sum; equal ones make equal elements."""
    above = integer_shape(array.partial_sum(row)).width if row else 0
    return above, integer_shape(array.partial_sum(row + 1)).width


def bits_around(array: SystolicArray) -> int:
    """Register bits that are in no processing element: the ways in and out, which delay, and the tags on diagonals."""
    rows, cols, members = array.rows, array.cols, array.signature.members
    activation = Shape.cast(members["vector"].shape.elem_shape).width
    weight = Shape.cast(members["weights"].shape.elem_shape).width
    total = integer_shape(array.partial_sum(rows)).width
    tags = (rows + cols - 2) * (3 if array.can_transpose else 2) + (2 if array.can_transpose else 1)
    return (
        activation * (rows * (rows + 1) // 2 + rows * (cols - 1))
        + weight * (cols * (cols + 1) // 2)
        + total * (cols * (cols - 1) // 2)
        + tags
    )
