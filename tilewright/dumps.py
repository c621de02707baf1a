"""Texts of passes as files: each says in its first line of which pass and machine it is, for `--resume-from`.

    // tilewright: after fuse, for tiny8 (7ddd937f98e42864)

The line is a comment to whoever reads the text; the digits are the first of the hash of the machine's description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright.compiler.pipeline import pass_named, pass_names
from tilewright.errors import InputError
from tilewright.isa.machine.machine import Machine
from tilewright.options import read_text

HEAD = re.compile(r"(?://|#) tilewright: after (\S+), for (.*) \(([0-9a-f]+)\)")
HASH_DIGITS = 16

Texts = Sequence[tuple[str, str]]
"""(pass, text of its result) of one program, in order."""


class Dumps:
    """Collects the texts of passes, by program: a network with nodes on the host may have several."""

    def __init__(self) -> None:
        self.programs: list[list[tuple[str, str]]] = []

    def add(self, name: str, text: str) -> None:
        """The next text. Each program runs each pass once, so a pass that comes again begins another program."""
        if not self.programs or name in (known for known, _ in self.programs[-1]):
            self.programs.append([])
        self.programs[-1].append((name, text))


def with_head(name: str, text: str, machine: Machine) -> str:
    """The text of a pass's result after a line that says what it is."""
    return f"{pass_named(name).after.comment} tilewright: after {name}, for {_identity(machine)}\n{text}"


def read_dump(path: Path, machine: Machine) -> tuple[str, str]:
    """The pass of a file and its text; raises InputError when it is no dump, or one for another machine."""
    text = read_text(path)
    first = text.partition("\n")[0]
    head = HEAD.fullmatch(first.rstrip())
    if head is None:
        raise InputError(
            f"{path}: not the text of a pass; expected a file of --dump-dir, with its first line as it was"
        )
    name, machine_name, digits = head.groups()
    if name not in pass_names():
        raise InputError(f"{path}: there is no pass {name!r}; the passes are: {', '.join(pass_names())}")
    if digits != machine.hash[:HASH_DIGITS]:
        raise InputError(
            f"{path}: for {machine_name} ({digits}), not for {_identity(machine)}; "
            "give the --isa and --set that it was made with"
        )
    return name, text


def _identity(machine: Machine) -> str:
    return f"{machine.name} ({machine.hash[:HASH_DIGITS]})"


# -- folders -----------------------------------------------------------------------------------------------------------


def dump_files(programs: Sequence[Texts], machine: Machine) -> dict[str, str]:
    """The files of a folder, `05-fuse.mlir`: numbered as the passes are; of several programs, each in a subfolder."""
    files = {}
    for number, texts in enumerate(programs, 1):
        subfolder = f"program-{number}/" if len(programs) > 1 else ""
        for name, text in texts:
            file_name = f"{pass_names().index(name):02}-{name}{pass_named(name).after.suffix}"
            files[subfolder + file_name] = with_head(name, text, machine)
    return files


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
        with TemporaryDirectory(prefix=".unfinished-", dir=folder) as unfinished:
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
