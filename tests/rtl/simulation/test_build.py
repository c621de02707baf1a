"""The cache of netlists and simulations: made once, made anew when something changes, never half made."""

import ast
from pathlib import Path

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.simulation import build
from tilewright.rtl.simulation.tools import RtlError


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the machines whose Verilog was made; each text is just the name."""
    names: list[str] = []

    def emit(machine: object) -> str:
        names.append(machine.name)
        return f"module {machine.name}; endmodule\n"

    monkeypatch.setattr(build, "emit_verilog", emit)
    return names


def test_makes_a_netlist_once(emitted: list[str]) -> None:
    machine = load_machine("tiny8")
    assert build.cached_netlist(machine) == build.cached_netlist(machine) == "module tiny8; endmodule\n"
    assert emitted == ["tiny8"]


def test_makes_a_netlist_for_each_machine(emitted: list[str]) -> None:
    for overrides in ([], ["dram.bus_bytes=16"], ["dram.bus_bytes=8"]):
        build.cached_netlist(load_machine("tiny8", overrides))
    assert len(emitted) >= 2


def test_makes_a_netlist_anew_when_the_code_changes(emitted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("tiny8")
    build.cached_netlist(machine)
    monkeypatch.setattr(build, "_hardware_sources", lambda: ["other code"])
    build.cached_netlist(machine)
    assert len(emitted) == 2


def test_watches_the_code_that_the_hardware_is_made_from() -> None:
    sources = "".join(build._hardware_sources())
    assert "class BankedMemory" in sources and "MMA_WEIGHT_LEAD" in sources and "def systolic_weights" in sources


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("from tilewright.isa.machine.memory import DRAM", ["isa/machine/memory.py"]),
        ("from tilewright.isa.timing import (\n    BURST_BEATS,\n    Burst,\n)", ["isa/timing.py"]),
        ("from tilewright.isa import errors, timing", ["isa/errors.py", "isa/timing.py"]),
        ("from tilewright.rtl.fifo import Fifo", []),
        ("import tilewright", []),
    ],
)
def test_finds_the_files_of_an_import(line: str, files: list[str]) -> None:
    [node] = ast.parse(line).body
    assert build._isa_files(node) == [build._package() / file for file in files]


def test_a_build_that_fails_leaves_no_program(emitted: list[str]) -> None:
    """The netlist here has no module npu, so Verilator refuses it."""
    with pytest.raises(RtlError, match=r"^verilator failed in "):
        build.build_bare(load_machine("tiny8"))
    with pytest.raises(RtlError, match=r"^verilator failed in "):
        build.build_bare(load_machine("tiny8"))


def test_says_when_make_is_missing(emitted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RtlError, match=r"needs make; install g\+\+, make and perl$"):
        build._run(["make"], tmp_path)
