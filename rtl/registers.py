"""The host's view of the machine: AXI4-Lite registers, laid out by one table from which the host's code follows too."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES
from tilewright.rtl.bus import axi_lite_signature
from tilewright.rtl.counters import CounterValues, counter_names
from tilewright.rtl.interfaces import FAULT_LAYOUT
from tilewright.rtl.outline import outlined
from tilewright.rtl.runs import RegionTable

WORD_BYTES = 4
ID = int.from_bytes(b"TWN2", "big")
"""The content of the first register: a Tilewright NPU whose instructions have lengths of their own.

Hardware with TWNP there, of the same machine, reads instructions of one length.
"""

CONTROL_START = 0
"""The bit of the control register that starts a run."""

STATUS_BITS = {"busy": 0, "done": 1, "fault": 2}
"""The bits of the status register."""

_STATUS = {"busy": "busy", "done": "done, with or without a fault", "fault": "fault"}


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one 32-bit word, or of two for 64 bits, the lower first."""

    name: str
    offset: int  # bytes
    words: int
    is_writable: bool
    about: str


def register_map(machine: Machine) -> tuple[Register, ...]:
    """Every register of a machine, in the order of their offsets."""
    entries = [
        ("id", 1, False, f"{ID:#010x}, on every machine"),
        ("isa_hash", 1, False, "the first 32 bits of the machine's hash, as in the binaries made for it"),
        ("control", 1, True, f"bit {CONTROL_START}, when written as 1: start; ignored while busy. Reads as 0"),
        ("status", 1, False, "; ".join(f"bit {bit}: {_STATUS[name]}" for name, bit in STATUS_BITS.items())),
        ("fault_code", 1, False, "why the machine stopped; 0: no fault"),
        ("fault_instruction", 1, False, "the instruction at fault, counted from the program's start"),
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


def _about_counter(name: str) -> str:
    match name.split("."):
        case ["cycles"]:
            return "cycles from start to done"
        case ["dram_bytes_read"]:
            return "bytes of the beats read, fetch included"
        case ["dram_bytes_written"]:
            return "bytes written"
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
    """The AXI4-Lite subordinate. `start` is set in the cycle after the host's write that starts an idle machine.

    Region registers keep their values while the machine is busy; the low bits of a base, which is aligned, are zero.
    An offset without a register reads as zero and ignores writes.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.map = register_map(machine)
        super().__init__(
            {
                "s_axi": Out(host_signature(machine)),
                "regions": Out(RegionTable(machine)),
                "start": Out(1),
                "is_busy": In(1),
                "is_done": In(1),
                "has_fault": In(1),
                "fault": In(FAULT_LAYOUT),
                "counters": In(CounterValues(machine)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        self.build_reads(m)
        self.build_writes(m)
        return m

    def build_reads(self, m: Module) -> None:
        bus = self.s_axi
        m.d.comb += [bus.arready.eq(~bus.rvalid | bus.rready)]
        with m.If(bus.arready):
            m.d.sync += bus.rvalid.eq(bus.arvalid)
            with m.Switch(bus.araddr[2:]):
                for register in self.map:
                    value = self.value_of(register.name)
                    for word in range(register.words):
                        with m.Case((register.offset >> 2) + word):
                            m.d.sync += bus.rdata.eq(value.shift_right(32 * word))
                with m.Default():
                    m.d.sync += bus.rdata.eq(0)

    def value_of(self, name: str) -> Value:
        match name.split("."):
            case ["id"]:
                return Value.cast(ID)
            case ["isa_hash"]:
                return Value.cast(isa_hash_word(self.machine))
            case ["control"]:
                return Value.cast(0)
            case ["status"]:
                is_set = {
                    "busy": self.is_busy | self.start,
                    "done": self.is_done & ~self.start,
                    "fault": self.has_fault & ~self.start,
                }
                return Cat(is_set[name] for name in sorted(STATUS_BITS, key=STATUS_BITS.__getitem__))
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
        m.d.sync += self.start.eq(0)
        with m.If(accepted & ~self.is_busy & ~self.start), m.Switch(bus.awaddr[2:]):
            for register in self.map:
                if not register.is_writable:
                    continue
                for word in range(register.words):
                    with m.Case((register.offset >> 2) + word):
                        self.build_write(m, register.name, word)

    def build_write(self, m: Module, name: str, word: int) -> None:
        """Take the bytes of the bus whose strobe is set."""
        written, strobes = self.s_axi.wdata, self.s_axi.wstrb
        if name == "control":
            m.d.sync += self.start.eq(written[CONTROL_START] & strobes[0])
            return
        value = Value.cast(self.value_of(name))
        lowest = REGION_ALIGNMENT_BYTES.bit_length() - 1 if name.endswith(".base") and word == 0 else 0
        for byte, strobe in enumerate(strobes):
            first, end = max(lowest, 8 * byte), min(8 * byte + 8, len(value) - 32 * word)
            if first < end:
                with m.If(strobe):
                    m.d.sync += value[32 * word + first : 32 * word + end].eq(written[first:end])


def isa_hash_word(machine: Machine) -> int:
    return int(machine.hash[:8], 16)
