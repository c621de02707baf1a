"""The weight-stationary array: dot products of an activation vector with every column of a weight tile."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.language.numeric import FloatType, IntegerType, Interval
from tilewright.rtl.delay import delayed
from tilewright.rtl.float_codes import magnitude_of_product, numbers_only, with_signed
from tilewright.rtl.layout import integer_shape
from tilewright.rtl.outline import outlined


class SystolicArray(wiring.Component):
    """`rows` × `cols` multiply-adds; a vector a cycle.

    `sums[c]` is Σ over r of vector[r] · weight[r, c], `latency` cycles after its `vector`, for all columns at once.
    Elements of floating types are codes, and count as what these stand for.

    A tile's weight rows come one a cycle as `weights`, row 0 with `loads`. They wait in shadow registers. From the
    vector that comes with `is_first` on, they are the weights; it comes at the earliest WEIGHT_LEAD cycles after row 0
    (and so before the last rows, which reach their processing elements in time all the same). Row 0 of the next tile
    comes after the cycle of that vector.

    If it `can_transpose`, which takes as many columns as rows, a tile whose row 0 comes with `transposes` is used as
    its transpose: `sums[c]` is Σ over r of vector[r] · weight[c, r].

    Inside, row r gets its elements r cycles late and column c gets everything c cycles late, so the processing
    element at (r, c) is r + c cycles behind the one at (0, 0): tags travel along diagonals. Element i of a weight row
    is on bus i, i cycles late. When the tag `load` reaches (r, c), bus c has element c of row r, and bus r has element
    r of row c: one is for the tile, the other for its transpose.

    In each processing element, `product_registers` stand between product and sum: all sums come so many cycles later.
    """

    WEIGHT_LEAD = 2

    def __init__(
        self,
        rows: int,
        cols: int,
        activation: IntegerType,
        weight: IntegerType,
        can_transpose: bool = False,
        product_registers: int = 0,
    ) -> None:
        assert rows == cols or not can_transpose
        self.can_transpose = can_transpose
        self.rows = rows
        self.cols = cols
        self.activation = activation
        self.weight = weight
        self.product_registers = product_registers
        self.latency = rows + cols + product_registers
        a, w = activation.values, weight.values
        corners = [x * y for x in (a.low, a.high) for y in (w.low, w.high)]
        self.product = Interval(min(corners), max(corners))
        super().__init__(
            {
                "vector": In(data.ArrayLayout(integer_shape(activation), rows)),
                "is_first": In(1),
                "weights": In(data.ArrayLayout(integer_shape(weight), cols)),
                "loads": In(1),
                **({"transposes": In(1)} if can_transpose else {}),
                "sums": Out(data.ArrayLayout(integer_shape(self.partial_sum(rows)), cols)),
            }
        )

    def partial_sum(self, rows: int) -> Interval:
        """The range of a sum over the first `rows` rows."""
        return Interval(self.product.low * rows, self.product.high * rows)

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        diagonals = self.rows + self.cols - 1
        swaps = self.build_tags(m, self.is_first, diagonals, "swap")
        loads = self.build_tags(m, delayed(m, self.loads, 1, "row_0"), diagonals, "load")
        if self.can_transpose:
            tag = delayed(m, self.transposes, 1, "row_0_transposes")
            transposes = self.build_tags(m, tag, diagonals, "transposed")
        activations = [
            delayed(m, _counted(self.vector[r], self.activation), r + 1, f"skew_{r}") for r in range(self.rows)
        ]
        weights = [
            delayed(m, _counted(self.weights[c], self.weight), c + 1, f"weight_skew_{c}") for c in range(self.cols)
        ]
        sums: list[Value] = [Const(0)] * self.cols
        for r in range(self.rows):
            activation = activations[r]
            for c in range(self.cols):
                d = r + c
                weight = Mux(transposes[d], weights[r], weights[c]) if self.can_transpose and r != c else weights[c]
                sums[c] = self.build_element(m, r, c, activation, weight, sums[c], loads[d], swaps[d])
                if c < self.cols - 1:
                    activation = delayed(m, activation, 1, f"activation_{r}_{c}")
        for c in range(self.cols):
            m.d.comb += self.sums[c].eq(delayed(m, sums[c], self.cols - 1 - c, f"deskew_{c}"))
        return m

    def build_tags(self, m: Module, tag: Value, count: int, name: str) -> list[Value]:
        """The tag on every diagonal: on diagonal d it is d cycles late."""
        line = Signal(count - 1, name=name) if count > 1 else Const(0, 0)
        tags = Cat(tag, line)
        if count > 1:
            m.d.sync += line.eq(tags[:-1])
        return [tags[d] for d in range(count)]

    def build_element(
        self, m: Module, r: int, c: int, activation: Value, weight: Value, above: Value, load: Value, swap: Value
    ) -> Signal:
        """A processing element, which keeps its weight; returns the register of its sum."""
        shadow = Signal(weight.shape(), name=f"shadow_{r}_{c}", reset_less=True)
        active = Signal(weight.shape(), name=f"weight_{r}_{c}", reset_less=True)
        with m.If(load):
            m.d.sync += shadow.eq(weight)
        with m.If(swap):
            m.d.sync += active.eq(shadow)
        return self.build_sum(m, r, c, activation, active, above)

    def build_sum(self, m: Module, r: int, c: int, activation: Value, weight: Value, above: Value) -> Signal:
        """A multiply-add; returns its register: the sum of `above` and its product, both of the cycle before."""
        total = Signal(integer_shape(self.partial_sum(r + 1)), name=f"sum_{r}_{c}", reset_less=True)
        name, registers = f"product_{r}_{c}", self.product_registers
        if isinstance(self.activation, FloatType) and isinstance(self.weight, FloatType):
            magnitude = Signal(self.product.high.bit_length(), name=f"magnitude_{r}_{c}")
            types = self.activation, self.weight
            m.d.comb += magnitude.eq(magnitude_of_product(activation, weight, *types, self.product))
            is_negative = activation[self.activation.sign_bit] ^ weight[self.weight.sign_bit]
            product = delayed(m, magnitude, registers, name), delayed(m, is_negative, registers, f"{name}_is_negative")
            m.d.sync += total.eq(with_signed(above, *product))
        else:
            m.d.sync += total.eq(above + delayed(m, activation * weight, registers, name))
        return total


def _counted(element: Value, of: IntegerType) -> Value:
    """An element as the processing elements take it: of floating types, codes of numbers alone."""
    return numbers_only(element, of) if isinstance(of, FloatType) else element
