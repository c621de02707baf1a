"""Boards: what is on them, and at which pins. One description gives LiteX its pins and the tools their constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import InputError
from tilewright.rtl.constraints import clock_constraints
from tilewright.system.soc import LIGHTS

SERIAL = ("serial_tx", "serial_rx")


@dataclass(frozen=True, slots=True)
class Board:
    """A board with an ECP5.

    `sites` are pins of its package by what they are: `clock`, `reset` (high while its button is pressed), `lights0` and
    further ones, `serial_tx` (from the FPGA) and `serial_rx`. `high` are pins that something on the board wants high.
    """

    name: str
    about: str
    device: str  # as LiteX calls it
    options: tuple[str, ...]  # of nextpnr
    clock_mhz: float
    standard: str
    sites: Mapping[str, str]
    high: Mapping[str, str]


BOARDS: Mapping[str, Board] = {
    "ulx3s-85f": Board(
        name="ulx3s-85f",
        about="ULX3S with an LFE5U-85F, speed grade 6 (https://ulx3s.github.io)",
        device="LFE5U-85F-6BG381C",
        options=("--85k", "--speed", "6", "--package", "CABGA381"),
        clock_mhz=25.0,
        standard="LVCMOS33",
        sites={
            "clock": "G2",
            "reset": "R1",  # the button FIRE 1
            **{f"lights{number}": site for number, site in enumerate(("B2", "C2", "C1"))},
            "serial_tx": "L4",  # to the USB bridge
            "serial_rx": "M1",
        },
        high={"wifi_gpio0": "L2"},  # low, it restarts the board's other processor
    ),
}


def board_of(name: str) -> Board:
    """A board by its name. Raises InputError for one that is not known."""
    if name not in BOARDS:
        raise InputError(f"no board is called {name!r}; known: {', '.join(BOARDS)}")
    return BOARDS[name]


def litex_pins(board: Board) -> list[Any]:
    """The board's pins as LiteX describes them."""
    from litex.build.generic_platform import IOStandard, Pins, Subsignal

    standard, sites = IOStandard(board.standard), board.sites
    lights = " ".join(sites[f"lights{number}"] for number in range(len(LIGHTS)))
    line = [Subsignal(name.removeprefix("serial_"), Pins(sites[name])) for name in SERIAL]
    single = {"clock": sites["clock"], "reset": sites["reset"], "lights": lights, **board.high}
    return [*((name, 0, Pins(site), standard) for name, site in single.items()), ("serial", 0, *line, standard)]


def pin_constraints(board: Board) -> str:
    """Where each port is, and the clock that comes in, in Lattice's format (LPF)."""
    places = "".join(f"{line}\n" for line in _places(board))
    return places + clock_constraints("clock", board.clock_mhz)["lpf"]


def _places(board: Board) -> Iterator[str]:
    for name, site in {**board.sites, **board.high}.items():
        port = f"lights[{name.removeprefix('lights')}]" if name.startswith("lights") else name
        yield f'LOCATE COMP "{port}" SITE "{site}";'
        yield f'IOBUF PORT "{port}" IO_TYPE={board.standard};'
