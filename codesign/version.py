"""What a result of a study depends on, as one text: results of another version are not mixed with one's own."""

from __future__ import annotations

from functools import cache

from tilewright import codesign, compiler, isa, rtl, simulator
from tilewright.isa.binary.elf_writer import tool_version
from tilewright.isa.file_hash import folder_of, hash_of_code, hash_of_files

ROOMS_WITHOUT_RESULTS = frozenset({"explore", "verify", "compare", "advise"})
"""Folders of code that no result of a study depends on."""


@cache
def version() -> str:
    """The program's version and a hash of all code, and of the processes' figures, that a result depends on."""
    packages = (codesign, compiler, isa, rtl, simulator)
    code = hash_of_code((folder_of(package) for package in packages), without=ROOMS_WITHOUT_RESULTS)
    figures = hash_of_files((folder_of(codesign),), pattern="processes/*/*.*")
    return f"{tool_version()}+{code[:8]}{figures[:8]}"
