"""The SystemVerilog around a simulated machine: the memory behind the bus, a trace, access to on-chip memories."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.lib.wiring import In

from tilewright.isa.machine.machine import ENGINES, Machine
from tilewright.isa.machine.memory import Memory
from tilewright.rtl.memory import ways_of
from tilewright.rtl.registers import host_signature
from tilewright.rtl.verilog import TOP

BENCH = "bench"
"""The name of the top module, which also names its control file."""


def bench_verilog(machine: Machine) -> str:
    """Module `bench`: the machine with its AXI4-Lite at the edge and the memory of bench.cpp behind its AXI4.

    A clock edge with `clear` set zeroes all on-chip memories; one with `dump` set hands every word of them to
    bench.cpp.
    """
    bus_bytes = machine.dram.bus_bytes
    word_bits = max((8 * memory.word_bytes for memory in machine.memories.values()), default=8)
    host = host_signature(machine).members
    host_ports = [(name, "input" if member.flow is In else "output", member.shape) for name, member in host.items()]
    ports = ",\n".join(f"    {way} [{width - 1}:0] host_{name}" for name, way, width in host_ports)
    host_links = ",\n".join(f"        .s_axi__{name}(host_{name})" for name, _, _ in host_ports)
    return f"""\
module {BENCH} (
    input clock,
    input reset,
    input clear,
    input dump,
    output done,
{ports}
);
    import "DPI-C" function void tilewright_cycle(
        input bit reset, input bit running, input int started, input int retired,
        input bit arvalid, input bit arid, input longint araddr, input int arlen,
        input bit awvalid, input longint awaddr,
        input bit wvalid, input bit wlast,
        input bit [{8 * bus_bytes - 1}:0] wdata, input bit [{bus_bytes - 1}:0] wstrb,
        output bit rvalid, output bit rid, output bit rlast, output bit rerror,
        output bit [{8 * bus_bytes - 1}:0] rdata,
        output bit bvalid, output bit berror);
    import "DPI-C" function void tilewright_dump(
        input int memory, input int address, input bit [{word_bits - 1}:0] data);

    wire running, arvalid, arid, awvalid, wvalid, wlast;
    wire [{len(ENGINES) - 1}:0] started, retired;
    wire [63:0] araddr, awaddr;
    wire [7:0] arlen;
    wire [{8 * bus_bytes - 1}:0] wdata;
    wire [{bus_bytes - 1}:0] wstrb;
    bit rvalid, rid, rlast, rerror, bvalid, berror;
    bit rvalid_next, rid_next, rlast_next, rerror_next, bvalid_next, berror_next;
    bit [{8 * bus_bytes - 1}:0] rdata, rdata_next;

    {TOP} {TOP} (
        .clk(clock), .rst(resets), .done(done), .running(running), .started(started), .retired(retired),
        .m_axi__arvalid(arvalid), .m_axi__arready(1'b1), .m_axi__arid(arid), .m_axi__araddr(araddr),
        .m_axi__arlen(arlen), .m_axi__arsize(), .m_axi__arburst(), .m_axi__rvalid(rvalid), .m_axi__rready(),
        .m_axi__rid(rid), .m_axi__rdata(rdata), .m_axi__rresp({{rerror, 1'b0}}), .m_axi__rlast(rlast),
        .m_axi__awvalid(awvalid), .m_axi__awready(1'b1), .m_axi__awid(), .m_axi__awaddr(awaddr), .m_axi__awlen(),
        .m_axi__awsize(), .m_axi__awburst(), .m_axi__wvalid(wvalid), .m_axi__wready(1'b1), .m_axi__wdata(wdata),
        .m_axi__wstrb(wstrb), .m_axi__wlast(wlast), .m_axi__bvalid(bvalid), .m_axi__bready(), .m_axi__bid(1'b0),
        .m_axi__bresp({{berror, 1'b0}}),
{host_links}
    );

    // From a register: Verilator evaluates what depends on an input, without a register between, at every clock edge.
    bit resets;
    always @(posedge clock) resets <= reset;

    always @(posedge clock) begin
        tilewright_cycle(resets, running, int'(started), int'(retired),
            arvalid, arid, araddr, int'(arlen), awvalid, awaddr, wvalid, wlast, wdata, wstrb,
            rvalid_next, rid_next, rlast_next, rerror_next, rdata_next, bvalid_next, berror_next);
        rvalid <= rvalid_next;
        rid <= rid_next;
        rlast <= rlast_next;
        rerror <= rerror_next;
        rdata <= rdata_next;
        bvalid <= bvalid_next;
        berror <= berror_next;
    end

    always @(posedge clock) if (clear) begin
{_lines(_clear(machine))}
    end

    always @(posedge clock) if (dump) begin
{_lines(_dump(machine))}
    end
endmodule
"""


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)


def _clear(machine: Machine) -> Iterator[str]:
    for memory in machine.memories.values():
        if memory.name in machine.table_memories:
            for lane in _lanes(memory):
                yield f"for (int row = 0; row < {memory.depth}; row++) {lane}[row] <= '0;"
            continue
        for storage, _, _, rows in _storages(machine, memory):
            yield f"for (int row = 0; row < {rows}; row++) {storage}[row] <= '0;"


def _dump(machine: Machine) -> Iterator[str]:
    for number, memory in enumerate(machine.memories.values()):
        if memory.name in machine.table_memories:
            word = ", ".join(f"{lane}[row]" for lane in reversed(_lanes(memory)))
            yield f"for (int row = 0; row < {memory.depth}; row++) tilewright_dump({number}, row, {{{word}}});"
            continue
        ways = ways_of(machine, memory)
        for storage, bank, way, rows in _storages(machine, memory):
            place = f"row * {ways} + {way}"
            yield (
                f"for (int row = 0; row < {rows}; row++) if ({place} < {memory.bank_depth}) "
                f"tilewright_dump({number}, {bank * memory.bank_depth} + {place}, {storage}[row]);"
            )


def _lanes(memory: Memory) -> list[str]:
    """The array of each lane of a memory of tables."""
    return [f"{TOP}.{memory.name}.lane{lane}" for lane in range(memory.width)]


def _storages(machine: Machine, memory: Memory) -> Iterator[tuple[str, int, int, int]]:
    """Of every way of every bank: its array in the netlist, the bank, the way, and its rows."""
    ways = ways_of(machine, memory)
    for bank in range(memory.banks):
        for way in range(ways):
            yield f"{TOP}.{memory.name}.bank{bank}.way{way}", bank, way, -(-memory.bank_depth // ways)
