"""The buses at the machine's edge (AXI4, AXI4-Lite: ARM IHI 0022), and the read channel, which all who read share."""

from __future__ import annotations

from amaranth.hdl import Const, Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from tilewright.isa.machine.engine import Direction
from tilewright.isa.machine.machine import FETCH_PORT, Machine
from tilewright.isa.timing import BURST_BEATS
from tilewright.rtl.outline import outlined

ADDRESS_BITS = 64
"""The bits of a DRAM address on the bus."""

INCREMENTING = 1
"""AxBURST: the address grows from beat to beat."""

BUFFERABLE = 0b0011
"""AxCACHE: normal memory, which nobody need cache and an interconnect may buffer."""

UNPRIVILEGED_DATA = 0b000
"""AxPROT: a secure, unprivileged access to data."""

FETCH = "fetch"


READS, WRITES = ("ar", "r"), ("aw", "w", "b")
"""The channels of a port through which somebody reads, and of one through which an engine writes."""


def port_name(port: int) -> str:
    """What an AXI port is called at the machine's edge: `m_axi`, `m_axi1`, …"""
    return f"m_axi{port or ''}"


def read_clients(machine: Machine, port: int) -> tuple[str, ...]:
    """Who reads DRAM through a port: fetch, if it is fetch's, then the DMA engines that do, in file order.

    That is the order of their claim to the read address register, and the position is the ID of their bursts.
    """
    engines = (f"dma{position}" for position, _ in enumerate(machine.on_port(port, Direction.IN)))
    return (*((FETCH,) if port == FETCH_PORT else ()), *engines)


def read_channels(machine: Machine) -> tuple[int, ...]:
    """The ports through which somebody reads: each has a read channel."""
    return tuple(port for port in range(machine.dram.ports) if read_clients(machine, port))


def read_channel_name(port: int) -> str:
    """What a port's read channel is called within the machine: `read_channel`, `read_channel1`, …"""
    return f"read_channel{port or ''}"


def id_bits(machine: Machine, port: int) -> int:
    """Bits of the ID of a burst: one at the least, since AXI has it."""
    return max(1, (len(read_clients(machine, port)) - 1).bit_length())


def axi_signature(machine: Machine, port: int) -> Signature:
    """AXI4 from the manager's side, without the channels that nobody uses and signals that all tools can do without."""
    bus_bytes, bits = machine.dram.bus_bytes, id_bits(machine, port)
    address = {
        "id": Out(bits),
        "addr": Out(ADDRESS_BITS),
        "len": Out(8),
        "size": Out(3),
        "burst": Out(2),
        "cache": Out(4),
        "prot": Out(3),
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
    read = {"id": In(bits), "data": In(8 * bus_bytes), "resp": In(2), "last": In(1), "valid": In(1), "ready": Out(1)}
    response = {"id": In(bits), "resp": In(2), "valid": In(1), "ready": Out(1)}
    channels = {"ar": address, "r": read, "aw": address, "w": write, "b": response}
    used = (READS if read_clients(machine, port) else ()) + (WRITES if machine.on_port(port, Direction.OUT) else ())
    return Signature({f"{name}{member}": way for name in used for member, way in channels[name].items()})


def axi_lite_signature(address_bits: int) -> Signature:
    """AXI4-Lite with 32-bit data from the subordinate's side."""
    return Signature(
        {
            "awaddr": In(address_bits),
            "awprot": In(3),
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
            "arprot": In(3),
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
    """Puts the bursts of fetch and of DMA engines on a port, in the order of `read_clients`, and gives each its beats.

    Fetch asks for what it has room for and takes each beat at once. Those of an engine wait on the bus until it is
    ready, which it is in the end whatever else happens, so that no beat behind them waits for ever. `is_idle`: every
    beat has come. `is_owed`: the bus has neither accepted a burst nor offered a beat in this cycle, though it has to.
    A beat that nobody asked for, such as one of a burst from before a reset, is accepted and given to nobody.
    """

    def __init__(self, machine: Machine, port: int) -> None:
        self.bus_bytes = machine.dram.bus_bytes
        self.clients = read_clients(machine, port)
        self.engines = tuple(client for client in self.clients if client != FETCH)
        bus = axi_signature(machine, port).members
        super().__init__(
            {
                **{name: direction for name, direction in bus.items() if name.startswith(READS)},
                **{f"{client}_request": In(stream.Signature(BurstRequest())) for client in self.clients},
                **({"fetch_beat": Out(ReadBeatSignature(self.bus_bytes))} if FETCH in self.clients else {}),
                **{f"{client}_beat": Out(stream.Signature(ReadBeat(self.bus_bytes))) for client in self.engines},
                "is_idle": Out(1),
                "is_owed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        if place := outlined(self, platform):
            return place
        m = Module()
        m.submodules.address = address = AddressRegister()
        is_open = self.build_idle(m)
        client, taken = Signal(range(len(self.clients))), Const(0, 1)
        requests = [getattr(self, f"{name}_request") for name in self.clients]
        for request in requests:
            m.d.comb += request.ready.eq(address.input.ready & ~taken)
            taken = taken | request.valid
        m.d.comb += address.input.valid.eq(taken)
        for number, request in reversed(list(enumerate(requests))):  # of all that ask, the first counts
            with m.If(request.valid):
                m.d.comb += [client.eq(number), address.input.payload.eq(request.payload)]
        with m.If(address.input.ready):
            m.d.sync += self.arid.eq(client)
        m.d.comb += [
            self.araddr.eq(address.output.payload.address),
            self.arlen.eq(address.output.payload.last_beat),
            self.arsize.eq((self.bus_bytes - 1).bit_length()),
            self.arburst.eq(INCREMENTING),
            self.arcache.eq(BUFFERABLE),
            self.arprot.eq(UNPRIVILEGED_DATA),
            self.arvalid.eq(address.output.valid),
            address.output.ready.eq(self.arready),
        ]
        waits = Const(0, 1)
        for number, name in enumerate(self.clients):
            beat = getattr(self, f"{name}_beat")
            if name in self.engines:
                waits = waits | ((self.rid == number) & ~beat.ready)
            m.d.comb += [
                beat.valid.eq(self.rvalid & is_open & (self.rid == number)),
                beat.payload.data.eq(self.rdata),
                beat.payload.error.eq(self.rresp[1]),
            ]
        m.d.comb += self.rready.eq(~waits | ~is_open)
        return m

    def build_idle(self, m: Module) -> Signal:
        """Count bursts from their acceptance to their last beat; returns whether there are any."""
        open_bursts, is_open = Signal(16, name="open_bursts"), Signal(name="is_open")
        opened, closed = self.arvalid & self.arready, self.rvalid & self.rready & self.rlast & is_open
        m.d.sync += open_bursts.eq(open_bursts + opened - closed)
        m.d.comb += [
            is_open.eq(open_bursts != 0),
            self.is_idle.eq(~is_open & ~self.arvalid),
            self.is_owed.eq(~self.is_idle & ~opened & ~self.rvalid),
        ]
        return is_open
