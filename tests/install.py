"""What installing costs: `python -m tests.install` prints processor time and megabytes, of a fresh environment.

From the repository to the cycles of a network: pip's work with an empty cache, the first compilation, in which the
kernels are compiled, and the second one. `--hardware` has the extra `rtl` too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.digits import MODEL
from tilewright.terminal.tables import print_table

MOST_SECONDS, MOST_WARM_SECONDS, MOST_MEGABYTES = 80, 1.0, {"": 450, "[rtl]": 780}
"""What it shall take at most: all, a second compilation, and on the disk without and with hardware."""

AGAIN = "compile, again"


MOST_FOLDERS = 12


def main() -> int:
    """Print the table; the exit code is 1 where a figure is above what it shall be."""
    options = argparse.ArgumentParser(prog="python -m tests.install")
    options.add_argument("--hardware", action="store_true", help="also the extra rtl")
    extra = "[rtl]" if options.parse_args().hardware else ""
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        for key in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(key, None)
        seconds = dict(_steps(folder, extra, environment))
        megabytes = _megabytes(folder / "venv")
        [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
        sizes = sorted(((_megabytes(path), path.name) for path in packages.iterdir()), reverse=True)
    total = sum(seconds.values()) - seconds[AGAIN]
    most = {AGAIN: f"{MOST_WARM_SECONDS} s"}
    rows = [(step, f"{value:.2f} s", most.get(step, "")) for step, value in seconds.items()]
    rows.append(("from the repository to the first cycles", f"{total:.1f} s", f"{MOST_SECONDS} s"))
    rows.append((f"installed{extra}", f"{megabytes:,.0f} MB", f"{MOST_MEGABYTES[extra]} MB"))
    print_table("What installing costs", ("step", "it takes", "at most"), rows)
    print()
    print_table("The largest folders", ("folder", "MB"), [(name, round(size)) for size, name in sizes[:MOST_FOLDERS]])
    return int(total > MOST_SECONDS or seconds[AGAIN] > MOST_WARM_SECONDS or megabytes > MOST_MEGABYTES[extra])


def _steps(folder: Path, extra: str, environment: Mapping[str, str]) -> list[tuple[str, float]]:
    """(step, seconds of the processor), in order."""
    venv.create(folder / "venv", with_pip=True)
    python, words = folder / "venv" / "bin" / "python", ["-m", "pip", "install", "--quiet", "--no-cache-dir"]
    words += ["--disable-pip-version-check"]
    compiling = ["-m", "tilewright", "compile", str(MODEL.absolute()), "--isa", "base16", "-o", str(folder / "net.npu")]
    steps: list[tuple[str, Sequence[str]]] = [
        ("pip install", [*words, f"{Path().absolute()}{extra}"]),
        ("compile, the first time", compiling),
        ("profile", ["-m", "tilewright", "profile", str(folder / "net.npu")]),
        (AGAIN, compiling),
    ]
    return [(name, _seconds([str(python), *step], folder, environment)) for name, step in steps]


def _seconds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """What a command takes of the processor, with the processes that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _megabytes(folder: Path) -> float:
    """What the files of a folder, or a file, take on the disk."""
    return folder.lstat().st_blocks * 512 / 1e6 + sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 1e6


if __name__ == "__main__":
    sys.exit(main())
