"""Texts of passes as files: each says in its first line of which pass and machine it is, for `--resume-from`.

    // tilewright: after fuse, for tiny8 (7ddd937f98e42864)

The line is a comment to whoever reads the text; the digits are the first of the hash of the machine's description. A
text that lacks something says so at the end of the line; no pass can go on from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.compiler.levels import INSTRUCTIONS
from tilewright.compiler.pipeline import pass_named, pass_names
from tilewright.dumps.layers import layer_text, parts_of, position_of
from tilewright.dumps.pages import dump_pages
from tilewright.errors import InputError
from tilewright.files.whole import read_text
from tilewright.isa.folders.scratch import scratch
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Layer

HEAD = re.compile(r"(?://|#) tilewright: after (\S+), for (.*) \(([0-9a-f]+)\)(?:; (.+))?")
HASH_DIGITS = 16

LONG = re.compile(r'dense<"0x[0-9A-F]{129,}">')
"""A constant of more than 64 bytes."""

ELIDED = "dense_resource<__elided__>"
"""What MLIR's own tools write in place of a constant that they leave out."""

DATA = re.compile(r"(?:^\.(?:hex|zeros) .*\n){5,}", re.MULTILINE)
"""More than 64 bytes of the weights region, as assembly has them."""

Texts = Sequence[tuple[str, str]]
"""(pass, text of its result) of one program, in order."""


@dataclass(frozen=True, slots=True)
class DumpView:
    """What is shown of texts: with long `constants` or without; all layers or one."""

    constants: bool = False
    layer: str | None = None

    def shown(self, name: str, text: str, machine: Machine, layers: Sequence[Layer]) -> str:
        """The text of a pass's result after a line that says what it is, and what it lacks."""
        lacks = []
        if self.layer is not None:
            position = position_of(self.layer, layers)
            parts = parts_of(text, layers, pass_named(name).after is INSTRUCTIONS)
            text = "" if position is None else layer_text(parts, position)
            lacks.append(f"only layer {self.layer}")
        if not self.constants:
            shorter = DATA.sub("# constants\n", LONG.sub(ELIDED, text))
            lacks += ["without long constants"] * (shorter != text)
            text = shorter
        return with_head(name, text, machine, ", ".join(lacks))


class Dumps:
    """Collects the texts of passes, by program: a network with nodes on the host may have several."""

    def __init__(self) -> None:
        self.programs: list[list[tuple[str, str]]] = []

    def add(self, name: str, text: str) -> None:
        """The next text. Each program runs each pass once, so a pass that comes again begins another program."""
        if not self.programs or name in (known for known, _ in self.programs[-1]):
            self.programs.append([])
        self.programs[-1].append((name, text))


def with_head(name: str, text: str, machine: Machine, lacks: str = "") -> str:
    """The text of a pass's result after a line that says what it is, and what it `lacks`."""
    more = f"; {lacks}" if lacks else ""
    return f"{pass_named(name).after.comment} tilewright: after {name}, for {_identity(machine)}{more}\n{text}"


def read_dump(path: Path, machine: Machine) -> tuple[str, str]:
    """The pass of a file and its text; raises InputError when it is no dump, or one for another machine."""
    text = read_text(path)
    first = text.partition("\n")[0]
    head = HEAD.fullmatch(first.rstrip())
    if head is None:
        raise InputError(
            f"{path}: not the text of a pass; expected a file of --dump-dir, with its first line as it was"
        )
    name, machine_name, digits, lacks = head.groups()
    if name not in pass_names():
        raise InputError(f"{path}: there is no pass {name!r}; the passes are: {', '.join(pass_names())}")
    if digits != machine.hash[:HASH_DIGITS]:
        raise InputError(
            f"{path}: for {machine_name} ({digits}), not for {_identity(machine)}; "
            "give the --isa and --set that it was made with"
        )
    if lacks is not None:
        raise InputError(f"{path}: {lacks}; dump it with --constants and without --layer to go on from it")
    return name, text


def _identity(machine: Machine) -> str:
    return f"{machine.name} ({machine.hash[:HASH_DIGITS]})"


# -- folders -----------------------------------------------------------------------------------------------------------


def dump_files(
    programs: Sequence[Texts],
    machine: Machine,
    layers: Sequence[Sequence[Layer]],
    view: DumpView,
    order: Sequence[str],
) -> dict[str, str]:
    """The files of a folder, `05-fuse.mlir`: numbered in the `order` in which all passes run, from 0 on.

    Those of several programs are each in a subfolder. With them come pages: an index, and one for each layer.
    """
    folders: dict[str, dict[str, str]] = {}
    for number, (texts, of) in enumerate(zip(programs, layers, strict=True), 1):
        files = {
            f"{order.index(name):02}-{name}{pass_named(name).after.suffix}": view.shown(name, text, machine, of)
            for name, text in texts
        }
        folders[f"program-{number}/" if len(programs) > 1 else ""] = files
    pages = dump_pages(folders, dict(zip(folders, layers, strict=True)), f"Passes for {_identity(machine)}")
    return pages | {folder + name: text for folder, files in folders.items() for name, text in files.items()}


def require_folder(path: Path) -> None:
    """Raise InputError, before anything else is done, when no folder can be there."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"{existing}: not a folder")


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, which is made if it is missing: all of them or none. Raises OSError."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch(folder) as unfinished:
            for name, text in files.items():
                path = Path(unfinished, name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(text.encode())
            for name in files:
                target = folder / name
                target.parent.mkdir(exist_ok=True)
                Path(unfinished, name).replace(target)
    except OSError as error:
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise OSError(error.errno, error.strerror, str(folder)) from error
