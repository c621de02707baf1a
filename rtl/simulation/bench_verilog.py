"""The SystemVerilog around a simulated machine: the memory behind the bus, a trace, access to on-chip memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Template

from amaranth.lib.wiring import In

from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.rtl.bus import ADDRESS_BITS, axi_signature, id_bits, port_name
from tilewright.rtl.memory_wrappers import WORDS
from tilewright.rtl.ports import built_memory, ways_of
from tilewright.rtl.registers import host_signature
from tilewright.rtl.verilog import TOP

BENCH = "bench"
"""The name of the top module, which also names its control file."""

TEMPLATE = Path(__file__).with_name("bench.sv")
"""The module, with `${…}` where it follows from the machine."""

PORT_TEMPLATE = TEMPLATE.with_name("port.sv")
"""What stands in the module for each AXI port; the signals of a port behind the first have its number at their end."""

TIED = {
    **dict.fromkeys(("arready", "awready", "wready"), "1'b1"),
    **{"rresp": "{rerror%s, 1'b0}", "bresp": "{berror%s, 1'b0}", "bid": "'0"},
}
"""Inputs of the machine that are no signals of the memory's, with the port's number at `%s`."""

WAVES_TEMPLATE = TEMPLATE.with_name("waves.sv")
"""What stands in the module besides, if it writes waves."""

SIGNS = TEMPLATE.with_name("signs.h")
"""C++ that takes the place of Verilator's arithmetic of signed numbers."""


def bench_verilog(machine: Machine, has_waves: bool = False) -> str:
    """Module `bench`: the machine with its AXI4-Lite at the edge and the memory of bench.cpp behind its AXI4.

    A clock edge with `clear` set zeroes all on-chip memories; one with `dump` set hands every word of them to
    bench.cpp.
    """
    word_bits = max((8 * memory.word_bytes for memory in machine.memories.values()), default=8)
    host = host_signature(machine).members
    host_ports = [(name, "input" if member.flow is In else "output", member.shape) for name, member in host.items()]
    ports = ",\n".join(f"    {way} [{width - 1}:0] host_{name}" for name, way, width in host_ports)
    host_links = ",\n".join(f"        .s_axi_{name}(host_{name})" for name, _, _ in host_ports)
    return Template(TEMPLATE.read_text()).substitute(
        bench=BENCH,
        top=TOP,
        ports=ports,
        host_links=host_links,
        bus_links=",\n".join(f"        {link}" for port in range(machine.dram.ports) for link in _links(machine, port)),
        buses="\n".join(_bus(machine, port) for port in range(machine.dram.ports)),
        data_high=8 * machine.dram.bus_bytes - 1,
        strobe_high=machine.dram.bus_bytes - 1,
        word_high=word_bits - 1,
        engine_high=len(machine.engines) - 1,
        clear=_lines(_clear(machine)),
        dump=_lines(_dump(machine)),
        waves=_waves(machine) if has_waves else "",
        signs=SIGNS.read_text(),
    )


def _links(machine: Machine, port: int) -> Iterator[str]:
    """The machine's pins of an AXI port, and what each is connected to."""
    n, taken = f"{port or ''}", _taken(machine, port)
    for name, member in axi_signature(machine, port).members.items():
        to = f"{name}{n}" if member.flow is In or name in taken else ""
        yield f".{port_name(port)}_{name}({TIED.get(name, to).replace('%s', n)})"


def _bus(machine: Machine, port: int) -> str:
    """The signals of an AXI port, and its memory."""
    n, there = f"{port or ''}", axi_signature(machine, port).members
    ends = {name: f"{n};" if name in there else f"{n} = '0;" for name in _taken(machine, port)}
    wires = "\n".join(f"    wire [{bits - 1}:0] {name}{ends[name]}" for name, bits in _taken(machine, port).items())
    return Template(PORT_TEMPLATE.read_text()).substitute(
        port=port, n=n, wires=wires, id_high=id_bits(machine, port) - 1, data_high=8 * machine.dram.bus_bytes - 1
    )


def _taken(machine: Machine, port: int) -> dict[str, int]:
    """The bits of the signals that the memory takes from a port."""
    bus_bytes = machine.dram.bus_bytes
    bits = {"rready": 1, "arvalid": 1, "arid": id_bits(machine, port), "araddr": ADDRESS_BITS, "arlen": 8}
    writes = {"awvalid": 1, "awaddr": ADDRESS_BITS, "wvalid": 1, "wlast": 1, "wdata": 8 * bus_bytes, "wstrb": bus_bytes}
    return {**bits, **writes}


def _waves(machine: Machine) -> str:
    """Signals for each engine, and the calls that set them."""
    declared = [f"int {e}_instruction; bit [191:0] {e}_mnemonic; bit [319:0] {e}_layer;" for e in machine.engines]
    set_ = [f"tilewright_shown({n}, {e}_instruction, {e}_mnemonic, {e}_layer);" for n, e in enumerate(machine.engines)]
    return Template(WAVES_TEMPLATE.read_text()).substitute(
        signals="\n".join(f"    {line}" for line in declared), show=_lines(iter(set_))
    )


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)


def _clear(machine: Machine) -> Iterator[str]:
    for memory in machine.memories.values():
        if memory.name in machine.table_memories:
            for lane in _lanes(machine, memory):
                yield f"for (int row = 0; row < {memory.depth}; row++) {lane}[row] <= '0;"
            continue
        for storage, _, _, rows in _storages(machine, memory):
            yield f"for (int row = 0; row < {rows}; row++) {storage}[row] <= '0;"


def _dump(machine: Machine) -> Iterator[str]:
    for number, memory in enumerate(machine.memories.values()):
        if memory.name in machine.table_memories:
            word = ", ".join(reversed(_elements(machine, memory)))
            yield f"for (int row = 0; row < {memory.depth}; row++) tilewright_dump({number}, row, {{{word}}});"
            continue
        ways, built = ways_of(machine, memory), built_memory(machine, memory)
        for storage, bank, way, rows in _storages(machine, memory):
            place = f"row * {ways} + {way}"
            word = f"{bank * built.bank_depth} + {place}"
            if built.is_interleaved:
                word = f"{bank} + {built.banks} * ({place})"
            yield (
                f"for (int row = 0; row < {rows}; row++) if ({place} < {built.bank_depth}) "
                f"tilewright_dump({number}, {word}, {storage}[row]);"
            )


def _lanes(machine: Machine, memory: Memory) -> list[str]:
    """The array of each lane that looks up in a memory of tables."""
    lanes = machine.looking_up(memory.name).vector.lanes
    return [f"{TOP}.{memory.name}.lane{lane}.{WORDS}" for lane in range(lanes)]


def _elements(machine: Machine, memory: Memory) -> list[str]:
    """Where each element of a row's word is: a lane has one, or one of each part of the word."""
    lanes, bits = _lanes(machine, memory), memory.element.bits
    if len(lanes) == memory.width:
        return [f"{lane}[row]" for lane in lanes]
    return [
        f"{lanes[element % len(lanes)]}[row][{element // len(lanes) * bits} +: {bits}]"
        for element in range(memory.width)
    ]


def _storages(machine: Machine, memory: Memory) -> Iterator[tuple[str, int, int, int]]:
    """Of every way of every bank: its array in the netlist, the bank, the way, and its rows."""
    ways, built = ways_of(machine, memory), built_memory(machine, memory)
    for bank in range(built.banks):
        for way in range(ways):
            yield f"{TOP}.{memory.name}.bank{bank}.way{way}.{WORDS}", bank, way, -(-built.bank_depth // ways)
