"""`tilewright isa`: list, show, lint, manual and diff of machines, and the schema of their files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.commands.options import ON_TERMINAL, Json, OptionalOutput, Set, report, write_output, write_text
from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.isa.machine.machine import Machine
    from tilewright.isa.pages.show import Table

isa_app = typer.Typer(
    help="Print, check and compare machines: shipped ones by name, others as YAML files.", no_args_is_help=True
)

MACHINE = "A shipped machine's name, or a .yaml file."

Name = Annotated[str, typer.Argument(metavar="MACHINE", autocompletion=complete_machine, help=MACHINE)]


@isa_app.command("list")
def list_machines(json: Json = None) -> None:
    """List the machines that ship with Tilewright."""
    from tilewright.isa.files.loader import load_machine, shipped_machines
    from tilewright.isa.pages.show import list_machines as to_table

    table = to_table([load_machine(name) for name in shipped_machines()])
    _show_tables([table], json, as_rows(table))


@isa_app.command()
def show(
    machine: Name,
    set: Set = None,  # noqa: A002
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Draw memories, engines, ports and widths; - prints the picture."),
    ] = None,
    json: Json = None,
) -> None:
    """Print a machine's memories, engines, instructions and peak rates."""
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.pages.show import tables

    if svg == json == ON_TERMINAL:
        raise typer.BadParameter("only one of --json and --svg can be standard output: give the other a file")
    found = load_machine(machine, tuple(set or ()))
    if svg is not None:
        from tilewright.html.machine import machine_picture

        write_output(svg, machine_picture(found))
        if svg == ON_TERMINAL:
            return
    shown = tables(found)
    _show_tables(
        shown, json, {"machine": found.name, "hash": found.hash, "tables": {t.title: as_rows(t) for t in shown}}
    )


@isa_app.command()
def lint(
    machine: Name,
    set: Set = None,  # noqa: A002
    clock: Annotated[
        bool, typer.Option("--clock", help="Also note statements that lower the clock, which takes minutes once.")
    ] = False,
    json: Json = None,
) -> None:
    """Check a machine file and report all faults at once, each with its line and what would be right."""
    from tilewright.isa.files.lint import lint as find_faults

    faults = find_faults(machine, tuple(set or ()))
    notes = () if faults else _notes(machine, tuple(set or ()))
    notes += _clock_notes(machine, tuple(set or ())) if clock and not faults else ()
    if report({"machine": machine, "faults": list(faults), "notes": list(notes)}, json):
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        for fault in faults:
            typer.echo(f"error: {fault}", err=True)
        typer.echo(f"{machine}: {len(faults) or 'no'} fault{'s' * (len(faults) != 1)}", err=bool(faults))
    if faults:
        raise typer.Exit(1)


def _notes(machine: str, overrides: Sequence[str]) -> tuple[str, ...]:
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.pages.port_notes import port_notes
    from tilewright.isa.pages.sum_notes import sum_notes

    loaded = load_machine(machine, overrides)
    return (*port_notes(loaded), *sum_notes(loaded))


def _clock_notes(machine: str, overrides: Sequence[str]) -> tuple[str, ...]:
    from tilewright.codesign.price.clock_notes import clock_notes
    from tilewright.codesign.price.process import load_process
    from tilewright.isa.files.loader import load_machine
    from tilewright.terminal.progress import progress

    with progress(f"finding the longest paths of {machine}"):
        return clock_notes(load_machine(machine, overrides), load_process())


@isa_app.command()
def manual(
    machine: Name,
    output: OptionalOutput = None,
    set: Set = None,  # noqa: A002
    price: Annotated[
        bool, typer.Option("--price", help="Also what each instruction costs, which takes a minute or two once.")
    ] = False,
    json: Json = None,
) -> None:
    """Print a machine's reference manual, in Markdown."""
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.pages.manual import manual as to_text

    found = load_machine(machine, tuple(set or ()))
    text = to_text(found, _costs(found) if price else None)
    write_text({"machine": found.name, "manual": text}, text, output, json)


def _costs(machine: Machine) -> dict[str, str]:
    """What each instruction costs, as sentences."""
    from tilewright.codesign.price.instruction_costs import cost_text, instruction_costs
    from tilewright.codesign.price.price import price_machine
    from tilewright.terminal.progress import progress

    with progress(f"pricing {machine.name} and each of its instructions"):
        price = price_machine(machine)
        return {name: cost_text(cost, price) for name, cost in instruction_costs(price).items()}


@isa_app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="FIRST", help=MACHINE)],
    second: Annotated[str, typer.Argument(metavar="SECOND", help=MACHINE)],
    set: Set = None,  # noqa: A002
    area: Annotated[
        bool, typer.Option("--area", help="Also compare what both take in silicon, which takes minutes once.")
    ] = False,
    json: Json = None,
) -> None:
    """Print what changes from the first machine to the second. --set applies to the second only."""
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.pages.diff import difference

    machines = load_machine(first), load_machine(second, tuple(set or ()))
    lines = (*difference(*machines), *(_price_difference(*machines) if area else ()))
    if report({"first": first, "second": second, "differences": list(lines)}, json):
        for line in grouped(lines) or ("the same machine",):
            typer.echo(line)


def _price_difference(first: Machine, second: Machine) -> tuple[str, ...]:
    from tilewright.codesign.price import price
    from tilewright.codesign.price.difference import price_difference
    from tilewright.terminal.progress import progress

    with progress(f"pricing {first.name} and {second.name}"):
        return price_difference(*(price.price_machine(machine) for machine in (first, second)))


@isa_app.command()
def schema(output: OptionalOutput = None) -> None:
    """Print the JSON Schema of machine files, with which editors complete keys and underline faults."""
    from tilewright.isa.files.schema import schema_text

    write_output(output or ON_TERMINAL, schema_text())


def grouped(lines: Sequence[str]) -> list[str]:
    """Lines `key: what` as a person reads them: neighbours with one key under it, what is long folded under itself.

    >>> grouped(["lanes: 16 → 8", "instructions.mma: bits: 9 → 8", "instructions.mma: opcode: 1 → 2"])
    ['lanes: 16 → 8', 'instructions.mma:', '  bits: 9 → 8', '  opcode: 1 → 2']
    """
    shown: list[str] = []
    for key, group in groupby(lines, lambda line: line.partition(": ")[0]):
        same = list(group)
        if len(same) == 1:
            shown.extend(_folded(same[0], ""))
            continue
        shown.append(f"{key}:")
        for line in same:
            shown.extend(_folded(line.removeprefix(f"{key}: "), "  "))
    return shown


def _folded(line: str, indent: str) -> list[str]:
    from tilewright.terminal.tables import NARROW

    width = max(NARROW, get_terminal_size().columns)
    return wrap(line, width, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False)


def as_rows(table: Table) -> list[dict[str, Any]]:
    """One dictionary a row, by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _show_tables(tables: Sequence[Table], json: Any, value: Any) -> None:
    from tilewright.terminal.tables import print_tables

    if report(value, json):
        print_tables((table.title, table.columns, table.rows) for table in tables)
