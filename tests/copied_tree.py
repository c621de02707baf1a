"""A copy of the repository's sources, for tests that change them."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    *("isa", "compiler", "simulator", "rtl", "codesign", "tilewright", "tests", "programs", "docs"),
    "pyproject.toml",
)


def copied_tree(folder: Path) -> Path:
    """A copy of all that the tests import; links stay links, so that a change of isa/ is one of tilewright.isa, too."""
    for name in COPIED:
        source, to = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "sim_build"))
        else:
            shutil.copy(source, to)
    return folder
