"""The buses at the machine's edge (AXI4, AXI4-Lite: ARM IHI 0022), and the read channel that fetch and load share."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS
from tilewright.rtl.outline import outlined

ADDRESS_BITS = 64
"""The bits of a DRAM address on the bus."""

INCREMENTING = 1
"""AxBURST: the address grows from beat to beat."""

READ_CLIENTS = FETCH, DMA = ("fetch", "dma")
"""Who reads DRAM, in the order of their claim to the read address register; the position is the ID of their bursts."""


def axi_signature(bus_bytes: int) -> Signature:
    """AXI4 from the manager's side, without the signals that have a default."""
    address = {
        "id": Out(1),
        "addr": Out(ADDRESS_BITS),
        "len": Out(8),
        "size": Out(3),
        "burst": Out(2),
        "valid": Out(1),
        "ready": In(1),
    }
    write = {
        "data": Out(8 * bus_bytes),
        "strb": Out(bus_bytes),
        "last": Out(1),
        "valid": Out(1),
        "ready": In(1),
    }
    read = {"id": In(1), "data": In(8 * bus_bytes), "resp": In(2), "last": In(1), "valid": In(1), "ready": Out(1)}
    response = {"id": In(1), "resp": In(2), "valid": In(1), "ready": Out(1)}
    channels = {"ar": address, "r": read, "aw": address, "w": write, "b": response}
    return Signature(
        {f"{name}{member}": direction for name, channel in channels.items() for member, direction in channel.items()}
    )


def axi_lite_signature(address_bits: int) -> Signature:
    """AXI4-Lite with 32-bit data from the subordinate's side."""
    return Signature(
        {
            "awaddr": In(address_bits),
            "awvalid": In(1),
            "awready": Out(1),
            "wdata": In(32),
            "wstrb": In(4),
            "wvalid": In(1),
            "wready": Out(1),
            "bresp": Out(2),
            "bvalid": Out(1),
            "bready": In(1),
            "araddr": In(address_bits),
            "arvalid": In(1),
            "arready": Out(1),
            "rdata": Out(32),
            "rresp": Out(2),
            "rvalid": Out(1),
            "rready": In(1),
        }
    )


class BurstRequest(data.StructLayout):
    """A burst as the address channels carry it: byte address and beats minus one."""

    def __init__(self) -> None:
        super().__init__({"address": unsigned(ADDRESS_BITS), "last_beat": unsigned((BURST_BEATS - 1).bit_length())})


class ReadBeat(data.StructLayout):
    """A beat that was read, and whether the bus reports an error."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__({"data": unsigned(8 * bus_bytes), "error": unsigned(1)})


class ReadBeatSignature(Signature):
    """A beat that its receiver must take in the cycle in which it comes."""

    def __init__(self, bus_bytes: int) -> None:
        super().__init__({"valid": Out(1), "payload": Out(ReadBeat(bus_bytes))})


class AddressRegister(wiring.Component):
    """The output register of an address channel: a request that enters in cycle t is on the bus from t+1 on."""

    def __init__(self) -> None:
        super().__init__(
            {
                "input": In(stream.Signature(BurstRequest())),
                "output": Out(stream.Signature(BurstRequest())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.input.ready.eq(~self.output.valid | self.output.ready)
        with m.If(self.input.ready):
            m.d.sync += [self.output.valid.eq(self.input.valid), self.output.payload.eq(self.input.payload)]
        return m


class ReadChannel(wiring.Component):
    """Puts the bursts of fetch and load on the bus, fetch's first, and gives each its beats.

    Fetch asks for what it has room for and takes each beat at once. Load's wait on the bus until it is ready, which it
    is in the end whatever else happens, so that no beat behind them waits for ever. `is_idle`: every beat has come.
    """

    def __init__(self, machine: Machine) -> None:
        self.bus_bytes = machine.dram.bus_bytes
        bus = axi_signature(self.bus_bytes).members
        super().__init__(
            {
                **{name: direction for name, direction in bus.items() if name.startswith(("ar", "r"))},
                **{f"{client}_request": In(stream.Signature(BurstRequest())) for client in READ_CLIENTS},
                "fetch_beat": Out(ReadBeatSignature(self.bus_bytes)),
                "dma_beat": Out(stream.Signature(ReadBeat(self.bus_bytes))),
                "is_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.address = address = AddressRegister()
        client = Signal(range(len(READ_CLIENTS)))
        fetch, dma = self.fetch_request, self.dma_request
        m.d.comb += [
            client.eq(Mux(fetch.valid, READ_CLIENTS.index(FETCH), READ_CLIENTS.index(DMA))),
            address.input.valid.eq(fetch.valid | dma.valid),
            address.input.payload.eq(Mux(fetch.valid, fetch.payload, dma.payload)),
            fetch.ready.eq(address.input.ready),
            dma.ready.eq(address.input.ready & ~fetch.valid),
        ]
        with m.If(address.input.ready):
            m.d.sync += self.arid.eq(client)
        m.d.comb += [
            self.araddr.eq(address.output.payload.address),
            self.arlen.eq(address.output.payload.last_beat),
            self.arsize.eq((self.bus_bytes - 1).bit_length()),
            self.arburst.eq(INCREMENTING),
            self.arvalid.eq(address.output.valid),
            address.output.ready.eq(self.arready),
            self.rready.eq((self.rid != READ_CLIENTS.index(DMA)) | self.dma_beat.ready),
        ]
        for number, name in enumerate(READ_CLIENTS):
            beat = getattr(self, f"{name}_beat")
            m.d.comb += [
                beat.valid.eq(self.rvalid & (self.rid == number)),
                beat.payload.data.eq(self.rdata),
                beat.payload.error.eq(self.rresp[1]),
            ]
        self.build_idle(m)
        return m

    def build_idle(self, m: Module) -> None:
        """Count bursts from their acceptance to their last beat."""
        open_bursts = Signal(16)
        opened, closed = self.arvalid & self.arready, self.rvalid & self.rready & self.rlast
        m.d.sync += open_bursts.eq(open_bursts + opened - closed)
        m.d.comb += self.is_idle.eq((open_bursts == 0) & ~self.arvalid)
