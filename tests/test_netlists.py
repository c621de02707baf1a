"""Fingerprints of netlists see the circuit and not the names in it."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.netlists import fingerprint


class Counter(wiring.Component):
    """Counts `step` at a time while `enable` is set."""

    def __init__(self, step: int = 1, name: str = "count", is_first: bool = True, bits: int = 4) -> None:
        self.step, self.name, self.is_first, self.bits = step, name, is_first, bits
        super().__init__({"enable": In(1), "other": In(bits), "value": Out(bits), "sum": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, extra = Signal(self.bits, name=self.name), Signal(self.bits, name=f"{self.name}_extra")
        with m.If(self.enable):
            m.d.sync += count.eq(count + self.step)
        statements = [self.value.eq(count), self.sum.eq(extra ^ self.other)]
        m.d.comb += statements if self.is_first else statements[::-1]
        m.d.sync += extra.eq(count & self.other)
        return m


def test_names_and_order_do_not_count() -> None:
    assert fingerprint(Counter(name="counter", is_first=False)) == fingerprint(Counter())


def test_constants_and_widths_count() -> None:
    found = {fingerprint(counter) for counter in (Counter(), Counter(step=3), Counter(bits=5))}
    assert len(found) == 3


class Choice(wiring.Component):
    """`a` or `b`, in one order or the other."""

    def __init__(self, swaps: bool) -> None:
        self.swaps = swaps
        super().__init__({"which": In(1), "a": In(2), "b": In(2), "chosen": Out(2)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, second = (self.b, self.a) if self.swaps else (self.a, self.b)
        with m.If(self.which):
            m.d.comb += self.chosen.eq(first)
        with m.Else():
            m.d.comb += self.chosen.eq(second)
        return m


def test_which_input_goes_where_counts() -> None:
    assert fingerprint(Choice(False)) != fingerprint(Choice(True))
