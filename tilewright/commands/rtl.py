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
    prefix: Annotated[str, typer.Option("--prefix", help="What the names of all modules begin with.")] = "",
    clock: Annotated[
        float | None,
        typer.Option(
            "--clock", metavar="MHZ", min=0.001, max=100_000.0, help="With --split: constraints for this clock, too."
        ),
    ] = None,
    set: Set = None,  # noqa: A002
    json: Json = None,
) -> None:
    """Write a machine's hardware as SystemVerilog. The head of the file says which registers and pins there are."""
    from tilewright.isa.files.loader import load_machine
    from tilewright.rtl.constraints import CLOCK_PORT, clock_constraints
    from tilewright.rtl.integration import one_file, split_files
    from tilewright.rtl.verilog import netlist
    from tilewright.terminal.progress import progress
    from tilewright.terminal.tables import print_table

    if (output is None) == (split is None):
        raise typer.BadParameter("give either --output FILE or --split DIR", param_hint="--output")
    if prefix and not re.fullmatch(PREFIX, prefix):
        wrong = f"{prefix!r}: expected small letters, digits and _, a letter first"
        raise typer.BadParameter(wrong, param_hint="--prefix")
    if clock is not None and split is None:
        raise typer.BadParameter("it writes files beside the modules: give --split DIR", param_hint="--clock")
    machine = load_machine(isa, tuple(set or ()))
    with progress(f"elaborating {machine.name}"):
        made = netlist(machine, prefix)
        texts = split_files(machine, made) if split is not None else {"": one_file(machine, made)}
        if clock is not None:
            texts |= {f"{made.top}.{end}": text for end, text in clock_constraints(CLOCK_PORT, clock).items()}
    if split is not None:
        write_folder(split, texts)
    elif output is not None:
        write_output(output, texts[""])
    lines, size = sum(text.count("\n") for text in texts.values()), sum(len(t.encode()) for t in texts.values())
    summary = {"machine": machine.name, "top": made.top, "files": len(texts), "lines": lines, "bytes": size}
    if report(summary, json, output):
        heads = ("machine", "top module", "files", "lines", "bytes")
        print_table(f"{output or split}", heads, [tuple(summary.values())])
