"""A memory of tables: written a word at a time like every memory, read by each lane at an address of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tilewright.isa.machine.memory import Memory
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.block import WordBlock
from tilewright.rtl.interfaces import LookupSignature, WriteSignature
from tilewright.rtl.memory import Requester
from tilewright.rtl.outline import outlined


class TableMemory(wiring.Component):
    """A small memory for each of the lanes that look up: lane l's holds the elements l, l + lanes, … of every word.

    `lookup` gives, in every cycle, the elements at the addresses of the cycle before; it sees the writes granted before
    the addresses came. Writes (`write_<name>`, one word) take turns as in a bank. While `halt` is set none is granted.
    With `has_enable` it reads only in the cycles in which somebody looks up.
    """

    def __init__(self, memory: Memory, writes: Sequence[Requester], lanes: int, has_enable: bool = False) -> None:
        self.memory = memory
        self.lanes = lanes
        self.has_enable = has_enable
        self.writes = tuple(writes)
        super().__init__(
            {
                "halt": In(1),
                "lookup": In(LookupSignature(memory, lanes, has_enable)),
                **{f"write_{r.name}": In(WriteSignature(memory)) for r in self.writes},
            }
        )
        self.read_ports: list[Any] = []  # only lookups read it
        self.write_ports = [getattr(self, f"write_{r.name}") for r in self.writes]

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        bits, address_bits = self.memory.element.bits, self.memory.address_bits
        ports = self.write_ports
        m.submodules.write_arbiter = arbiter = Arbiter(len(ports), sum(r.is_privileged for r in self.writes))
        m.d.comb += arbiter.requests.eq(Cat(port.valid & ~self.halt for port in ports))
        m.d.comb += [port.granted.eq(grant) for port, grant in zip(ports, arbiter.grants, strict=True)]
        for lane in range(self.lanes):
            own = range(lane, self.memory.width, self.lanes)  # of the word's elements
            storage = WordBlock(bits * len(own), self.memory.depth)
            m.submodules[f"lane{lane}"] = storage
            read, write = storage.read_port(), storage.write_port()
            m.d.comb += [
                read.addr.eq(self.lookup.address.word_select(lane, address_bits)),
                Cat(self.lookup.data.word_select(element, bits) for element in own).eq(read.data),
                write.en.eq(arbiter.grants.any()),
            ]
            if self.has_enable:
                m.d.comb += read.en.eq(self.lookup.enable)
            for port, grant in zip(ports, arbiter.grants, strict=True):
                with m.If(grant):
                    elements = Cat(port.data.word_select(element, bits) for element in own)
                    m.d.comb += [write.addr.eq(port.address), write.data.eq(elements)]
        return m
