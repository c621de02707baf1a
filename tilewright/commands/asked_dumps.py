"""The texts of passes that `tilewright compile` is asked for: printed, written into folders, or explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.commands.compile_report import write_report
from tilewright.compiler.pipeline import Dump, passes_of
from tilewright.dumps.files import Dumps, DumpView, dump_files, require_folder, write_folder
from tilewright.dumps.layers import require_layer
from tilewright.program import Program


@dataclass(frozen=True)
class AskedDumps:
    """Which texts: those after some passes, all in a folder, all with a report, or those that explain the selection.

    `names` are the passes that run; `dumps` collects their texts, if any is asked for.
    """

    after: Sequence[str]
    folder: Path | None
    report: Path | None
    explains: bool
    view: DumpView
    names: tuple[str, ...]
    dumps: Dumps = field(default_factory=Dumps)

    @property
    def dump(self) -> Dump | None:
        """What collects the texts; None where none is asked for."""
        return self.dumps.add if self.after or self.folder or self.report or self.explains else None

    def require_folders(self) -> None:
        """Raise InputError, before anything else is done, when a folder cannot be there."""
        for folder in (self.folder, self.report):
            if folder is not None:
                require_folder(folder)

    def printed(self, program: Program) -> str:
        """The texts after the passes; raises InputError if there is no such layer."""
        return "".join(self._printed(program))

    def _printed(self, program: Program) -> Iterator[str]:
        layers = [of.layers for of in program.programs]
        if self.view.layer is not None:
            require_layer(self.view.layer, layers)
        for texts, of in zip(self.dumps.programs, layers, strict=False):
            for name, text in texts:
                if name in self.after:
                    yield self.view.shown(name, text, program.machine, of)

    def write(self, program: Program) -> None:
        """Write the folders."""
        if self.folder is None and self.report is None:
            return
        layers = [of.layers for of in program.programs]
        files = dump_files(self.dumps.programs, program.machine, layers, self.view, passes_of(self.names).names())
        if self.folder is not None:
            write_folder(self.folder, files)
        if self.report is not None:
            write_report(self.report, program, files)
