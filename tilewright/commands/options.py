"""Options that several commands share, declared once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.terminal.completion import complete_machine

if TYPE_CHECKING:
    from tilewright.program import Program

Isa = Annotated[
    str,
    typer.Option(
        "--isa",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="A shipped machine's name (see `isa list`), or a .yaml file.",
    ),
]
OptionalIsa = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="MACHINE",
        autocompletion=complete_machine,
        help="Refuse a program of another machine; compile a model for this one.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the machine, such as memories.act.kib=64."),
]
SameEffort = Annotated[
    int, typer.Option("--effort", metavar="LEVEL", min=0, max=2, help="As for compile, so that it is the same program.")
]
ON_TERMINAL = Path("-")
"""Means standard output where an option takes a file."""


def _alone(context: typer.Context, value: Path | None) -> Path | None:
    """The value of --output or --json; raises BadParameter when both want standard output."""
    if value == ON_TERMINAL and ON_TERMINAL in (context.params.get("output"), context.params.get("json")):
        raise typer.BadParameter("--output and --json cannot both be standard output: give one of them a file")
    return value


Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=_alone,
        help="Also write the table as JSON; - prints JSON instead of the table.",
    ),
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", callback=_alone, help="The file to write; - is standard output."),
]
OptionalOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", callback=_alone, help="Write to this file instead of the terminal."),
]
OutputArrays = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        callback=_alone,
        help="Write the outputs to this .npz file; - is standard output.",
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=SIZES", help="Fix an input's open sizes, such as image=1x3x224x224."),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch", metavar="IMAGES", min=1, help="Take so many images in each run, where that is faster for each."
    ),
]
CALIBRATION_HELP = "A .npz file with samples of the inputs; or random, if only cycles matter."
Calibration = Annotated[
    str | None,
    typer.Option("--calibration", metavar="FILE", help=f"Quantise a float model first. {CALIBRATION_HELP}"),
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, help="The seed of --calibration random.")]
Networks = Annotated[
    list[Path],
    typer.Argument(metavar="NET...", help="Quantised ONNX or TFLite models; or float ones, with --calibration."),
]
Effort = Annotated[int, typer.Option("--effort", metavar="LEVEL", min=0, max=2, help="As of `compile`.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="NUMBER", min=1, help="Processes; if left out, one for each core."),
]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Run a program that the checker refuses.")]
Budget = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="NAME=AMOUNT",
        help="Let the program ask for more: iterations, moved, memory, pieces; such as memory=4G.",
    ),
]
ProgramFile = Annotated[
    Path,
    typer.Argument(metavar="PROGRAM", help="A compiled program, such as net.npu; or a model, with --isa."),
]


def report(value: Any, json: Path | None, output: Path | None = None) -> bool:
    """Write `value` to the file of `--json`. True if standard output is still free for a table."""
    if json is None:
        return output != ON_TERMINAL
    from tilewright.files.whole import json_text, write_json

    if json == ON_TERMINAL:
        typer.echo(json_text(value), nl=False)
        return False
    write_json(json, value)
    return output != ON_TERMINAL


def is_taken(output: Path | None, json: Path | None) -> bool:
    """Whether standard output holds a file or JSON. Then everything else goes to standard error or is left out."""
    return ON_TERMINAL in (output, json)


def write_output(output: Path, content: bytes | str) -> None:
    """Write the content to a file, in one step, or to standard output. Raises OSError."""
    if output == ON_TERMINAL:
        typer.echo(content, nl=False)
        return
    from tilewright.files.whole import write_file

    write_file(output, content)


def write_folder(folder: Path, files: Mapping[str, bytes | str], kept: str | None = None) -> None:
    """Write files by their paths into a folder, which may exist. Raises OSError.

    A file `kept` that is there stays as it is. What else is there that is not of these files is told, not touched:
    it may be left of another run.
    """
    from tilewright.files.whole import write_file

    stays = kept is not None and (folder / kept).is_file() and (folder / kept).read_bytes() != _bytes(files[kept])
    for name, content in files.items():
        if name == kept and stays:
            typer.echo(f"note: {folder / name} is another than ours and is kept", err=True)
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, content)
    written = {folder / name for name in files}
    others = sorted(path for path in folder.rglob("*") if path.is_file() and path not in written)
    if others:
        count = f"{len(others)} file{'s' if len(others) > 1 else ''}"
        typer.echo(f"note: {folder} has {count} besides, such as {others[0].relative_to(folder)}", err=True)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def save_program(program: Program, output: Path) -> None:
    """Write a binary to a file, in one step, or to standard output. Raises IsaError."""
    if output == ON_TERMINAL:
        write_output(output, program.to_bytes())
        return
    program.save(output)


def write_text(value: Any, text: str, output: Path | None, json: Path | None) -> None:
    """A command's text where `--output` says, on standard output if it says nothing and `--json` does not take that."""
    is_free = report(value, json)
    if output is not None or is_free:
        write_output(ON_TERMINAL if output is None else output, text)


def load_program(path: Path, isa: str | None, overrides: list[str] | None, settings: list[str] | None) -> Program:
    """A compiled program from its file, within the budgets of `settings`; `isa` with `overrides` must be its machine.

    A model is compiled for that machine. Raises IsaError, InputError, OverBudget, and BadParameter for overrides
    without a machine.
    """
    from tilewright.files.kinds import model_kind
    from tilewright.isa.files.loader import load_machine
    from tilewright.isa.program.budgets import parse_budgets
    from tilewright.program import Program

    budgets = parse_budgets(settings or ())
    kind = model_kind(path)
    if kind is not None:
        from tilewright.commands.model_in_place import compile_in_place

        return compile_in_place(path, kind, isa, overrides or (), budgets)
    if isa is not None:
        return Program.load(path, load_machine(isa, tuple(overrides or ())), budgets)
    if overrides:
        raise typer.BadParameter("overrides change a machine: name it with --isa", param_hint="--set")
    return Program.load(path, budgets=budgets)


@contextmanager
def running(
    path: Path,
    on: str,
    isa: str | None,
    overrides: list[str] | None,
    settings: list[str] | None,
    has_waves: bool = False,
) -> Iterator[Program]:
    """The program in a file, as `load_program` reads it; a terminal shows that it runs while the body does."""
    from tilewright.terminal.progress import progress, warn_of_build

    loaded = load_program(path, isa, overrides, settings)
    warn_of_build(on, loaded.machine, has_waves)
    with progress(f"running {path.name} on {on}"):
        yield loaded
