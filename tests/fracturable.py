"""Is an element worth it that multiplies by one weight of eight bits, or by two of four? The table of docs/types.md.

python -m tests.fracturable       # synthesises three arrays: minutes

Its multiplier is two of half the size: by the low four bits, without a sign where they are part of a weight of eight,
and by the high four. Both products are summed by themselves, down two columns. Of weights of eight bits, an adder at
the exit of each column puts both sums together: 16 · high + low.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.codesign.price.netlist import netlist
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.synthesis import Synthesis
from tilewright.isa.language.numeric import IntegerType, Interval, type_of
from tilewright.rtl.layout import integer_shape
from tilewright.rtl.systolic import SystolicArray

SIZE = 8
"""Rows and columns of weights of eight bits: a quarter of base16's."""

BYTE, NIBBLE = IntegerType(8, True), IntegerType(4, True)

ROW = "| {name} | {kge:.1f} | {part:.2f} |"


class Halves(SystolicArray):
    """An array whose elements have two products: by the low five bits of a weight, and by the high four."""

    LOW, HIGH = IntegerType(5, True), IntegerType(4, True)

    def __init__(self, size: int) -> None:
        super().__init__(size, size, BYTE, IntegerType(self.LOW.bits + self.HIGH.bits, False))

    def widths(self, rows: int) -> tuple[int, int]:
        """Bits of the sums of low and of high products over so many rows; a low factor is from -8 to 15."""
        low = Interval(rows * -128 * 15, rows * 127 * 15)
        return type_of(low).bits, type_of(Interval(rows * -128 * 7, rows * 128 * 8)).bits

    def partial_sum(self, rows: int) -> Interval:
        return Interval(0, (1 << sum(self.widths(rows))) - 1)

    def build_sum(self, m: Module, r: int, c: int, activation: Value, weight: Value, above: Value) -> Signal:
        total = Signal(integer_shape(self.partial_sum(r + 1)), name=f"sum_{r}_{c}", reset_less=True)
        low, high = (signed(bits) for bits in self.widths(r + 1))
        before = self.widths(r)[0] if r else 0
        above_low, above_high = (above[:before].as_signed(), above[before:].as_signed()) if r else (0, 0)
        low_sum, high_sum = Signal(low, name=f"low_{r}_{c}"), Signal(high, name=f"high_{r}_{c}")
        m.d.comb += low_sum.eq(above_low + activation * weight[: self.LOW.bits].as_signed())
        m.d.comb += high_sum.eq(above_high + activation * weight[self.LOW.bits :].as_signed())
        m.d.sync += total.eq(Cat(low_sum, high_sum))
        return total


class FracturableArray(wiring.Component):
    """`size` × `size` elements, each a multiply-add by a weight of eight bits, or two by weights of four.

    As SystolicArray, without transposes. A row's weights come with `splits` where each eight bits are two weights, the
    second one in the high bits. `latency` cycles after a vector, `sums[c]` are its sums with weights of eight bits, or
    `halves[2 · c]` and `halves[2 · c + 1]` those with the low and the high ones.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.array = Halves(size)
        self.latency = self.array.latency + 1
        self.bits = type_of(Interval(size * -128 * 127, size * 128 * 128)).bits
        ports = {"vector": In(data.ArrayLayout(signed(8), size)), "is_first": In(1), "loads": In(1), "splits": In(1)}
        sums = {"sums": Out(data.ArrayLayout(signed(self.bits), size))}
        halves = {"halves": Out(data.ArrayLayout(signed(max(self.array.widths(size))), 2 * size))}
        super().__init__({**ports, "weights": In(data.ArrayLayout(8, size)), **sums, **halves})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.array = array = self.array
        m.d.comb += [array.vector[r].eq(self.vector[r]) for r in range(self.size)]
        m.d.comb += [array.is_first.eq(self.is_first), array.loads.eq(self.loads)]
        low_bits, _ = array.widths(self.size)
        for c in range(self.size):
            weight = self.weights[c]
            m.d.comb += array.weights[c].eq(Cat(weight[:4], weight[3] & self.splits, weight[4:]))
            low, high = array.sums[c][:low_bits].as_signed(), array.sums[c][low_bits:].as_signed()
            m.d.sync += [
                self.sums[c].eq((high << 4) + low),
                self.halves[2 * c].eq(low),
                self.halves[2 * c + 1].eq(high),
            ]
        return m


def arrays() -> Mapping[str, tuple[wiring.Component, ...]]:
    """What is compared. The second set makes the second sum of a column; the first one takes weights of either type."""
    bytes_, nibbles = SystolicArray(SIZE, SIZE, BYTE, BYTE), SystolicArray(SIZE, SIZE, BYTE, NIBBLE)
    return {
        "int8 alone": (bytes_,),
        "int8 or int4, and a second set for int4": (bytes_, nibbles),
        "fracturable: one int8 or two int4": (FracturableArray(SIZE),),
    }


def rows() -> Iterator[str]:
    """Thousands of gate equivalents of each, and in parts of int8 alone."""
    process = load_process()
    synthesis = Synthesis(process)
    first = None
    for name, parts in arrays().items():
        modules = [module for part in parts for module in netlist(part).modules]
        kge = sum(cost.area_um2 for cost in synthesis.costs(modules)) / process.gate.area_um2 / 1000
        first = first or kge
        yield ROW.format(name=name, kge=kge, part=kge / first)


def main() -> None:
    for row in rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
