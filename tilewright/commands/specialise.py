"""`tilewright specialise`: which new instructions a machine should have for these networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.codesign.specialise.goal import SavedQuantity
from tilewright.commands.options import (
    ON_TERMINAL,
    Calibration,
    Effort,
    Isa,
    Jobs,
    Json,
    Networks,
    OptionalOutput,
    Seed,
    Set,
    Shape,
    report,
    write_output,
)
from tilewright.errors import InputError
from tilewright.extras import require_module

if TYPE_CHECKING:
    from tilewright.codesign.specialise.answer import InstructionProposal, Specialised

Area = Annotated[
    str,
    typer.Option("--area", metavar="SHARE", help="How much logic the instructions may add, such as +10%."),
]
HeldOut = Annotated[
    list[Path] | None,
    typer.Option("--holdout", metavar="NET", help="Show what it does to this network, which has no say in the choice."),
]
Propose = Annotated[
    int | None,
    typer.Option("--propose", metavar="NUMBER", min=1, help="Only list so many candidates; choose nothing."),
]
NoControl = Annotated[bool, typer.Option("--no-control", help="Do not look for what else the same area would buy.")]
NoRemovals = Annotated[bool, typer.Option("--no-removals", help="Do not look for what the machine could do without.")]
NoClock = Annotated[bool, typer.Option("--no-clock", help="Do not synthesise for the clock, before and after.")]


MOST_REMOVALS = 10
"""Rows of what can go; the page and --json have all."""


ObjectiveOption = Annotated[
    SavedQuantity,
    typer.Option("--objective", help="What should be less: area is cycles times area; energy includes DRAM's."),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="NET=NUMBER",
        help="How often a network runs beside the others; then sums count. Without, all count alike.",
    ),
]
HostCycles = Annotated[
    float | None,
    typer.Option(
        "--host-cycles",
        metavar="CYCLES",
        min=0,
        help="What a node on the host counts as, so that one that the machine does instead is a gain.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Try machines on the cluster of this Dask scheduler, or its file."),
]
Given = Annotated[
    Path | None,
    typer.Option("--with", metavar="FILE", help="Also try the instructions of this machine's file, and judge each."),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page with all of it, one file for any browser."),
]


def specialise_command(
    networks: Networks,
    isa: Isa,
    area: Area = "+10%",
    holdout: HeldOut = None,
    propose: Propose = None,
    objective: ObjectiveOption = SavedQuantity.CYCLES,
    weight: Weights = None,
    host_cycles: HostCycles = None,
    given: Given = None,
    no_control: NoControl = False,
    no_removals: NoRemovals = False,
    no_clock: NoClock = False,
    html: Html = None,
    output: OptionalOutput = None,
    set: Set = None,  # noqa: A002
    effort: Effort = 1,
    jobs: Jobs = None,
    dask: Dask = None,
    shape: Shape = None,
    calibration: Calibration = None,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Find new instructions for a machine, and what each is worth to these networks.

    Candidates are what layers do in several instructions, or on a few elements of the array. Each is priced, and the
    networks are compiled and simulated with it; of the sets within the budget the best is chosen. --output writes a
    machine's file with it. Takes minutes; stop it with Ctrl-C, and the same command goes on where it stopped.
    """
    from tilewright.better_machines import propose_instructions, specialise
    from tilewright.codesign.specialise.overlay import machine_file
    from tilewright.commands.quantize import print_warnings
    from tilewright.compiler.importers.input_shapes import parse_shapes
    from tilewright.isa.folders.cache import cache_folder
    from tilewright.terminal.progress import counting

    extends = _extends(isa, output, bool(set))
    shapes = parse_shapes(shape or ())
    budget = share(area)
    _require_own_files(html, json, output)
    if propose is not None:
        _require_only_listing({"--holdout": holdout, "--with": given, "--html": html, "--output": output})
        found = propose_instructions(networks, isa, set or (), shapes, calibration, seed, print_warnings)
        _print_proposal(found, propose, json)
        return
    _require_modules({"distributed": dask, "bokeh": html})
    with counting("trying instructions") as (done, say):
        answer = specialise(
            networks, isa, budget, holdout or (), set or (), effort, not no_control, shapes, jobs, done,
            calibration, seed, print_warnings, say, cache_folder() / "trials",
            objective, weights(weight or ()), given, not no_removals, not no_clock, host_cycles, dask,
        )  # fmt: skip
    text = machine_file(answer, extends)
    if html is not None:
        _write_page(answer, text, html)
    _print(answer, json, is_quiet=html == ON_TERMINAL)
    if output is not None:
        _write(answer, text, output)


def _require_modules(asked: Mapping[str, object]) -> None:
    """Raise an error of what is not installed before the work, not after it."""
    for module, option in asked.items():
        if option is not None:
            require_module(module)


def _write_page(answer: Specialised, text: str, html: Path) -> None:
    from tilewright.specialised.page import instructions_page

    write_output(html, instructions_page(answer, text))


def _require_own_files(html: Path | None, json: Path | None, output: Path | None) -> None:
    if html is not None and html in (json, output):
        raise typer.BadParameter("--html, --json and --output want the same file: give each its own")


def _require_only_listing(options: dict[str, object]) -> None:
    """Raises InputError for options that a list of candidates has no use for."""
    for name, value in options.items():
        if value:
            raise InputError(f"--propose only lists candidates: leave {name} out, or --propose")


def share(text: str) -> float:
    """0.1 of `+10%`; raises InputError for what is no share above 0."""
    from tilewright.codesign.specialise.share import EXPECTED, share_of

    found = share_of(text)
    if found is None:
        raise InputError(f"--area {text}: {EXPECTED}")
    return found


def weights(texts: Sequence[str]) -> dict[str, float]:
    """By network, of `ds-cnn=10`; raises InputError for other texts, and for a network with two weights."""
    found: dict[str, float] = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not sign or not name or not 0 < value < float("inf"):
            raise InputError(f"--weight {text}: expected a network and how often it runs, such as ds-cnn=10")
        if name in found:
            raise InputError(f"--weight {text}: {name} has a weight of {found[name]:g} already")
        found[name] = value
    return found


def _extends(isa: str, output: Path | None, is_set: bool) -> str:
    """The machine as a file beside the output names it. Raises InputError where it cannot."""
    if output is None or not Path(isa).suffix:
        extends = isa
    else:
        extends = os.path.relpath(isa, output.parent)
    if output is not None and is_set:
        raise InputError("--output with --set: the file extends a machine; put the settings into a file and name that")
    return extends


def _print_proposal(found: InstructionProposal, top: int, json: Path | None) -> None:
    from tilewright.codesign.specialise.tables import proposal_lines, proposal_tables
    from tilewright.terminal.tables import print_tables, print_text

    if report(found.as_json(), json):
        tables = proposal_tables(found, top)
        print_tables(tables)
        if tables:
            print()
        for line in proposal_lines(found, top):
            print_text(line)


def _print(found: Specialised, json: Path | None, is_quiet: bool) -> None:
    from tilewright.codesign.specialise.tables import lines, tables
    from tilewright.terminal.tables import print_tables, print_text

    if report(found.as_json(), json) and not is_quiet:
        shown = tables(found, MOST_REMOVALS)
        print_tables(shown)
        if shown:
            print()
        for line in lines(found):
            print_text(line)


def _write(found: Specialised, text: str, output: Path) -> None:
    from tilewright.terminal.tables import print_text

    if found.choice.chosen:
        write_output(output, text)
    else:
        print_text(f"{output} is not written: there is no instruction to add.")
