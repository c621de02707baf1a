"""The simulated machine as a board that a program in C can reach: built once, then linked with the program."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from amaranth.lib.wiring import In, Out

from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.bus import axi_signature, port_name
from tilewright.rtl.simulation.bench_verilog import BENCH
from tilewright.rtl.simulation.build import BENCH_PUBLIC, NETLIST, bench_sources, cached_netlist, texts_of
from tilewright.rtl.simulation.rules import RULES, rules_verilog
from tilewright.rtl.simulation.runtime import runtime_objects
from tilewright.rtl.simulation.tools import RtlError, require_tools
from tilewright.rtl.simulation.verilator import OBJECTS, PREFIX, make, run_tool, tool_facts, verilate
from tilewright.rtl.verilog import TOP

BOARD, UNRULY = "board.cpp", "unruly.cpp"
"""A board with the memory of the cycle model, and one whose bus lets the machine wait, refuses, and falls silent."""

MEMORY, PINS = "board_memory.h", "pins.h"

TAKEN = frozenset(
    "arvalid arid araddr arlen rready awvalid awid awaddr awlen wvalid wlast wdata wstrb bready".split()  # noqa: SIM905
)
"""What a bus looks at of all that a machine sends."""

MEMORY_BYTES = 1 << 26

MOST_SECONDS = 600
"""A program that takes longer than this is stopped."""


def run_on_board(
    machine: Machine,
    sources: Mapping[str, bytes],
    flags: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    board: str = BOARD,
    most_seconds: int = MOST_SECONDS,
) -> tuple[int, str]:
    """Compile C files by name with their headers, link them with the machine, and run `main`: exit code and output.

    They find `board_read`, `board_write`, `board_pause`, `board_bus_address` and `board_memory`; on the board UNRULY
    besides what that file says. Raises RtlError where a tool is missing, the sources do not compile, or the program
    does not end.
    """
    require_tools()
    objects = [*_board_objects(machine, board), *runtime_objects(has_waves=False)]
    with scratch() as folder:
        for name, content in sources.items():
            (folder / name).write_bytes(content)
        units = sorted(name for name in sources if name.endswith((".c", ".S")))
        run_tool(["gcc", "-std=c99", "-O2", *flags, "-c", *units], folder)
        linked = [f"{Path(name).stem}.o" for name in units]
        run_tool(["g++", "-o", "program", *linked, *map(str, objects), "-pthread", "-latomic"], folder)
        try:
            command = ["./program", *arguments]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=most_seconds)
        except subprocess.TimeoutExpired as error:
            raise RtlError(f"the program did not end within {most_seconds} seconds") from error
    return done.returncode, done.stdout + done.stderr


def _board_objects(machine: Machine, board: str) -> list[Path]:
    """The machine and a board as object files, from the cache if it has them."""
    texts = board_texts(machine, board)
    place = cache_folder() / "boards" / digest(*texts, *texts.values(), *tool_facts(), str(MEMORY_BYTES))
    found = kept(place, partial(_compile, machine, board, texts)).iterdir()
    return sorted(found, key=lambda path: (path.suffix == ".a", path.name))  # what an archive gives is asked for before


def board_texts(machine: Machine, board: str) -> dict[str, str]:
    """All files that a board is built from, by name."""
    own = {name: Path(__file__).with_name(name).read_text() for name in (board, MEMORY)}
    if board == BOARD:
        return texts_of(BENCH, BENCH_PUBLIC, {**bench_sources(machine, has_waves=False), **own})
    return texts_of(
        TOP, (), {NETLIST: cached_netlist(machine), RULES: rules_verilog(machine), PINS: pins(machine), **own}
    )


def pins(machine: Machine) -> str:
    """C++ that copies what the machine sends to `ports`, and what the bus sends to the machine."""
    sample, drive = [], []
    for port in range(machine.dram.ports):
        for name, member in axi_signature(machine, port).members.items():
            pin, held = f"top->{port_name(port)}_{name}", f"ports[{port}].{name}"
            is_array = name in ("wdata", "wstrb", "rdata")
            if member.flow is Out and name in TAKEN:
                sample.append(f"std::memcpy({held}, &{pin}, sizeof {held});" if is_array else f"{held} = {pin};")
            elif member.flow is In:
                drive.append(f"std::memcpy(&{pin}, {held}, sizeof {held});" if is_array else f"{pin} = {held};")
    return _function("sample", sample) + _function("drive", drive)


def _function(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"void {name}(Vtop* top) {{", *(f"    {line}" for line in lines), "}\n"])


def _compile(machine: Machine, board: str, texts: Mapping[str, str], folder: Path) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text)
    top, files = BENCH if board == BOARD else TOP, [name for name in texts if not name.endswith(".h")]
    verilate(folder, top, files, False, "-CFLAGS", board_flags(machine))
    library, own = f"{PREFIX}__ALL.a", [f"{Path(name).stem}.o" for name in texts if name.endswith(".cpp")]
    make(folder, library, *own)
    objects = folder / "objects"
    objects.mkdir()
    for name in (library, *own):
        (folder / OBJECTS / name).rename(objects / name)
    return objects


def board_flags(machine: Machine) -> str:
    """What a board's C++ is compiled with."""
    facts = {
        "BOARD_MEMORY_BYTES": f"{MEMORY_BYTES}ULL",
        "BOARD_BUS_BYTES": machine.dram.bus_bytes,
        "BOARD_LATENCY_CYCLES": machine.dram.latency_cycles,
        "BOARD_PORTS": machine.dram.ports,
    }
    return " ".join(["-I..", *(f"-D{name}={value}" for name, value in facts.items())])
