"""`tilewright fpga`: a network on a machine, with a processor and a memory, as a bitstream for a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import Budget, Json, OptionalIsa, ProgramFile, Set, load_program, report, write_folder

if TYPE_CHECKING:
    from tilewright.system.bitstream import Built
    from tilewright.system.simulated import SystemRun

Folder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder; it may exist.")]


def fpga_command(
    program: ProgramFile,
    output: Folder,
    board: Annotated[str, typer.Option("--board", metavar="NAME", help="ulx3s-85f, tang-mega-138k.")],
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    clock: Annotated[
        float, typer.Option("--clock", metavar="MHZ", min=4.0, max=400.0, help="The clock that the PLL makes.")
    ] = 25.0,
    memory: Annotated[
        int, typer.Option("--memory", metavar="KIB", min=16, max=384, help="Of firmware and arenas, in block RAM.")
    ] = 128,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Inputs of the test vector: an .npz file.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Without --data: from which inputs are drawn.")] = 0,
    json: Json = None,
    budget: Budget = None,
) -> None:
    """Build a bitstream: the machine, a RISC-V processor, and a program as its firmware; simulate the same system."""
    from tilewright.bundle.bundle import bundle_files
    from tilewright.extras import require_extra
    from tilewright.files.arrays import read_arrays
    from tilewright.rtl.simulation.tools import require_tools
    from tilewright.terminal.progress import progress

    require_tools()
    for extra in ("fpga", "system"):
        require_extra(extra)
    from tilewright.system.bitstream import build
    from tilewright.system.boards import board_of
    from tilewright.system.flows import flow_of, require_clock
    from tilewright.system.simulated import run_system

    found = board_of(board)
    require_clock(found, clock)
    loaded = load_program(program, isa, set, budget)
    given = None if data is None else read_arrays(data, loaded.require_inputs)
    files = bundle_files(loaded, "network", given, seed)
    output.mkdir(parents=True, exist_ok=True)  # what goes wrong is to do so before the minutes that follow
    with progress("simulating the system"):
        ran = run_system(loaded.machine, files)
    with progress(f"building {loaded.machine.name} for {board}, minutes"):
        built = build(loaded.machine, found, files, clock, memory << 10)
    flow = flow_of(found)
    written = {"system.v": built.system.verilog, f"system.{flow.suffix}": built.constraints, **built.system.contents}
    write_folder(output, {**written, flow.bitstream: built.bitstream})
    value = _figures(built, ran, found.about, output / flow.bitstream)
    if report(value, json):
        from tilewright.terminal.tables import print_table

        print_table(f"{loaded.machine.name} on {found.about}", ("figure", "value"), _rows(value))


def _figures(built: Built, ran: SystemRun, board: str, file: Path) -> dict[str, Any]:
    cycles = ran.before + ran.machine + ran.between + ran.after
    begin, end = built.longest_path
    return {
        "board": board,
        "bitstream": str(file),
        "bytes": len(built.bitstream),
        "used": {kind: {"used": used, "available": there} for kind, (used, there) in built.used.items()},
        "clock_mhz": round(built.clock_mhz, 1),
        "asked_mhz": built.asked_mhz,
        "longest_path": {"from": begin, "to": end},
        "cycles": cycles,
        "runs_per_second": round(built.asked_mhz * 1e6 / cycles, 1),
    }


def _rows(value: dict[str, Any]) -> list[tuple[str, str]]:
    path = value["longest_path"]
    meets = "meets" if value["clock_mhz"] >= value["asked_mhz"] else "does not meet"
    return [
        *((kind, f"{each['used']:,} of {each['available']:,}") for kind, each in value["used"].items()),
        ("clock", f"{value['clock_mhz']} MHz after routing: {meets} the {value['asked_mhz']} MHz of the PLL"),
        ("longest path", f"from {path['from']} to {path['to']}"),
        ("a run", f"{value['cycles']:,} cycles of the simulated system: {value['runs_per_second']:,} runs a second"),
        ("bitstream", f"{value['bitstream']}, {value['bytes']:,} bytes; not tried on a board"),
    ]
