"""The host's view of the machine: AXI4-Lite registers, laid out by one table from which the host's code follows too."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES
from tilewright.rtl.bus import axi_lite_signature
from tilewright.rtl.counters import CounterValues, counter_names
from tilewright.rtl.interfaces import FAULT_LAYOUT
from tilewright.rtl.outline import outlined
from tilewright.rtl.runs import RegionTable

WORD_BYTES = 4
ID = int.from_bytes(b"TWN3", "big")
"""The content of the first register: a Tilewright NPU with the registers of `register_map`.

Hardware with TWN2 there has others, and nothing that stops a run; that with TWNP reads instructions of one length.
"""

VERSION = 1
"""Of the table of registers. A larger one has all that this one has, at the same offsets up to the counters."""

WATCHDOG_CYCLES = 1 << 20
"""What the watchdog register holds after a reset: ten milliseconds at 100 MHz."""


@dataclass(frozen=True, slots=True)
class Bit:
    """A bit of a register, by name."""

    register: str
    name: str
    number: int
    about: str


BITS = (
    Bit("control", "start", 0, "start a run; ignored while busy or open"),
    Bit("control", "stop", 1, "end the run with the fault STOPPED; ignored when not running"),
    Bit("control", "reset", 2, "as after power-up, these registers too; forgets what is open on the bus"),
    Bit("status", "busy", 0, "busy"),
    Bit("status", "done", 1, "done, with or without a fault"),
    Bit("status", "fault", 2, "fault"),
    Bit("status", "open", 3, "the bus owes an answer to a run that the watchdog has ended: no run starts"),
    Bit("interrupt_enable", "done", 0, "the pin `irq` follows interrupt_pending"),
    Bit("interrupt_pending", "done", 0, "a run has ended since the last start; write 1 to acknowledge"),
)
"""All bits that have names."""


def bits_of(register: str) -> dict[str, int]:
    """The numbers of a register's bits, by name, the lowest first."""
    return {bit.name: bit.number for bit in BITS if bit.register == register}


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one 32-bit word, or of two for 64 bits, the lower first."""

    name: str
    offset: int  # bytes
    words: int
    is_writable: bool
    about: str

    @property
    def is_latched(self) -> bool:
        """Whether a read of the lower word keeps the upper one for the next read of an upper word."""
        return self.name.startswith("counter.")


def register_map(machine: Machine) -> tuple[Register, ...]:
    """Every register of a machine, in the order of their offsets."""
    entries = [
        ("id", 1, False, f"{ID:#010x}, on every machine"),
        ("isa_hash", 1, False, "the first 32 bits of the machine's hash, as in the binaries made for it"),
        ("control", 1, True, f"{_about_bits('control')}. Reads as 0"),
        ("status", 1, False, _about_bits("status")),
        ("interrupt_enable", 1, True, _about_bits("interrupt_enable")),
        ("interrupt_pending", 1, True, _about_bits("interrupt_pending")),
        (
            *("watchdog", 1, True),
            "cycles in which the bus owes an answer on a port and gives none, before a run ends with TIMEOUT; "
            f"0: never. {WATCHDOG_CYCLES} after a reset. Ignored while busy",
        ),
        ("fault_code", 1, False, "why the machine stopped; 0: no fault"),
        ("fault_instruction", 1, False, "the instruction at fault, counted from the program's start"),
        ("version", 1, False, f"{VERSION}: the number of this table of registers"),
        ("fault_address", 2, False, "the address at fault, signed"),
    ]
    for region in REGIONS:
        entries += [
            (f"{region}.base", 2, True, f"DRAM address of the {region} region, a multiple of {REGION_ALIGNMENT_BYTES}"),
            (f"{region}.limit", 2, True, f"bytes of the {region} region"),
        ]
    entries += [(f"counter.{name}", 2, False, _about_counter(name)) for name in counter_names(machine)]
    registers, offset = [], 0
    for name, words, is_writable, about in entries:
        registers.append(Register(name, offset, words, is_writable, about))
        offset += words * WORD_BYTES
    return tuple(registers)


def _about_bits(register: str) -> str:
    return "; ".join(f"bit {bit.number}: {bit.about}" for bit in BITS if bit.register == register)


def _about_counter(name: str) -> str:
    match name.split("."):
        case ["cycles"]:
            return "cycles from start to done"
        case ["dram_bytes_read"]:
            return "bytes of the beats read, fetch included"
        case ["dram_bytes_written"]:
            return "bytes written"
        case [port, "bytes_read"]:
            number = int(port.removeprefix("port"))
            return f"bytes of the beats read through AXI port {number}{', fetch included' * (number == FETCH_PORT)}"
        case [port, "bytes_written"]:
            return f"bytes written through AXI port {port.removeprefix('port')}"
        case [engine, "wait", other]:
            return f"cycles in which the next {engine} instruction waited for {other}"
        case [engine, "stall", cause]:
            return f"cycles in which {engine} stood still because of: {cause}"
        case [engine, kind]:
            return f"cycles in which {engine} was {kind}"
        case _:
            raise AssertionError(name)


def register_map_markdown(machine: Machine) -> str:
    """The register map as a Markdown table, for the machine's manual and for whoever writes a driver."""
    lines = [
        f"Registers of `{machine.name}` on AXI4-Lite, 32 bits a word; one of 64 bits takes two, the lower first.",
        "A read of a counter's lower word keeps its upper word, for the read that follows: no carry comes between.",
        "",
        "| offset | register | bits | access | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for register in register_map(machine):
        access = "read, write" if register.is_writable else "read"
        bits = 8 * WORD_BYTES * register.words
        lines.append(f"| {register.offset:#05x} | `{register.name}` | {bits} | {access} | {register.about} |")
    return "\n".join(lines) + "\n"


def host_signature(machine: Machine) -> Signature:
    """AXI4-Lite with just enough address bits for the register map."""
    last = register_map(machine)[-1]
    return axi_lite_signature((last.offset + last.words * WORD_BYTES - 1).bit_length())


class Registers(wiring.Component):
    """The AXI4-Lite subordinate. `start`, `stop` and `reset` are set in the cycle after the host's write that asks.

    `start` only of a machine that is neither busy nor open. Region registers keep their values while the machine is
    busy; the low bits of a base, which is aligned, are zero. `interrupt` is set while an interrupt is enabled and
    pending: from the end of a run until the host acknowledges it, or starts the next one.
    An offset without a register reads as zero and ignores writes.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.map = register_map(machine)
        super().__init__(
            {
                "s_axi": Out(host_signature(machine)),
                "regions": Out(RegionTable(machine)),
                "watchdog": Out(32, init=WATCHDOG_CYCLES),
                "start": Out(1),
                "stop": Out(1),
                "reset": Out(1),
                "interrupt": Out(1),
                "is_busy": In(1),
                "is_done": In(1),
                "is_open": In(1),
                "has_fault": In(1),
                "fault": In(FAULT_LAYOUT),
                "counters": In(CounterValues(machine)),
            }
        )
        self.enabled, self.pending = Signal(name="interrupt_enable"), Signal(name="interrupt_pending")
        self.upper = Signal(32, name="upper", reset_less=True)  # of the counter whose lower word was read last

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        self.build_reads(m)
        self.build_writes(m)
        self.build_interrupt(m)
        with m.If(self.reset):
            m.d.sync += [self.regions.eq(0), self.watchdog.eq(WATCHDOG_CYCLES), self.enabled.eq(0), self.pending.eq(0)]
        return m

    def build_reads(self, m: Module) -> None:
        bus = self.s_axi
        m.d.comb += [bus.arready.eq(~bus.rvalid | bus.rready)]
        with m.If(bus.arready):
            m.d.sync += bus.rvalid.eq(bus.arvalid)
            with m.Switch(bus.araddr[2:]):
                for register in self.map:
                    for word in range(register.words):
                        with m.Case((register.offset >> 2) + word):
                            self.build_read(m, register, word)
                with m.Default():
                    m.d.sync += bus.rdata.eq(0)

    def build_read(self, m: Module, register: Register, word: int) -> None:
        value = self.value_of(register.name)
        if not register.is_latched:
            m.d.sync += self.s_axi.rdata.eq(value.shift_right(32 * word))
        elif word == 0:
            m.d.sync += self.s_axi.rdata.eq(value)
            with m.If(self.s_axi.arvalid):
                m.d.sync += self.upper.eq(value.shift_right(32))
        else:
            m.d.sync += self.s_axi.rdata.eq(self.upper)

    def value_of(self, name: str) -> Value:
        match name.split("."):
            case ["id"]:
                return Value.cast(ID)
            case ["isa_hash"]:
                return Value.cast(isa_hash_word(self.machine))
            case ["version"]:
                return Value.cast(VERSION)
            case ["control"]:
                return Value.cast(0)
            case ["status"]:
                is_set = {
                    "busy": self.is_busy | self.start,
                    "done": self.is_done & ~self.start,
                    "fault": self.has_fault & ~self.start,
                    "open": self.is_open & ~self.is_busy,
                }
                return Cat(is_set[name] for name in bits_of("status"))
            case ["interrupt_enable"]:
                return self.enabled
            case ["interrupt_pending"]:
                return self.pending
            case ["watchdog"]:
                return self.watchdog
            case ["fault_code"]:
                return self.fault.code
            case ["fault_instruction"]:
                return self.fault.instruction
            case ["fault_address"]:
                return self.fault.address
            case ["counter", *counter]:
                return self.counters[".".join(counter)]
            case [region, member]:
                return self.regions[region][member]
            case _:
                raise AssertionError(name)

    def build_writes(self, m: Module) -> None:
        bus = self.s_axi
        accepted = Signal()
        m.d.comb += [
            accepted.eq(bus.awvalid & bus.wvalid & (~bus.bvalid | bus.bready)),
            bus.awready.eq(accepted),
            bus.wready.eq(accepted),
        ]
        with m.If(~bus.bvalid | bus.bready):
            m.d.sync += bus.bvalid.eq(accepted)
        m.d.sync += [self.start.eq(0), self.stop.eq(0), self.reset.eq(0)]
        is_free = ~self.is_busy & ~self.start
        with m.If(accepted), m.Switch(bus.awaddr[2:]):
            for register in self.map:
                if not register.is_writable:
                    continue
                for word in range(register.words):
                    with m.Case((register.offset >> 2) + word):
                        self.build_write(m, register.name, word, is_free)

    def build_write(self, m: Module, name: str, word: int, is_free: Value) -> None:
        """Take the bytes of the bus whose strobe is set."""
        written, strobes = self.s_axi.wdata, self.s_axi.wstrb
        match name:
            case "control":
                bits = bits_of("control")
                m.d.sync += [
                    self.start.eq(written[bits["start"]] & strobes[0] & is_free & ~self.is_open),
                    self.stop.eq(written[bits["stop"]] & strobes[0]),
                    self.reset.eq(written[bits["reset"]] & strobes[0]),
                ]
            case "interrupt_pending":
                with m.If(written[bits_of(name)["done"]] & strobes[0]):
                    m.d.sync += self.pending.eq(0)
            case "interrupt_enable":
                self.build_bytes(m, self.enabled, 0, Const(1, 1))
            case _:
                lowest = REGION_ALIGNMENT_BYTES.bit_length() - 1 if name.endswith(".base") and word == 0 else 0
                self.build_bytes(m, Value.cast(self.value_of(name))[32 * word :][:32], lowest, is_free)

    def build_bytes(self, m: Module, value: Value, lowest: int, is_taken: Value) -> None:
        """The written bytes of a word, from its `lowest` bit on."""
        for byte, strobe in enumerate(self.s_axi.wstrb):
            first, end = max(lowest, 8 * byte), min(8 * byte + 8, len(value))
            if first < end:
                with m.If(strobe & is_taken):
                    m.d.sync += value[first:end].eq(self.s_axi.wdata[first:end])

    def build_interrupt(self, m: Module) -> None:
        """Pending from the cycle after the end of a run; an end counts more than an acknowledgement in its cycle."""
        was_done = Signal(init=0)
        m.d.sync += was_done.eq(self.is_done)
        with m.If(self.is_done & ~was_done):
            m.d.sync += self.pending.eq(1)
        with m.If(self.start):
            m.d.sync += self.pending.eq(0)
        m.d.comb += self.interrupt.eq(self.enabled & self.pending)


def isa_hash_word(machine: Machine) -> int:
    return int(machine.hash[:8], 16)
