"""Verilator's own part of every simulation program, compiled once: it takes as long as a small machine does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tilewright.isa.folders.cache import cache_folder, digest, kept
from tilewright.rtl.simulation.verilator import OBJECTS, make, tool_facts, verilate

NAME = "runtime"

MODULE = f"""\
module {NAME};
    import "DPI-C" function void nothing();
    initial nothing();
endmodule
"""
"""The least that has Verilator name all that a machine with its test bench links."""

GOALS = "$(file > names.txt,$(VK_GLOBAL_OBJS))\nobjects: $(VK_GLOBAL_OBJS)\n"
"""Read after Verilator's makefile."""

WITHOUT_RUNTIME = ("VM_GLOBAL_FAST=", "VM_GLOBAL_SLOW=")
"""For the makefile of a program that gets these objects as they are."""


def runtime_objects(has_waves: bool) -> list[Path]:
    """The object files, from the cache if it has them, for programs that write waves or for those that do not."""
    place = cache_folder() / "runtimes" / digest(*tool_facts(), MODULE, "waves" if has_waves else "")
    return sorted(kept(place, partial(_compile, has_waves)).iterdir())


def _compile(has_waves: bool, folder: Path) -> Path:
    (folder / f"{NAME}.sv").write_text(MODULE)
    verilate(folder, NAME, [f"{NAME}.sv"], has_waves)
    (folder / OBJECTS / "goals.mk").write_text(GOALS)
    make(folder, "-f", "goals.mk", "objects")
    objects = folder / "objects"
    objects.mkdir()
    for name in (folder / OBJECTS / "names.txt").read_text().split():
        (folder / OBJECTS / name).rename(objects / name)
    return objects
