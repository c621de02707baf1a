"""Who may use a port this cycle: some requesters always win, the others take turns."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Arbiter(wiring.Component):
    """Grants one of `count` requests a cycle, in the cycle of the request.

    The first `privileged` requesters win always, in their order. The others are served round-robin: of those that ask,
    the first after the one granted last, cyclically. A privileged grant leaves the turn as it is.
    """

    def __init__(self, count: int, privileged: int = 0) -> None:
        self.count = count
        self.privileged = privileged
        super().__init__({"requests": In(count), "grants": Out(count)})

    def elaborate(self, platform: object) -> Module:
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
        last_granted = Signal(range(max(2, sharing)), init=sharing - 1)
        with m.Switch(last_granted):
            for last in range(sharing):
                with m.Case(last):
                    for distance in reversed(range(1, sharing + 1)):
                        turn = (last + distance) % sharing
                        with m.If(self.requests[first + turn]):
                            m.d.comb += self.grants.eq(1 << (first + turn))
        for turn in range(sharing):
            with m.If(self.grants[first + turn]):
                m.d.sync += last_granted.eq(turn)
