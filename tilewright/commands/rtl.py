"""`tilewright rtl`: a machine's hardware as SystemVerilog."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tilewright.commands.options import Isa, Json, OptionalOutput, Set, report, write_folder, write_output

PREFIX = "[a-z][a-z0-9_]*"


def rtl_command(
    isa: Isa,
    output: OptionalOutput = None,
    split: Annotated[
        Path | None,
        typer.Option("--split", metavar="DIR", help="A file for each module, and wrappers of memories to choose from."),
    ] = None,
    asic: Annotated[
        Path | None,
        typer.Option("--asic", metavar="DIR", help="As --split, with a configuration for LibreLane; needs --clock."),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="What the names of all modules begin with.")] = "",
    clock: Annotated[
        float | None,
        typer.Option(
            "--clock", metavar="MHZ", min=0.001, max=100_000.0, help="With --split or --asic: constraints for it."
        ),
    ] = None,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """Write a machine's hardware as SystemVerilog. The head of the file says which registers and pins there are."""
    from tilewright.isa.files.loader import load_machine
    from tilewright.rtl.asic import asic_files
    from tilewright.rtl.constraints import CLOCK_PORT, clock_constraints
    from tilewright.rtl.integration import one_file, split_files
    from tilewright.rtl.verilog import netlist
    from tilewright.terminal.progress import progress
    from tilewright.terminal.tables import print_table

    if sum(place is not None for place in (output, split, asic)) != 1:
        raise typer.BadParameter("give one of --output FILE, --split DIR, --asic DIR", param_hint="--output")
    if prefix and not re.fullmatch(PREFIX, prefix):
        wrong = f"{prefix!r}: expected small letters, digits and _, a letter first"
        raise typer.BadParameter(wrong, param_hint="--prefix")
    if clock is not None and output is not None:
        raise typer.BadParameter("it writes files beside the modules: give --split DIR", param_hint="--clock")
    if asic is not None and clock is None:
        raise typer.BadParameter("a chip is made for a clock: give --clock MHZ", param_hint="--asic")
    machine = load_machine(isa, tuple(set or ()))
    with progress(f"elaborating {machine.name}"):
        made = netlist(machine, prefix)
        if asic is not None and clock is not None:
            texts = asic_files(machine, made, clock)
        elif split is not None:
            texts = split_files(machine, made)
            for end, text in clock_constraints(CLOCK_PORT, clock).items() if clock is not None else ():
                texts[f"{made.top}.{end}"] = text
        else:
            texts = {"": one_file(machine, made)}
    folder = split or asic
    if folder is not None:
        write_folder(folder, texts)
    elif output is not None:
        write_output(output, texts[""])
    lines, size = sum(text.count("\n") for text in texts.values()), sum(len(t.encode()) for t in texts.values())
    summary = {"machine": machine.name, "top": made.top, "files": len(texts), "lines": lines, "bytes": size}
    if report(summary, json, output):
        heads = ("machine", "top module", "files", "lines", "bytes")
        print_table(f"{output or folder}", heads, [tuple(summary.values())])
