"""Files for a chip's flow: LibreLane loads the configuration, and each macro is where the lists say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.tilewright.command_line import Command, make_command
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.asic import asic_files
from tilewright.rtl.verilog import netlist
from tilewright.rtl.yosys import run_script

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")

OF_A_PROCESS = ("PDK", "PDK_ROOT", "PDKPATH", "STD_CELL_LIBRARY")
"""Variables of a process that LibreLane wants in any case."""


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(capsys, monkeypatch)


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    machine = load_machine("tiny8", SMALL)
    return asic_files(machine, netlist(machine, "small_"), 80.0)


@pytest.mark.slow
def test_each_macro_is_where_synthesis_has_it(files: dict[str, str]) -> None:
    """Yosys, which knows nothing of our list, flattens the design."""
    modules = [name for name in files if name.endswith(".sv") and "/" not in name]
    sources = {Path(name).name: files[name] for name in (*modules, "macro/small_memory.sv")}
    read = "\n".join(f"read_verilog -sv -defer {name}" for name in sources)
    made = json.loads(run_script(sources, f"{read}\nhierarchy -top small_npu\nproc\nflatten\nwrite_json out"))
    cells = made["modules"]["small_npu"]["cells"]
    synthesised = {name: cell["type"] for name, cell in cells.items() if "sram" in cell["type"]}
    rows = list(csv.DictReader(files["macros.csv"].splitlines()))
    assert {row["instance"]: row["macro"] for row in rows} == synthesised
    macros = json.loads(files["macros.json"])["MACROS"]
    assert {(name, each) for name in macros for each in macros[name]["instances"]} == {
        (row["macro"], row["instance"]) for row in rows
    }
    near = {row["part"]: row["near"].split() for row in rows}
    assert near["wgt"] == ["load", "mma"] and near["lut"] == ["load", "vec"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, "CLOCK_PERIODS"])
def test_librelane_loads_the_configuration(files: dict[str, str], tmp_path: Path, fault: str | None) -> None:
    pytest.importorskip("librelane", reason="LibreLane's Python package, without its tools")
    from librelane.config import Config, InvalidConfig, universal_flow_config_variables
    from librelane.flows import Flow

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "macros").mkdir()
    for macro in json.loads(files["macros.json"])["MACROS"].values():
        for name in (*macro["gds"], *macro["lef"], *macro["vh"], *macro["lib"]["*"]):
            (tmp_path / name.removeprefix("dir::")).touch()
    library = tmp_path / "pdk" / "none" / "libs.tech" / "librelane" / "cells"
    library.mkdir(parents=True)
    (library / "config.tcl").touch()
    (library.parent / "config.tcl").write_text("set ::env(STD_CELL_LIBRARY) cells\n")
    flow = Flow.factory.get("Classic")
    found = [*universal_flow_config_variables, *flow.config_vars]
    found += [variable for step in flow.Steps for variable in step.get_all_config_variables()]
    known = {each.name: each for each in found if not each.pdk or each.name in OF_A_PROCESS}
    if fault is not None:
        wrong = {**json.loads(files["config.json"]), fault: 1}
        (tmp_path / "config.json").write_text(json.dumps(wrong))

    def load() -> Config:
        paths = [str(tmp_path / name) for name in ("config.json", "macros.json")]
        root = str(tmp_path / "pdk")
        return Config.load(paths, list(known.values()), design_dir=str(tmp_path), pdk="none", pdk_root=root)[0]

    if fault is not None:
        with pytest.raises(InvalidConfig):
            load()
        return
    config = load()
    assert (config["DESIGN_NAME"], float(config["CLOCK_PERIOD"])) == ("small_npu", 12.5)
    assert all(Path(path).is_file() for path in config["VERILOG_FILES"])
    assert sum(len(macro.instances) for macro in config["MACROS"].values()) == files["macros.csv"].count("\n") - 1


def test_a_chip_without_a_clock_is_refused(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright("rtl", "--isa", "tiny8", "--asic", tmp_path / "chip")
    assert ended.code == 2 and "give --clock MHZ" in ended.err and not (tmp_path / "chip").exists()


def test_one_place_to_write_to(tilewright: Command, tmp_path: Path) -> None:
    ended = tilewright("rtl", "--isa", "tiny8", "--asic", tmp_path / "a", "--split", tmp_path / "b", "--clock", 80)
    assert ended.code == 2 and "give one of" in ended.err
