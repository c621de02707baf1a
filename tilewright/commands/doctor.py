"""`tilewright doctor`: what is installed here, and what is missing for which command."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tilewright.commands.options import Json, report

COMPILING = ("g++", "make", "perl")
"""Programs that Verilator runs to build a simulation."""


def doctor_command(json: Json = None) -> None:
    """Say what is installed here, and what is missing for which command."""
    from tilewright.isa.folders.cache import cache_folder
    from tilewright.terminal.tables import print_table, print_text

    rows = list(_rows())
    kernels = _kernels()
    value = {
        "python": sys.version.split()[0],
        "cache": str(cache_folder()),
        "kernels": kernels,
        "needs": [{"for": what, "needs": needs, "missing": missing} for what, needs, missing in rows],
    }
    if not report(value, json):
        return
    shown = [(what, needs, _state(missing)) for what, needs, missing in rows]
    print_table(f"What is there, with Python {value['python']}", ("for", "needs", "state"), shown)
    print()
    print_text(f"Cache: {value['cache']}. What was compiled, priced, tuned or built is kept there.")
    if not kernels:
        print_text("The first command compiles its kernels, once, which takes about a minute. Later ones load them.")


def _rows() -> Iterator[tuple[str, str, list[str]]]:
    """(commands or options, the extra or the programs that they need, what of it is missing)."""
    from tilewright.extras import EXTRAS

    for extra in EXTRAS:
        missing = [module for module in extra.modules if find_spec(module) is None]
        yield extra.used_by, f"tilewright[{extra.name}]", missing
    programs = [name for name in COMPILING if shutil.which(name) is None]
    library = [] if find_spec("find_libpython") is None or _has_shared_python() else ["libpython"]
    yield "run --on rtl, --waves", "g++, make, perl, libpython", programs + library


def _has_shared_python() -> bool:
    from tilewright.rtl.simulation.tools import RtlError, shared_python

    try:
        return bool(shared_python())
    except RtlError:
        return False


def _kernels() -> int:
    """How many kernels are compiled and kept, beside the package or in the cache."""
    from tilewright.isa.folders.cache import cache_folder
    from tilewright.isa.kernels.store import SUFFIX

    folders = [*(Path(each).resolve() for each in _package_folders()), cache_folder() / "kernels"]
    return sum(1 for folder in folders for _ in folder.rglob(f"*{SUFFIX}"))


def _package_folders() -> list[Path]:
    """The package's folder and those in it, which may be links."""
    return [path for path in Path(__file__).parent.iterdir() if path.is_dir()]


def _state(missing: list[str]) -> str:
    return "installed" if not missing else f"missing: {', '.join(missing)}"
