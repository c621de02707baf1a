"""Small memories inside units, such as a queue's entries: flip-flops, or SRAM macros where these take less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic

from amaranth.hdl import Module, Mux, Shape, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, ReadPort
from amaranth.lib.wiring import In, Out

from tilewright.codesign.price.macros import MemoryPrice, storage_price
from tilewright.codesign.price.netlist import Bill, M, NetlistReader, PricedPart
from tilewright.codesign.price.process import Process

LINE_BITS = (16, 48)
"""The widths that are synthesised; the price of what is wider is on the line through them."""


@dataclass(frozen=True, slots=True)
class StorageKind:
    """A memory but for its width. `transparent`: for each read port, the write ports whose words it sees at once."""

    depth: int
    reads: tuple[str, ...]  # the domain of each read port
    transparent: tuple[tuple[int, ...], ...]
    writes: int

    @property
    def fits_macro(self) -> bool:
        """A macro with two ports reads at one of them, with the clock, and writes at the other."""
        return self.reads == ("sync",) and self.writes == 1


@dataclass(frozen=True, slots=True)
class StorageOptions(Generic[M]):
    """What a storage may be made of: flip-flops, or macros with some logic beside them where macros can do it."""

    flip_flops: Bill[M]
    beside: Bill[M]
    macros: MemoryPrice | None
    is_estimated: bool
    depth: int


class Entries(wiring.Component):
    """A storage by itself."""

    def __init__(self, kind: StorageKind, bits: int) -> None:
        self.memory = memory = Memory(shape=unsigned(bits), depth=kind.depth, init=[])
        writes = [memory.write_port() for _ in range(kind.writes)]
        for domain, seen in zip(kind.reads, kind.transparent, strict=True):
            memory.read_port(domain=domain, transparent_for=[writes[position] for position in seen])
        ports = {f"read{i}": port for i, port in enumerate(memory.read_ports)}
        ports |= {f"write{i}": port for i, port in enumerate(memory.write_ports)}
        self.ports = ports
        super().__init__({name: Out(port.signature) for name, port in ports.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self.memory
        for name, port in self.ports.items():
            for member, facts in port.signature.members.items():
                outside, inside = getattr(getattr(self, name), member), getattr(port, member)
                if facts.flow is Out:
                    m.d.comb += outside.eq(inside)
                elif not (isinstance(port, ReadPort) and member == "en"):  # queues read in every cycle
                    m.d.comb += inside.eq(outside)
        return m


class Bypass(wiring.Component):
    """What a macro needs beside it to show the word that is written in the same cycle: it keeps that word itself."""

    def __init__(self, address_bits: int, bits: int) -> None:
        super().__init__(
            {
                "read": In(address_bits),
                "write": In(address_bits),
                "enable": In(1),
                "word": In(bits),
                "from_macro": In(bits),
                "output": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept, is_kept = Signal(self.word.shape(), reset_less=True), Signal()
        m.d.sync += [kept.eq(self.word), is_kept.eq(self.enable & (self.read == self.write))]
        m.d.comb += self.output.eq(Mux(is_kept, kept, self.from_macro))
        return m


def kind_of(memory: Memory) -> tuple[StorageKind, int]:
    """A memory's kind and its width in bits."""
    writes = list(memory.write_ports)
    kind = StorageKind(
        memory.depth,
        tuple(port.domain for port in memory.read_ports),
        tuple(tuple(writes.index(write) for write in port.transparent_for) for port in memory.read_ports),
        len(writes),
    )
    return kind, Shape.cast(memory.shape).width


def in_flip_flops(read: NetlistReader[M], kind: StorageKind, bits: int, exact: bool) -> Bill[M]:
    return on_line(read, partial(Entries, kind), bits, exact)


def options(read: NetlistReader[M], name: str, memory: Memory, process: Process, exact: bool) -> StorageOptions[M]:
    """What the storage of that name may be made of."""
    kind, bits = kind_of(memory)
    macros = storage_price(name, (1, kind.depth, bits), process) if kind.fits_macro else None
    address_bits = max(1, (kind.depth - 1).bit_length())
    needs_bypass = macros is not None and any(kind.transparent)
    beside = on_line(read, partial(Bypass, address_bits), bits, exact) if needs_bypass else []
    return StorageOptions(
        in_flip_flops(read, kind, bits, exact), beside, macros, not exact and bits > max(LINE_BITS), kind.depth
    )


# -- a part of some width ----------------------------------------------------------------------------------------------


def whole(read: NetlistReader[M], part: PricedPart) -> Bill[M]:
    """A part as it is."""
    return [(1, module) for module in read(part).modules]


def times(count: float, bill: Bill[M]) -> Bill[M]:
    return [(count * each, module) for each, module in bill]


def on_line(read: NetlistReader[M], part: Callable[[int], wiring.Component], bits: int, exact: bool = False) -> Bill[M]:
    """A part of that width, in which every bit costs the same: on the line through two widths, unless it is narrow."""
    few, many = LINE_BITS
    if exact or bits <= many:
        return whole(read, partial(part, bits))
    along = (bits - few) / (many - few)
    narrow, wide = (whole(read, partial(part, width)) for width in LINE_BITS)
    return [*times(1 - along, narrow), *times(along, wide)]
