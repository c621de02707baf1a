"""How a family of FPGAs is built for: its platform of LiteX, its clock, its constraints, the tools that pack it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codesign.price.fpga import ROUTE_OPTIONS
from tilewright.codesign.price.fpga_family import FAMILIES, Device
from tilewright.codesign.price.nextpnr import build_bitstream
from tilewright.errors import InputError
from tilewright.rtl.constraints import clock_constraints
from tilewright.system import gowin
from tilewright.system.boards import Board, litex_pins, ports


@dataclass(frozen=True, slots=True)
class BoardFlow:
    """The steps for a family. `kinds` are what the report counts, by what nextpnr calls it."""

    synthesise: str  # the command of Yosys
    options: tuple[str, ...]  # of nextpnr
    kinds: Mapping[str, str]
    suffix: str  # of the file of constraints
    bitstream: str  # of the file of the bitstream
    halvings: int | None  # how often the board's clock can be halved, where there is no PLL
    device: Device | None  # whose places may stay empty, so that wires have room
    platform: Callable[[Board], Any]
    clocks: Callable[[Any, Board, float], Any]
    constraints: Callable[[Board], str]
    pack: Callable[[str, Sequence[str], str], tuple[bytes, Mapping[str, Any]]]


def flow_of(board: Board) -> BoardFlow:
    return FLOWS[board.family]


def require_clock(board: Board, clock_mhz: float) -> int:
    """How often the board's clock is halved; 0 with a PLL. Raises InputError for a clock that it cannot be."""
    most = flow_of(board).halvings
    if most is None:
        return 0
    found = next((count for count in range(most + 1) if board.clock_mhz / 2**count == clock_mhz), None)
    if found is None:
        known = ", ".join(f"{board.clock_mhz / 2**count:g}" for count in range(most + 1))
        raise InputError(
            f"{board.name} has no PLL that the tools know; expected a clock of {known} MHz, not {clock_mhz:g}"
        )
    return found


# -- Lattice ECP5 ------------------------------------------------------------------------------------------------------


def _ecp5_platform(board: Board) -> Any:
    from litex.build.lattice import LatticeECP5Platform

    return LatticeECP5Platform(board.device, litex_pins(board), toolchain="trellis")


def _ecp5_clocks(platform: Any, board: Board, clock_mhz: float) -> Any:
    """From a PLL."""
    from litex.gen import LiteXModule
    from litex.soc.cores.clock import ECP5PLL
    from migen import ClockDomain

    clocks = LiteXModule()
    clocks.cd_sys = ClockDomain()
    clocks.pll = pll = ECP5PLL()
    clocks.comb += pll.reset.eq(platform.request("reset"))
    pll.register_clkin(platform.request("clock"), board.clock_mhz * 1e6)
    pll.create_clkout(clocks.cd_sys, int(clock_mhz * 1e6))
    return clocks


def _lpf(board: Board) -> str:
    """Where each port is, and the clock that comes in, in Lattice's format."""

    def lines() -> Iterator[str]:
        for port, site in ports(board).items():
            yield f'LOCATE COMP "{port}" SITE "{site}";\n'
            yield f'IOBUF PORT "{port}" IO_TYPE={board.standard};\n'

    return "".join(lines()) + clock_constraints("clock", board.clock_mhz)["lpf"]


# -- Gowin GW5A --------------------------------------------------------------------------------------------------------


def _gowin_platform(board: Board) -> Any:
    from litex.build.gowin.platform import GowinPlatform

    return GowinPlatform(board.device, litex_pins(board), toolchain="apicula", devicename=GW5AST)


def _gowin_clocks(platform: Any, board: Board, clock_mhz: float) -> Any:
    """The board's clock, halved so many times: the tools know no PLL of this device."""
    from litex.gen import LiteXModule
    from migen import ClockDomain, Signal
    from migen.genlib.resetsync import AsyncResetSynchronizer

    clocks = LiteXModule()
    clocks.cd_sys = ClockDomain()
    clock, reset = platform.request("clock"), platform.request("reset")
    for number in range(require_clock(board, clock_mhz)):
        domain = ClockDomain(f"half{number}", reset_less=True)
        halved = Signal(name=f"clock{number}")
        clocks.clock_domains += domain
        clocks.comb += domain.clk.eq(clock)
        getattr(clocks.sync, domain.name).__iadd__(halved.eq(~halved))
        clock = halved
    clocks.comb += clocks.cd_sys.clk.eq(clock)
    clocks.specials += AsyncResetSynchronizer(clocks.cd_sys, ~reset if board.is_reset_low else reset)
    return clocks


def _cst(board: Board) -> str:
    """Where each port is, in Gowin's format."""
    lines = (f'IO_LOC "{p}" {site};\nIO_PORT "{p}" IO_TYPE={board.standard};\n' for p, site in ports(board).items())
    return "".join(lines)


def _gowin_pack(netlist: str, options: Sequence[str], constraints: str) -> tuple[bytes, Mapping[str, Any]]:
    return gowin.pack(netlist, options, constraints, GW5AST)


GW5AST = "GW5AST-138C"
"""What the open tools call the device."""

FLOWS: Mapping[str, BoardFlow] = {
    "ecp5": BoardFlow(
        synthesise=FAMILIES["ecp5"].synthesise,
        options=ROUTE_OPTIONS,
        kinds={"TRELLIS_COMB": "LUTs", "TRELLIS_FF": "registers", "MULT18X18D": "multipliers", "DP16KD": "block RAMs"},
        suffix="lpf",
        bitstream="system.bit",
        halvings=None,
        device=FAMILIES["ecp5"].device,
        platform=_ecp5_platform,
        clocks=_ecp5_clocks,
        constraints=_lpf,
        pack=build_bitstream,
    ),
    "gw5a": BoardFlow(
        synthesise="synth_gowin -family gw5a",
        options=("--vopt", f"family={GW5AST}"),
        kinds={"LUT4": "LUTs", "ALU": "adders", "DFF": "registers", "MULT12X12": "multipliers", "BSRAM": "block RAMs"},
        suffix="cst",
        bitstream="system.fs",
        halvings=3,
        device=None,
        platform=_gowin_platform,
        clocks=_gowin_clocks,
        constraints=_cst,
        pack=_gowin_pack,
    ),
}
"""By `Board.family`."""
