"""An on-chip memory: banks with a read and a write port or one for both, blocks in one access, and arbitration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.isa.machine.memory import Memory
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.timing import memory_read
from tilewright.rtl.arbiter import Arbiter
from tilewright.rtl.block import WordBlock
from tilewright.rtl.delay import delayed
from tilewright.rtl.interfaces import ReadSignature, WriteSignature
from tilewright.rtl.outline import outlined


@dataclass(frozen=True, slots=True)
class Requester:
    """One of those that ask for a memory's ports, `block` consecutive words at a time."""

    name: str
    block: int = 1
    is_privileged: bool = False
    has_mask: bool = False  # of writes: says how many of the words it writes


class BankedMemory(wiring.Component):
    """The memory that docs/microarchitecture.md describes, for requesters in the order of its table.

    Every requester has a port of its own, in `read_ports` or `write_ports` in their order; privileged ones come first.
    Of a bank with one port they are reads that are privileged, then writes, which then all must be, then other reads.
    A read granted in cycle t has its data in t+1, or as many cycles later as the `pipeline` has registers before and
    behind the banks, and in each port that reads, behind what chooses a bank; it sees the writes granted before t.
    While `halt` is set nothing is granted.
    """

    def __init__(
        self,
        memory: Memory,
        reads: Sequence[Requester],
        writes: Sequence[Requester],
        pipeline: Pipeline = Pipeline(),  # noqa: B008, it is frozen
    ) -> None:
        self.memory = memory
        self.pipeline = pipeline
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.ways = 1 << (max((r.block for r in (*reads, *writes)), default=1) - 1).bit_length()
        super().__init__(
            {
                "halt": In(1),
                **{f"read_{r.name}": In(ReadSignature(memory, r.block)) for r in self.reads},
                **{f"write_{r.name}": In(WriteSignature(memory, r.block, r.has_mask)) for r in self.writes},
            }
        )
        self.read_ports = [getattr(self, f"read_{r.name}") for r in self.reads]
        self.write_ports = [getattr(self, f"write_{r.name}") for r in self.writes]

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        read, written = (max((r.block for r in each), default=1) for each in (self.reads, self.writes))
        banks = [Bank(self.memory, self.ways, read, written, self.pipeline) for _ in range(self.memory.banks)]
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
        if self.memory.has_one_port:
            self.build_one_port(m, banks)
        else:
            grants = self.build_arbiters(m, "read", self.reads, self.read_ports)
            self.build_reads(m, banks, grants, self.first_places(grants, self.read_ports))
            grants = self.build_arbiters(m, "write", self.writes, self.write_ports)
            self.build_writes(m, banks, grants, self.first_places(grants, self.write_ports))
        return m

    def build_one_port(self, m: Module, banks: Sequence[Bank]) -> None:
        """One arbiter a bank for all accesses: a result does not wait for a read, since the datapath cannot."""
        first, writes = sum(requester.is_privileged for requester in self.reads), len(self.writes)
        requesters = (*self.reads[:first], *self.writes, *self.reads[first:])
        ports = [*self.read_ports[:first], *self.write_ports, *self.read_ports[first:]]
        grants = self.build_arbiters(m, "access", requesters, ports)
        places = self.first_places(grants, ports)
        reads = [Cat(grant[:first], grant[first + writes :]) for grant in grants]
        self.build_reads(m, banks, reads, places)
        self.build_writes(m, banks, [grant[first : first + writes] for grant in grants], places)

    def first_places(self, grants: Sequence[Value], ports: Sequence[wiring.PureInterface]) -> list[Value]:
        """Of each bank, the place that the one that is granted asks for."""
        return [
            _of_granted(grant, [self.place_in_bank(port.address, number) for port in ports])
            for number, grant in enumerate(grants)
        ]

    def build_reads(
        self, m: Module, banks: Sequence[Bank], grants: Sequence[Value], first_places: Sequence[Value]
    ) -> None:
        for number, bank in enumerate(banks):
            m.d.comb += [bank.read.eq(grants[number].any()), bank.read_first.eq(first_places[number])]
        cycles = memory_read(self.pipeline) - self.pipeline.select - 1  # until one of the banks is chosen, but one
        for port, requester in zip(self.read_ports, self.reads, strict=True):
            from_bank: Value = Const(0, 0)
            if len(banks) > 1:
                from_bank = Signal(range(len(banks)), name=f"{requester.name}_from_bank", reset_less=True)
                asked = delayed(m, self.bank_of(port.address), cycles, f"{requester.name}_bank")
                m.d.sync += from_bank.eq(asked)
            chosen = _chosen([bank.read_data for bank in banks], from_bank)
            m.d.comb += port.data.eq(delayed(m, chosen, self.pipeline.select, f"{requester.name}_data"))

    def build_writes(
        self, m: Module, banks: Sequence[Bank], grants: Sequence[Value], first_places: Sequence[Value]
    ) -> None:
        ports = self.write_ports
        for number, bank in enumerate(banks):
            words = [
                Mux(grant, port.words if r.has_mask else (1 << r.block) - 1, 0)
                for grant, r, port in zip(grants[number], self.writes, ports, strict=True)
            ]
            m.d.comb += [
                bank.write_words.eq(reduce(or_, words, Const(0))),
                bank.write_first.eq(first_places[number]),
                bank.write_data.eq(_of_granted(grants[number], [port.data for port in ports])),
            ]

    def build_arbiters(
        self, m: Module, kind: str, requesters: Sequence[Requester], ports: Sequence[wiring.PureInterface]
    ) -> list[Value]:
        """An arbiter for this port of each bank, and what it tells the requesters.

        Returns, by bank, a bit for each requester that is granted.
        """
        privileged = sum(r.is_privileged for r in requesters)
        arbiters = [Arbiter(len(requesters), privileged) for _ in range(self.memory.banks)]
        for number, arbiter in enumerate(arbiters):
            m.submodules[f"{kind}_arbiter{number}"] = arbiter
            for position, port in enumerate(ports):
                asks = port.valid & ~self.halt & self.is_in_bank(port.address, number)
                m.d.comb += arbiter.requests[position].eq(asks)
        for position, port in enumerate(ports):
            m.d.comb += port.granted.eq(self.is_granted(arbiters, ports, position))
        return [arbiter.grants for arbiter in arbiters]

    def is_granted(self, arbiters: Sequence[Arbiter], ports: Sequence[wiring.PureInterface], position: int) -> Value:
        """Whether a requester asks, and nobody whose turn is before its own asks for the same bank.

        That is what the arbiter of its bank says, sooner: a grant waits for the requests alone, for no bank.
        """
        own, bank = ports[position], self.bank_of(ports[position].address)
        turn: Value = Const(0, 1)
        if position >= arbiters[0].privileged:
            turn = _chosen([arbiter.last_granted for arbiter in arbiters], bank)
        losing = [
            port.valid & (self.bank_of(port.address) == bank) & arbiters[0].comes_before(other, position, turn)
            for other, port in enumerate(ports)
            if other != position
        ]
        return own.valid & ~self.halt & ~Cat(losing).any()

    def is_in_bank(self, address: Value, number: int) -> Value:
        return self.bank_of(address) == number

    def bank_of(self, address: Value) -> Value:
        return bank_of(self.memory, address)

    def place_in_bank(self, address: Value, number: int) -> Value:
        if self.memory.is_interleaved:
            return (address >> _bank_bits(self.memory))[: _place_bits(self.memory)]
        return (address - number * self.memory.bank_depth)[: _place_bits(self.memory)]


