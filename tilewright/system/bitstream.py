"""The system with a bundle as its firmware, as a bitstream for a board: synthesised, placed, routed, packed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.price.fpga import SEED, longest_path, made
from tilewright.codesign.price.fpga_family import FAMILIES, cells_of, places_of
from tilewright.codesign.price.fpga_pins import empty_luts
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.verilog import emit_verilog
from tilewright.system.boards import Board
from tilewright.system.firmware import compile_firmware, words_of
from tilewright.system.flows import BoardFlow, flow_of
from tilewright.system.soc import TOP, System, quiet, system_of

JOIN = """\
read_json in.json
read_verilog -sv board.v
hierarchy -top board
flatten
opt_clean
write_json out"""


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
    constraints, flow = flow_of(board).constraints(board), flow_of(board)
    netlist = synthesised(machine, system, flow)
    empty = _empty(flow, netlist)
    options = (*board.options, *flow.options, "--seed", str(SEED), "--timing-allow-fail")
    bitstream, report = flow.pack(with_room(netlist, empty), options, constraints)
    filled = flow.device.place_kind if flow.device is not None else ""
    used = {
        flow.kinds[name]: (each["used"] - (len(empty) if name == filled else 0), each["available"])
        for name, each in report["utilization"].items()
        if name in flow.kinds
    }
    clocks = [clock["achieved"] for clock in report["fmax"].values()]
    return Built(bitstream, system, constraints, used, min(clocks), clock_mhz, longest_path(report))


def _empty(flow: BoardFlow, netlist: str) -> list[str]:
    """The places that are to stay empty, of a family in which wires run out otherwise."""
    if flow.device is None:
        return []
    family = FAMILIES["ecp5"]
    return flow.device.empty_places(places_of(family, cells_of(family, json.loads(netlist)["modules"][TOP])))


def with_room(netlist: str, empty: Sequence[str]) -> str:
    """The netlist, with LUTs that do nothing in places that are to stay empty, so that wires have room."""
    if not empty:
        return netlist
    ports = json.loads(netlist)["modules"][TOP]["ports"]
    declared = ", ".join(f"{each['direction']} [{len(each['bits']) - 1}:0] {name}" for name, each in ports.items())
    linked = ", ".join(f".{name}({name})" for name in ports)
    around = f"module board({declared});\n  {TOP} machine({linked});\n{empty_luts(empty)}endmodule\n"
    return made({"in.json": netlist, "board.v": around}, JOIN)


def board_system(machine: Machine, board: Board, clock_mhz: float, memory_bytes: int, image: bytes) -> System:
    """The system with the board's pins, a clock of its own, and an image as the first bytes of its memory."""
    flow = flow_of(board)
    with quiet():
        platform = flow.platform(board)
        clocks = flow.clocks(platform, board, clock_mhz)
        clocks.comb += [platform.request(name).eq(1) for name in board.high]
        return system_of(platform, clocks, machine, memory_bytes, int(clock_mhz * 1e6), "serial", words_of(image))


def synthesised(machine: Machine, system: System, flow: BoardFlow) -> str:
    """The system in the cells of a family, as Yosys's JSON; kept in the cache."""
    files = {
        "npu.sv": emit_verilog(machine, "fpga"),
        f"{TOP}.v": system.verilog,
        **{path.name: path.read_text() for path in system.sources},
        **system.contents,
    }
    read = "\n".join(
        f"read_verilog {'-sv ' if name.endswith('.sv') else ''}{name}" for name in files if ".init" not in name
    )
    return made(files, f"{read}\n{flow.synthesise} -top {TOP}\nwrite_json out")
