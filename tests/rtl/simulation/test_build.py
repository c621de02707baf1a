"""The cache of netlists and simulations: made once, made anew when something changes, never half made."""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.rtl.simulation import build, verilator
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
    monkeypatch.setattr(build, "runtime_objects", lambda has_waves: [])
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


def test_knows_whether_a_program_is_built(emitted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def put(top: str, texts: object, runtime: object, folder: Path) -> Path:
        (folder / top).write_text("program")
        return folder / top

    monkeypatch.setattr(build, "_build", put)
    machine = load_machine("tiny8")
    assert not build.is_built(machine)
    assert emitted == []  # asking makes nothing
    build.build_simulation(machine)
    assert build.is_built(machine)
    assert not build.is_built(load_machine("base16"))


def test_a_build_that_fails_leaves_no_program(emitted: list[str]) -> None:
    """The netlist here has no module npu, so Verilator refuses it."""
    with pytest.raises(RtlError, match=r"^verilator failed in "):
        build.build_bare(load_machine("tiny8"))
    with pytest.raises(RtlError, match=r"^verilator failed in "):
        build.build_bare(load_machine("tiny8"))


def test_says_when_make_is_missing(emitted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RtlError, match=r"needs make; install g\+\+, make and perl$"):
        verilator.run_tool(["make"], tmp_path)


# -- the C++ stage, with a Verilator and a make that only write what they are called with ------------------------------

if TYPE_CHECKING:
    Texts = multiprocessing.SimpleQueue[str]

VERILATOR = """#!/bin/sh
mkdir obj
"""

MAKE = """#!/bin/sh
echo made >> {makings}
printf 'first half, ' > obj/{top}
sleep {seconds}
printf 'second half' >> obj/{top}
"""


def build_with_fakes(folder: Path, seconds: float) -> str:
    """What the program holds that is built by a make that takes so long."""
    tools = folder / f"tools taking {seconds}"
    tools.mkdir(exist_ok=True)
    for name, text in (("verilator", VERILATOR), ("make", MAKE)):
        script = tools / f".{name}.{os.getpid()}"
        script.write_text(text.format(makings=folder / "makings", top=build.TOP, seconds=seconds))
        script.chmod(0o755)
        script.replace(tools / name)
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    os.environ["TILEWRIGHT_CACHE"] = str(folder / "cache")
    verilator.verilator_folder = lambda: tools  # type: ignore[assignment]
    build.runtime_objects = lambda has_waves: []  # type: ignore[assignment]
    build.emit_verilog = lambda machine: "module npu; endmodule"  # type: ignore[assignment]
    return build.build_bare(load_machine("tiny8")).read_text()


A_WHILE = 2
"""Seconds of a build, within which a process is killed even on a busy computer."""


def put_build(folder: Path, seconds: float, results: Texts) -> None:
    results.put(build_with_fakes(folder, seconds))


@contextmanager
def builds(
    folder: Path, count: int, seconds: float
) -> Iterator[tuple[list[BaseProcess], multiprocessing.SimpleQueue[str]]]:
    """Processes that build at once, once the first is in the C++ stage."""
    context = multiprocessing.get_context("spawn")
    results: Texts = context.SimpleQueue()
    processes = [context.Process(target=put_build, args=(folder, seconds, results)) for _ in range(count)]
    for process in processes:
        process.start()
    end = time.monotonic() + 60
    while not list((folder / "cache").glob(f"simulations/*/*/obj/{build.TOP}")):
        assert time.monotonic() < end, "no build came to the C++ stage"
        time.sleep(0.02)
    yield processes, results
    for process in processes:
        process.join()


def test_two_builds_at_once_compile_once(tmp_path: Path) -> None:
    with builds(tmp_path, 2, 0.5) as (_, results):
        pass
    assert [results.get() for _ in range(2)] == ["first half, second half"] * 2
    assert (tmp_path / "makings").read_text() == "made\n"


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_build_after_one_that_was_killed_while_it_compiled_is_whole(tmp_path: Path, sign: signal.Signals) -> None:
    """What the killed one left running goes on to write, into a folder that nobody looks at."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in a shell's background
    with builds(tmp_path, 1, A_WHILE) as ((killed,), _):
        assert killed.pid is not None
        os.kill(killed.pid, sign)
    assert killed.exitcode != 0
    with builds(tmp_path, 1, 0) as (_, results):
        pass
    assert results.get() == "first half, second half"
    assert (tmp_path / "makings").read_text() == "made\nmade\n"
    (program,) = (tmp_path / "cache").glob(f"simulations/*/{build.TOP}")
    time.sleep(A_WHILE)
    assert program.read_text() == "first half, second half"
