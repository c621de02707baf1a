"""Boards: what is on them, and at which pins. One description gives LiteX its pins and the tools their constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import InputError
from tilewright.system.soc import LIGHTS

SERIAL = ("serial_tx", "serial_rx")


@dataclass(frozen=True, slots=True)
class Board:
    """A board with an FPGA of a family (`tilewright/system/flows.py`).

    `sites` are pins of its package by what they are: `clock`, `reset` (a button), `lights0` and further ones,
    `serial_tx` (from the FPGA) and `serial_rx`. `high` are pins that something on the board wants high.
    """

    name: str
    about: str
    family: str
    device: str  # as LiteX calls it
    options: tuple[str, ...]  # of nextpnr
    clock_mhz: float
    standard: str
    sites: Mapping[str, str]
    high: Mapping[str, str]
    is_reset_low: bool = False  # what the button gives while it is pressed


BOARDS: Mapping[str, Board] = {
    "ulx3s-85f": Board(
        name="ulx3s-85f",
        about="ULX3S with an LFE5U-85F, speed grade 6 (https://ulx3s.github.io)",
        family="ecp5",
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
    "tang-mega-138k": Board(
        name="tang-mega-138k",
        about="Sipeed Tang Mega 138K on its Neo dock, with a GW5AST-138 (https://wiki.sipeed.com)",
        family="gw5a",
        device="GW5AST-LV138PG484AC1/I0",
        options=("--device", "GW5AST-LV138PG484AC1/I0"),
        clock_mhz=50.0,
        standard="LVCMOS33",
        sites={
            "clock": "V22",
            "reset": "AA13",  # the first button
            "lights0": "U12",  # READY, DONE, and a pin of the dock's connector J0
            "lights1": "G11",
            "lights2": "P19",
            "serial_tx": "U15",  # to the USB bridge
            "serial_rx": "V14",
        },
        high={},
        is_reset_low=True,
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


def ports(board: Board) -> dict[str, str]:
    """The pin of the package of each port of the system, a bit of a wide one each."""
    found = {}
    for name, site in {**board.sites, **board.high}.items():
        found[f"lights[{name.removeprefix('lights')}]" if name.startswith("lights") else name] = site
    return found
