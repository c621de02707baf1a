"""`tilewright bundle`: a program as C for a product."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.commands.options import Budget, OptionalIsa, ProgramFile, Set, load_program, write_folder

Folder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder; it may exist.")]


def bundle_command(
    program: ProgramFile,
    output: Folder,
    isa: OptionalIsa = None,
    set: Set = None,  # noqa: A002
    name: Annotated[
        str | None, typer.Option("--name", help="Of files and functions in C; the program's if left out.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Inputs of the test vector: an .npz file.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Without --data: from which inputs are drawn.")] = 0,
    data_apart: Annotated[
        bool,
        typer.Option("--bin", help="Program and weights as .bin files that an assembler includes, not as C text."),
    ] = False,
    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Also compile it here and run it on the simulated hardware (extra `rtl`)."),
    ] = False,
    system: Annotated[
        bool,
        typer.Option(
            "--system", help="Also run it on a simulated RISC-V processor beside the hardware (extras `rtl`, `system`)."
        ),
    ] = False,
    budget: Budget = None,
) -> None:
    """Write a program as C99 without heap or operating system: network, driver, a test vector, and a main."""
    from tilewright.bundle.bundle import bundle_files
    from tilewright.files.arrays import read_arrays

    if simulate or system:  # before the work, not after it
        from tilewright.extras import require_extra
        from tilewright.rtl.simulation.tools import require_tools

        require_tools()
        if system:
            require_extra("system")
    loaded = load_program(program, isa, set, budget)
    given = None if data is None else read_arrays(data, loaded.require_inputs)
    files = bundle_files(loaded, name or program.stem, given, seed, data_apart)
    write_folder(output, files, kept="platform.c")  # which a board's own is to replace
    typer.echo(f"{output}: {len(files)} files; `make -C {output} BOARD=-DBOARD_REGISTERS=0x…` builds them")
    if simulate:
        from tilewright.bundle.simulated import run_simulated

        typer.echo(run_simulated(loaded.machine, files), nl=False)
    if system:
        from tilewright.system.simulated import run_system

        typer.echo(run_system(loaded.machine, files).text(), nl=False)
