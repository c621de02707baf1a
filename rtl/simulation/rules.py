"""The rules of AXI that the machine keeps, bound to it: a file more of every simulation."""

from __future__ import annotations

from pathlib import Path

from amaranth.lib.wiring import Signature

from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import BURST_BEATS
from tilewright.rtl.bus import axi_signature, id_bits, port_name
from tilewright.rtl.registers import host_signature
from tilewright.rtl.verilog import TOP

RULES = "rules.sv"

MANAGER = {
    "ar": "valid ready id addr len size burst cache prot",
    "aw": "valid ready id addr len size burst cache prot",
    "w": "valid ready data strb last",
    "b": "ready",
}
"""What the rules of a manager look at, by channel; of a channel that a port does not have, nothing is ever valid."""

SUBORDINATE = {
    "aw": "valid ready",
    "w": "valid ready",
    "b": "valid ready resp",
    "ar": "valid ready",
    "r": "valid ready resp data",
}

RESTART = "registers.reset"
"""The machine's own signal that its host resets it."""

ABSENT = {"bready": "1'b1"}
"""What pins are that a port does not have; the others are 0."""


def rules_verilog(machine: Machine) -> str:
    """The modules that hold the rules, and an instance inside the machine for each of its buses."""
    text = Path(__file__).with_name(RULES).read_text()
    host = _links("s_axi", SUBORDINATE, host_signature(machine))
    text += f"\nbind {TOP} tilewright_subordinate_rules s_axi_rules ({host});\n"
    for port in range(machine.dram.ports):
        name = port_name(port)
        sizes = f".ID_BITS({id_bits(machine, port)}), .BYTES({machine.dram.bus_bytes}), .BEATS({BURST_BEATS})"
        links = f".restart({RESTART}), " + _links(name, MANAGER, axi_signature(machine, port))
        text += f"bind {TOP} tilewright_manager_rules #({sizes}) {name}_rules ({links});\n"
    return text


def _links(bus: str, channels: dict[str, str], there: Signature) -> str:
    pins = [f"{channel}{member}" for channel, members in channels.items() for member in members.split()]
    bound = {pin: f"{bus}_{pin}" if pin in there.members else ABSENT.get(pin, "'0") for pin in pins}
    return ", ".join(f".{pin}({signal})" for pin, signal in {"clk": "clk", "rst": "rst", **bound}.items())