class Bank(wiring.Component):
    """One bank: `ways` consecutive words from any first word, read and written in one cycle.

    Word `w` lies in row `w // ways` of way `w % ways`. `read_data` shows the words from `read_first` on the cycle after
    `read`: as many as the widest block that is `read`. Of the words from `write_first` on, those whose bit in
    `write_words` is set are written; there are as many as the widest block that is `written`. With one port, it reads
    or writes in a cycle, and `read_first` and `write_first` are the same. With registers behind each way, `read_data`
    is as many cycles later; with registers before them, all that it is asked for is.
    """

    def __init__(self, memory: Memory, ways: int, read: int, written: int, pipeline: Pipeline) -> None:
        self.registers = pipeline.memory_output
        self.requests = pipeline.request
        self.word_bits = 8 * memory.word_bytes
        self.ports = memory.ports
        self.ways = ways
        self.words_read = read
        self.words_written = written
        self.rows = -(-memory.bank_depth // ways)
        place = unsigned(_place_bits(memory))
        super().__init__(
            {
                "read": In(1),
                "read_first": In(place),
                "read_data": Out(unsigned(self.word_bits * read)),
                "write_words": In(written),
                "write_first": In(place),
                "write_data": In(unsigned(self.word_bits * written)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reads, read_first = self.asked(m, self.read, False), self.asked(m, self.read_first)
        written, write_first = self.asked(m, self.write_words, False), self.asked(m, self.write_first)
        data = self.asked(m, self.write_data)
        first_way_read = Signal(range(max(2, self.ways)), reset_less=True)
        m.d.sync += first_way_read.eq(delayed(m, self.way(read_first), self.registers, "first_way"))
        read_words = []
        for way in range(self.ways):
            storage = WordBlock(self.word_bits, self.rows, self.ports)
            m.submodules[f"way{way}"] = storage
            read, write = storage.read_port(), storage.write_port()
            nth = self.way(way - write_first)  # of the words written, the one for this way
            m.d.comb += [
                read.addr.eq(self.row(read_first, way)),
                read.en.eq(reads),
                write.addr.eq(read.addr if self.ports == 1 else self.row(write_first, way)),
                write.data.eq(data.word_select(nth, self.word_bits) if self.words_written > 1 else data),
                write.en.eq(written.bit_select(nth, 1)),
            ]
            read_words.append(delayed(m, read.data, self.registers, f"word_{way}"))
        for nth in range(self.words_read):
            word = Array(read_words)[self.way(first_way_read + nth)]
            m.d.comb += self.read_data.word_select(nth, self.word_bits).eq(word)
        return m

    def asked(self, m: Module, wanted: Signal, reset_less: bool = True) -> Value:
        """What the bank is asked for, when it does it."""
        return delayed(m, wanted, self.requests, f"asked_{wanted.name}", reset_less)

    def way(self, place: Value) -> Value:
        """The way that holds the word at a place of the bank; also differences of places, cyclically."""
        return (place & (self.ways - 1))[: max(1, (self.ways - 1).bit_length())]

    def row(self, first: Value, way: int) -> Value:
        """The row in which a way holds its word of the block from `first` on."""
        return (first >> (self.ways - 1).bit_length()) + (self.way(first) > way)


def bank_of(memory: Memory, address: Value) -> Value:
    """The number of the bank that holds a word: bits of its address, if the depth of a bank allows it.

    The low ones where words are interleaved over a power of two of banks, else the high ones.
    """
    if memory.is_interleaved:
        return address[: _bank_bits(memory)]
    depth = memory.bank_depth
    if depth & (depth - 1) == 0:
        return address[depth.bit_length() - 1 :]
    return reduce(add, (address >= n * depth for n in range(1, memory.banks)), Const(0, 1))


def _of_granted(grants: Value, values: Sequence[Value]) -> Value:
    """Of values for each requester, that of the one that is granted; any if none is."""
    chosen = values[0] if values else Const(0)
    for grant, value in zip(grants[1:], values[1:], strict=True):
        chosen = Mux(grant, value, chosen)
    return chosen


def _chosen(values: Sequence[Value], index: Value) -> Value:
    """The value at an index, any beyond the last: a multiplexer for each bit of the index."""
    for bit in index:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [Mux(bit, pair[1], pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def _bank_bits(memory: Memory) -> int:
    """Bits of the number of a bank, where there is a power of two of them."""
    return memory.banks.bit_length() - 1


def _place_bits(memory: Memory) -> int:
    return max(1, (memory.bank_depth - 1).bit_length())
