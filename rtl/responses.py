"""Counts the bursts of a store engine that the bus has not answered yet."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

PENDING_BITS = 16
"""The bits of the counter of an instruction's bursts without a response; no subordinate holds more."""


class Responses(wiring.Component):
    """Counts each instruction's bursts without a response; `retire` with the response to its last burst.

    Responses come in the order of the bursts. `addressed` and `addressed_last` tell of bursts of the newest
    instruction.
    """

    def __init__(self, contexts: int, index_bits: int) -> None:
        self.contexts, self.index_bits = contexts, index_bits
        super().__init__(
            {
                "start": In(1),
                "instruction": In(index_bits),
                "addressed": In(1),
                "addressed_last": In(1),
                "responded": In(1),
                "counts": Out(1),  # a response that a burst waits for
                "retire": Out(1),
                "oldest_instruction": Out(index_bits),
                "is_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pending = [Signal(PENDING_BITS, name=f"pending_{n}") for n in range(self.contexts)]
        is_addressed = [Signal(name=f"is_addressed_{n}") for n in range(self.contexts)]
        instructions = [Signal(self.index_bits, name=f"instruction_{n}") for n in range(self.contexts)]
        newest = Signal(range(self.contexts), init=self.contexts - 1)
        oldest = Signal(range(self.contexts))
        for n in range(self.contexts):
            adds, removes = self.addressed & (newest == n), self.counts & (oldest == n)
            m.d.sync += pending[n].eq(pending[n] + adds - removes)
            with m.If(self.addressed_last & (newest == n)):
                m.d.sync += is_addressed[n].eq(1)
        with m.If(self.start):
            m.d.sync += newest.eq(self.after(newest))
            for n in range(self.contexts):
                with m.If(self.after(newest) == n):
                    m.d.sync += [is_addressed[n].eq(0), instructions[n].eq(self.instruction)]
        m.d.comb += [
            self.counts.eq(self.responded & (Array(pending)[oldest] != 0)),
            self.retire.eq(self.responded & Array(is_addressed)[oldest] & (Array(pending)[oldest] == 1)),
            self.oldest_instruction.eq(Array(instructions)[oldest]),
            self.is_idle.eq(sum((p != 0 for p in pending), Value.cast(0)) == 0),
        ]
        with m.If(self.retire):
            m.d.sync += oldest.eq(self.after(oldest))
        return m

    def after(self, slot: Signal) -> Value:
        return Mux(slot == self.contexts - 1, 0, slot + 1)
