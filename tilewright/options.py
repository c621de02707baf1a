"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.errors import InputError

Isa = Annotated[
    str, typer.Option("--isa", metavar="MACHINE", help="A shipped machine's name (see `isa list`), or a .yaml file.")
]
OptionalIsa = Annotated[
    str | None, typer.Option("--isa", metavar="MACHINE", help="Refuse a program that was built for another machine.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the machine, such as memories.act.kib=64."),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write what the table shows as JSON; - prints it instead."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
OptionalOutput = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to the terminal.")
]
Shape = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=SIZES", help="Fix an input's open sizes, such as image=1x3x224x224."),
]
CALIBRATION_HELP = "A .npz with samples of the inputs; or random, if only cycles matter."
Calibration = Annotated[
    str | None,
    typer.Option("--calibration", metavar="FILE", help=f"Quantise a float model with data. {CALIBRATION_HELP}"),
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, help="The seed of --calibration random.")]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="Run a program that the checker refuses.")]
ProgramFile = Annotated[Path, typer.Argument(metavar="PROGRAM", help="A compiled program, such as net.npu.")]

ON_TERMINAL = Path("-")

NARROW = 80
"""The least width that output is laid out for, also when it goes to a file."""


def report(value: Any, json: Path | None) -> bool:
    """Write `value` where `--json` says; True if a table should be printed too."""
    if json is None:
        return True
    from tilewright.files import json_text, write_json

    if json == ON_TERMINAL:
        typer.echo(json_text(value), nl=False)
        return False
    write_json(json, value)
    return True


def write_or_print(text: str, output: Path | None) -> None:
    """The text into a file, in one step, or onto the terminal."""
    if output is None or output == ON_TERMINAL:
        typer.echo(text, nl=False)
        return
    from tilewright.files import write_file

    write_file(output, text)


def read_text(path: Path) -> str:
    """A text file; raises InputError when it is not UTF-8, OSError when it cannot be read."""
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: byte {error.start} is not UTF-8") from error
