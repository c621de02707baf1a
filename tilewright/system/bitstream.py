"""The system with a bundle as its firmware, as a bitstream for a board: synthesised, placed, routed, packed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.price.fpga import ROUTE_OPTIONS, SEED, longest_path, made
from tilewright.codesign.price.fpga_family import FAMILIES, cells_of, places_of
from tilewright.codesign.price.fpga_pins import empty_luts
from tilewright.codesign.price.nextpnr import build_bitstream
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.memory_wrappers import WRAPPER
from tilewright.rtl.verilog import netlist
from tilewright.system.boards import Board, litex_pins, pin_constraints
from tilewright.system.firmware import compile_firmware, words_of
from tilewright.system.soc import TOP, System, quiet, system_of

JOIN = """\
read_json in.json
read_verilog -sv board.v
hierarchy -top board
flatten
opt_clean
write_json out"""

KINDS = {"TRELLIS_COMB": "LUTs", "TRELLIS_FF": "registers", "MULT18X18D": "multipliers", "DP16KD": "block RAMs"}
"""What nextpnr calls what an ECP5 has, and what it is."""


@dataclass(frozen=True, slots=True)
class Built:
    """A bitstream, and what nextpnr says of it: places used and there are, clocks, and the ends of the longest path."""

    bitstream: bytes
    system: System
    constraints: str
    used: Mapping[str, tuple[int, int]]
    clock_mhz: float
    asked_mhz: float
    longest_path: tuple[str, str]


def build(machine: Machine, board: Board, files: Mapping[str, bytes], clock_mhz: float, memory_bytes: int) -> Built:
    """A bundle's bitstream for a board, whose system runs at `clock_mhz`.

    Raises InputError when the firmware does not compile or fit, and PriceError when a tool is missing or gives up.
    """
    first = board_system(machine, board, clock_mhz, memory_bytes, b"")
    image, _ = compile_firmware(files, first.addresses, memory_bytes)
    system = board_system(machine, board, clock_mhz, memory_bytes, image)
    constraints, family = pin_constraints(board), FAMILIES["ecp5"]
    cells = json.loads(synthesised(machine, system))["modules"][TOP]
    empty = family.device.empty_places(places_of(family, cells_of(family, cells)))
    options = (*board.options, *ROUTE_OPTIONS, "--seed", str(SEED), "--timing-allow-fail")
    bitstream, report = build_bitstream(with_room(machine, system, empty), options, constraints)
    used = {
        KINDS[name]: (each["used"] - (len(empty) if name == family.device.place_kind else 0), each["available"])
        for name, each in report["utilization"].items()
        if name in KINDS
    }
    clocks = [clock["achieved"] for clock in report["fmax"].values()]
    return Built(bitstream, system, constraints, used, min(clocks), clock_mhz, longest_path(report))


def with_room(machine: Machine, system: System, empty: Sequence[str]) -> str:
    """The netlist, with LUTs that do nothing in places that are to stay empty, so that wires have room."""
    netlist = synthesised(machine, system)
    if not empty:
        return netlist
    ports = json.loads(netlist)["modules"][TOP]["ports"]
    declared = ", ".join(f"{each['direction']} [{len(each['bits']) - 1}:0] {name}" for name, each in ports.items())
    linked = ", ".join(f".{name}({name})" for name in ports)
    around = f"module board({declared});\n  {TOP} machine({linked});\n{empty_luts(empty)}endmodule\n"
    return made({"in.json": netlist, "board.v": around}, JOIN)


def board_system(machine: Machine, board: Board, clock_mhz: float, memory_bytes: int, image: bytes) -> System:
    """The system with the board's pins, its clock from a PLL, and an image as the first bytes of its memory."""
    from litex.build.lattice import LatticeECP5Platform
    from litex.gen import LiteXModule
    from litex.soc.cores.clock import ECP5PLL
    from migen import ClockDomain

    hertz = int(clock_mhz * 1e6)
    with quiet():
        platform = LatticeECP5Platform(board.device, litex_pins(board), toolchain="trellis")
        clocks = LiteXModule()
        clocks.cd_sys = ClockDomain()
        clocks.pll = pll = ECP5PLL()
        clocks.comb += pll.reset.eq(platform.request("reset"))
        pll.register_clkin(platform.request("clock"), board.clock_mhz * 1e6)
        pll.create_clkout(clocks.cd_sys, hertz)
        clocks.comb += [platform.request(name).eq(1) for name in board.high]
        return system_of(platform, clocks, machine, memory_bytes, hertz, "serial", words_of(image))


def synthesised(machine: Machine, system: System) -> str:
    """The system in the cells of an ECP5, as Yosys's JSON; kept in the cache."""
    hardware = netlist(machine)
    wrapper = next(text for name, text in hardware.wrappers.items() if name == f"{WRAPPER}_fpga.sv")
    files = {
        "npu.sv": "\n".join([*hardware.modules.values(), wrapper]),
        f"{TOP}.v": system.verilog,
        **{path.name: path.read_text() for path in system.sources},
        **system.contents,
    }
    read = "\n".join(
        f"read_verilog {'-sv ' if name.endswith('.sv') else ''}{name}" for name in files if ".init" not in name
    )
    return made(files, f"{read}\n{FAMILIES['ecp5'].synthesise} -top {TOP}\nwrite_json out")
