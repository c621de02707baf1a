"""`tilewright require`: what a machine must be, to run networks so often a second, within an area."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.commands.options import (
    ON_TERMINAL,
    Calibration,
    Effort,
    Jobs,
    Json,
    Networks,
    Seed,
    Shape,
    report,
    write_output,
)
from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.codesign.require.requirement import Requirement

PerSecond = Annotated[
    float | None,
    typer.Option("--per-second", metavar="RUNS", help="Images a second, each through all networks."),
]
Clock = Annotated[float | None, typer.Option("--clock", metavar="MHZ", help="The clock that the machine shall have.")]
Area = Annotated[float | None, typer.Option("--area", metavar="MM2", help="Logic and memories take at most so much.")]
Logic = Annotated[float | None, typer.Option("--logic", metavar="MM2", help="The logic alone takes at most so much.")]
Machines = Annotated[
    list[str] | None,
    typer.Option(
        "--isa",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="Begin from this machine, by name or .yaml file; give several; all shipped ones if left out.",
    ),
]
NoPrice = Annotated[bool, typer.Option("--no-price", help="Only cycles: the nearest has least memory and MACs.")]
Answer = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the nearest machine to this .yaml file."),
]


def require_command(
    networks: Networks,
    per_second: PerSecond = None,
    clock: Clock = None,
    area: Area = None,
    logic: Logic = None,
    isa: Machines = None,
    no_price: NoPrice = False,
    effort: Effort = 1,
    jobs: Jobs = None,
    shape: Shape = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    output: Answer = None,
    json: Json = None,
) -> None:
    """Say what a machine needs for so many images a second, or within an area, and find the nearest one.

    First by bounds that hold for any program; then the shipped machines, and single steps of the sizes of the best of
    them, each compiled for and simulated. The answer is priced by itself. Takes minutes; after Ctrl-C, the same command
    goes on where it stopped.
    """
    from tilewright.better_machines import require
    from tilewright.codesign.require.tables import requirement_lines, requirement_tables
    from tilewright.commands.quantize import print_warnings
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.isa.folders.cache import cache_folder
    from tilewright.terminal.progress import counting
    from tilewright.terminal.tables import print_tables, print_text

    if output == ON_TERMINAL and json == ON_TERMINAL:
        raise typer.BadParameter("--output and --json cannot both be standard output: give one of them a file")
    shapes = parse_shapes(shape or ())
    with counting("trying machines") as (done, say):
        found: Requirement = require(
            networks, per_second, clock, area, logic, isa or (), effort, not no_price, shapes, jobs, done,
            calibration, seed, print_warnings, say, cache_folder() / "trials",
        )  # fmt: skip
    if output is not None:
        write_output(output, found.nearest.machine.text)
    if report(found.as_json(), json, output):
        print_tables(requirement_tables(found))
        print()
        for line in requirement_lines(found):
            print_text(line)
