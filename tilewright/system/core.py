"""A machine as a LiteX core: its registers, its interrupt, and its buses as LiteX's own interfaces.

    core = NpuCore(platform, machine)
    soc.submodules.npu = core
    soc.bus.add_slave("npu", core.registers, SoCRegion(origin=0x8000_0000, size=core.register_bytes, cached=False))
    for number, manager in enumerate(core.managers):
        soc.bus.add_master(f"npu{number}", manager)
    soc.irq.add("npu")

https://github.com/enjoy-digital/litex. The Verilog is `core.verilog`; whoever builds adds it to the sources.
"""

from __future__ import annotations

from typing import Any

from amaranth.lib.wiring import In
from litex.gen import LiteXModule
from litex.soc.interconnect import axi
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import Cat, ClockSignal, Constant, Instance, ResetSignal, Signal

from tilewright.isa.machine.machine import Machine
from tilewright.rtl.bus import axi_signature, port_name
from tilewright.rtl.registers import host_signature
from tilewright.rtl.verilog import TOP

ADDRESS_BITS = 32
"""Of LiteX's buses. The upper bits of what the machine sends are 0 there."""

LITE = {"aw": "addr prot", "w": "data strb", "b": "resp", "ar": "addr prot", "r": "data resp"}
"""The payload of AXI4-Lite's channels."""

LEAST_BYTES = 4096
"""LiteX decodes addresses by powers of two."""


class NpuCore(LiteXModule):
    """The machine in the clock domain `sys`.

    `registers` is AXI4-Lite, `managers` are AXI4, one for each port of the machine. `running` and `done` are its pins.
    Addresses of bursts are those of whole beats: LiteX's converters of widths take no others.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.running, self.done, interrupt = Signal(), Signal(), Signal()
        pins = {"i_clk": ClockSignal(), "i_rst": ResetSignal(), "o_irq": interrupt}
        pins |= {"o_running": self.running, "o_done": self.done}
        self.registers = axi.AXILiteInterface(data_width=32, address_width=ADDRESS_BITS)
        self.managers = [self._manager(port) for port in range(machine.dram.ports)]
        for name, member in host_signature(machine).members.items():
            pins[f"{'i' if member.flow is In else 'o'}_s_axi_{name}"] = self._register_pin(name, member.shape)
        for port, manager in enumerate(self.managers):
            pins |= self._port_pins(port, manager)
        self.ev = EventManager()
        self.ev.run = EventSourceLevel(description="A run has ended.")
        self.ev.finalize()
        self.comb += self.ev.run.trigger.eq(interrupt)
        self.specials += Instance(TOP, **pins)

    @property
    def register_bytes(self) -> int:
        """What a region of the registers takes."""
        return max(LEAST_BYTES, 1 << int(host_signature(self.machine).members["araddr"].shape))

    def _manager(self, port: int) -> Any:
        ids = axi_signature(self.machine, port).members
        id_width = next(int(member.shape) for name, member in ids.items() if name in ("arid", "awid"))
        width = 8 * self.machine.dram.bus_bytes
        return axi.AXIInterface(data_width=width, address_width=ADDRESS_BITS, id_width=id_width)

    def _register_pin(self, name: str, bits: int) -> Any:
        """The signal of LiteX's bus behind a pin of the registers."""
        channel = next(each for each in LITE if name.startswith(each))
        member = name.removeprefix(channel)
        signal = getattr(getattr(self.registers, channel), member, None)
        if signal is None:  # AxPROT of a bus without it
            return Constant(0, bits)
        return signal[:bits]

    def _port_pins(self, port: int, manager: Any) -> dict[str, Any]:
        """The pins of an AXI port, and the signal of LiteX's bus behind each."""
        pins = {}
        for name, member in axi_signature(self.machine, port).members.items():
            channel = next(each for each in LITE if name.startswith(each))
            of, way = name.removeprefix(channel), "i" if member.flow is In else "o"
            signal = getattr(getattr(manager, channel), of)
            if of == "addr":
                signal = self._whole_beat(signal, int(member.shape))
            pins[f"{way}_{port_name(port)}_{name}"] = signal
        return pins

    def _whole_beat(self, address: Any, bits: int) -> Any:
        """A pin whose lower bits, those in a beat, do not reach the bus."""
        pin, inside = Signal(bits), (self.machine.dram.bus_bytes - 1).bit_length()
        self.comb += address.eq(Cat(Constant(0, inside), pin[inside:ADDRESS_BITS]) if inside else pin[:ADDRESS_BITS])
        return pin
