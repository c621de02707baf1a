"""Who may use a port this cycle: some requesters always win, the others take turns."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.rtl.outline import outlined


class Arbiter(wiring.Component):
    """Grants one of `count` requests a cycle, in the cycle of the request.

    The first `privileged` requesters win always, in their order. The others are served round-robin: of those that ask,
    the first after the one granted last, cyclically. A privileged grant leaves the turn as it is. `last_granted`, of
    the others, is that one.
    """

    def __init__(self, count: int, privileged: int = 0) -> None:
        self.count = count
        self.privileged = privileged
        sharing = count - privileged
        turn = {"last_granted": Out(range(max(2, sharing)), init=sharing - 1)} if sharing else {}
        super().__init__({"requests": In(count), "grants": Out(count), **turn})

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        if self.privileged < self.count:
            self.build_turns(m)
        for position in reversed(range(self.privileged)):
            with m.If(self.requests[position]):
                m.d.comb += self.grants.eq(1 << position)
        return m

    def build_turns(self, m: Module) -> None:
        """Drive `grants` as if no privileged requester asked, and remember whom they went to if none did."""
        first, sharing = self.privileged, self.count - self.privileged
        with m.Switch(self.last_granted):
            for last in range(sharing):
                with m.Case(last):
                    for distance in reversed(range(1, sharing + 1)):
                        turn = (last + distance) % sharing
                        with m.If(self.requests[first + turn]):
                            m.d.comb += self.grants.eq(1 << (first + turn))
        for turn in range(sharing):
            with m.If(self.grants[first + turn]):
                m.d.sync += self.last_granted.eq(turn)

    def comes_before(self, one: int, other: int, last_granted: Value) -> Value:
        """Whether a requester is served before another if both ask, after the grant that is said."""
        if one < self.privileged or other < self.privileged:
            return Const(one < other, 1)
        sharing, first = self.count - self.privileged, self.privileged
        waits = [((one - first - last - 1) % sharing, (other - first - last - 1) % sharing) for last in range(sharing)]
        return Cat(Const(a < b, 1) for a, b in waits).bit_select(last_granted, 1)
