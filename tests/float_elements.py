"""What exact sums of floats of few bits take: the table of processing elements in docs/types.md.

python -m tests.float_elements       # synthesises an element of each pair of types: a minute

An element keeps its weight, passes its activation on, and adds its product to the sum from above. It is that of the
last row of a block, so the sum has as many bits as one of a whole block. Beside its area stands what is left of
weights: the ratio of signal to noise of normal values in blocks, each with a scale of E8M0 by the OCP MX rule.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.codesign.price.netlist import netlist
from tilewright.codesign.price.process import load_process
from tilewright.codesign.price.synthesis import Synthesis
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.program.small_floats import BLOCK, BY_SHORT_NAME
from tilewright.rtl.delay import delayed
from tilewright.rtl.layout import integer_shape
from tilewright.rtl.systolic import SystolicArray

BYTE, NIBBLE = IntegerType(8, True), IntegerType(4, True)

E4M3, E5M2, E2M1 = (BY_SHORT_NAME[name].type for name in ("e4m3", "e5m2", "e2m1"))

VALUES = 32_000
"""How many weights are rounded; drawn with seed 1."""

PAIRS = ((BYTE, BYTE), (BYTE, NIBBLE), (E2M1, E2M1), (E4M3, E2M1), (E4M3, E4M3), (E4M3, E5M2), (E5M2, E5M2))
"""Of activations and weights; the first is what the others are compared with."""

ROW = "| {activation} | {weight} | {product} | {sum} | {area:,.0f} | {part:.2f} | {snr:.1f} |"


class Element(wiring.Component):
    """The processing element at the end of a column of BLOCK rows, with all its registers."""

    def __init__(self, activation: IntegerType, weight: IntegerType) -> None:
        self.array = SystolicArray(BLOCK, 1, activation, weight)
        self.array._MustUse__used = True  # an element of it alone is built
        before, after = (integer_shape(self.array.partial_sum(rows)) for rows in (BLOCK - 1, BLOCK))
        codes = integer_shape(activation), integer_shape(weight)
        super().__init__(
            {
                "activation": In(codes[0]),
                "next": Out(codes[0]),
                "weight": In(codes[1]),
                "load": In(1),
                "swap": In(1),
                "above": In(before),
                "sum": Out(after),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        inputs = self.activation, self.weight, self.above, self.load, self.swap
        m.d.comb += self.sum.eq(self.array.build_element(m, BLOCK - 1, 0, *inputs))
        m.d.comb += self.next.eq(delayed(m, self.activation, 1, "passed"))
        return m


def signal_to_noise(of: IntegerType) -> float:
    """Of normal values, rounded to a type in blocks, in dB. A scale is the largest power of two that is not above the
    block's largest magnitude, over the largest power of two of the type (OCP MX specification v1.0, section 6.3).
    """
    values = np.random.default_rng(1).normal(size=(VALUES // BLOCK, BLOCK))
    small = BY_SHORT_NAME.get(str(of))
    largest = small.largest if small else of.values.high
    _, exponents = np.frexp(np.abs(values).max(axis=1, keepdims=True))
    scales = np.ldexp(1.0, exponents - np.frexp(largest)[1])
    limited = np.clip(values / scales, -largest, largest)
    found = scales * (small.nearest(limited) * small.least if small else np.rint(limited))
    return float(10 * np.log10((values**2).sum() / ((found - values) ** 2).sum()))


def rows() -> Iterator[str]:
    """Bits of a product and of a block's sum; gate equivalents, and in parts of the first pair's; dB of the weights."""
    process = load_process()
    synthesis = Synthesis(process)
    first = None
    for pair in PAIRS:
        element = Element(*pair)
        costs = synthesis.costs(netlist(element).modules)
        area = sum(cost.area_um2 for cost in costs) / process.gate.area_um2
        first = first or area
        yield ROW.format(
            activation=pair[0],
            weight=pair[1],
            product=element.array.product.bits,
            sum=element.array.partial_sum(BLOCK).bits,
            area=area,
            part=area / first,
            snr=signal_to_noise(pair[1]),
        )


def main() -> None:
    for row in rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
