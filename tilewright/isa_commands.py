"""`tilewright isa`: list, show, lint and manual of machines."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tilewright.options import Json, OptionalOutput, Set, report, write_or_print

isa_app = typer.Typer(help="Machines: names of shipped ones, or YAML files.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="MACHINE", help="A shipped machine's name, or a .yaml file.")]


@isa_app.command("list")
def list_machines(json: Json = None) -> None:
    """The machines that ship with Tilewright."""
    from isa.loader import load_machine, shipped_machines
    from tilewright.tables import print_table

    machines = [load_machine(name) for name in shipped_machines()]
    value = [
        {"name": m.name, "about": m.about, "rows": m.rows, "cols": m.cols, "lanes": m.lanes, "hash": m.hash}
        for m in machines
    ]
    if report(value, json):
        rows = [(m.name, f"{m.rows}×{m.cols}", m.about) for m in machines]
        print_table("Machines", ("name", "array", "about"), rows)


@isa_app.command()
def show(machine: Name, set: Set = None, json: Json = None) -> None:  # noqa: A002
    """A machine's memories, engines and instructions."""
    from isa.loader import load_machine
    from tilewright.tables import print_table

    found = load_machine(machine, tuple(set or ()))
    value = describe_machine(found)
    if not report(value, json):
        return
    typer.echo(f"{found.name}: {found.about}")
    memories = [tuple(row.values()) for row in value["memories"]]
    print_table("Memories", ("memory", "words", "word bytes", "banks", "KiB"), memories)
    engines = [
        (row["name"], row["queue"], ", ".join(row["reads"]), ", ".join(row["writes"])) for row in value["engines"]
    ]
    print_table("Engines", ("engine", "queue", "reads", "writes"), engines)
    instructions = [(row["name"], row["engine"], row["statement"]) for row in value["instructions"]]
    print_table("Instructions", ("instruction", "engine", "statement"), instructions)


def describe_machine(machine: Any) -> dict[str, Any]:
    """The machine as plain values."""
    return {
        "name": machine.name,
        "about": machine.about,
        "hash": machine.hash,
        "rows": machine.rows,
        "cols": machine.cols,
        "lanes": machine.lanes,
        "instruction_bytes": machine.instruction_bytes,
        "memories": [
            {"name": m.name, "words": m.depth, "word_bytes": m.word_bytes, "banks": m.banks, "kib": m.bytes / 1024}
            for m in machine.memories.values()
        ],
        "engines": [
            {"name": e.name, "queue": e.queue_depth, "reads": list(e.reads), "writes": list(e.writes)}
            for e in machine.engines.values()
        ],
        "instructions": [
            {"name": f.mnemonic, "engine": f.engine, "opcode": f.opcode, "statement": f.statement.text}
            for f in machine.formats.values()
        ],
    }


@isa_app.command()
def lint(machine: Name, set: Set = None, json: Json = None) -> None:  # noqa: A002
    """Check a machine file; all faults at once, each with its line and what would be right."""
    from isa.loader import load_machine
    from isa.machine_file import MachineFileError

    try:
        found = load_machine(machine, tuple(set or ()))
    except MachineFileError as error:
        if not report({"machine": machine, "faults": list(error.complaints)}, json):
            raise typer.Exit(1) from error
        raise
    value = {"machine": found.name, "faults": [], "hash": found.hash, "instructions": len(found.formats)}
    if report(value, json):
        typer.echo(f"{found.name}: {len(found.formats)} instructions of {found.instruction_bytes} bytes, no faults")


@isa_app.command()
def manual(machine: Name, output: OptionalOutput = None, set: Set = None, json: Json = None) -> None:  # noqa: A002
    """The machine's reference manual, in Markdown."""
    from isa.loader import load_machine
    from isa.manual import manual as manual_text

    found = load_machine(machine, tuple(set or ()))
    text = manual_text(found)
    if report({"machine": found.name, "manual": text}, json):
        write_or_print(text, output)
