"""Words of a vector engine that has fewer lanes than a word has elements: they come and go in parts, lowest first."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.rtl.outline import outlined


def build_part(m: Module, parts: Sequence[Value], left: Value, chosen: Signal) -> None:
    """Drive `chosen` with that of the parts of a word behind which there are `left` others."""
    with m.Switch(left):
        for behind, part in enumerate(reversed(parts)):
            with m.Case(behind):
                m.d.comb += chosen.eq(part)


class JoinedParts(wiring.Component):
    """Puts words together. In a cycle with `arrives`, `part` is the next part of a word.

    In the cycle in which a word's last part arrives, `word` is the word; with `is_same`, it has that part everywhere.
    """

    def __init__(self, parts: int, bits: int) -> None:
        self.parts = parts
        super().__init__(
            {"arrives": In(1), "is_same": In(1), "part": In(unsigned(bits)), "word": Out(unsigned(parts * bits))}
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        earlier = Signal((self.parts - 1) * len(self.part), name="earlier", reset_less=True)
        joined = Cat(earlier, self.part)
        with m.If(self.arrives):
            m.d.sync += earlier.eq(joined[len(self.part) :])
        m.d.comb += self.word.eq(Mux(self.is_same, self.part.replicate(self.parts), joined))
        return m
