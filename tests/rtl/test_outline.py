"""An outline changes nothing but what it leaves out, and says what that was."""

from __future__ import annotations

from amaranth.back import rtlil

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.block import Block
from tilewright.rtl.fetch import Fetch
from tilewright.rtl.fifo import Fifo
from tilewright.rtl.outline import Outline
from tilewright.rtl.systolic import SystolicArray
from tilewright.rtl.table_memory import TableMemory

MACHINE = load_machine("tiny8")
SHORT = load_machine("tiny8", ["fetch_beats=16"])


def netlist(platform: Outline | None) -> str:
    return rtlil.convert(Fetch(MACHINE), name="top", platform=platform, emit_src=False)


def test_an_outline_that_leaves_nothing_out_is_the_hardware_itself() -> None:
    outline = Outline(Fifo, SystolicArray)
    assert netlist(outline) == netlist(None)
    assert outline.places == []


def test_a_part_becomes_an_empty_place_with_its_ports() -> None:
    outline = Outline(Fifo)
    text = rtlil.convert(Fetch(SHORT), name="top", platform=outline, emit_src=False)
    [place] = outline.places
    assert isinstance(place.part, Fifo) and place.part.depth == 16
    assert f"  cell \\{place.cell} \\buffer\n" in text and "memory" not in text
    ports = {port.name: (port.bits, port.is_output) for port in place.ports}
    assert ports["port__input__payload"] == (64, False)
    assert ports["port__output__payload"] == (64, True)
    assert ports["port__input__ready"] == (1, True)


def test_storage_keeps_its_ports() -> None:
    outline = Outline(Block)
    memory = TableMemory(MACHINE.memories["lut"], [], MACHINE.lanes)
    rtlil.convert(memory, platform=outline)
    assert len(outline.places) == 8
    ports = {port.name: (port.bits, port.is_output) for port in outline.places[0].ports}
    assert ports["read0__addr"] == (10, False) and ports["read0__data"] == (8, True)
    assert ports["write0__data"] == (8, False) and ports["write0__en"] == (1, False)
