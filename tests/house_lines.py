"""Lines of the product by room, now and at an earlier revision: where it grew.

python -m tests.house_lines 69535ebc    # a table in Markdown; any revision that git knows
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterator

from tests.house import PRODUCT, REPOSITORY


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house_lines", description=__doc__)
    parser.add_argument("before", metavar="REVISION", help="what git compares the tree of HEAD with")
    for line in rows(parser.parse_args().before):
        print(line)


def rows(before: str) -> Iterator[str]:
    """A row for each top folder: files and lines at the revision, and at HEAD."""
    (files, lines), (files_now, lines_now) = counts(before), counts("HEAD")
    for room in (*PRODUCT, "total"):
        yield f"| {room} | {files[room]} | {lines[room]:,} | {files_now[room]} | {lines_now[room]:,} |"


def counts(revision: str) -> tuple[Counter[str], Counter[str]]:
    """Python files and their lines by top folder, and in total."""
    places = [place for place in _git("ls-tree", "-r", "--name-only", revision).splitlines() if place.endswith(".py")]
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for place in places:
        room = place.split("/")[0]
        if room in PRODUCT:
            count = len(_git("show", f"{revision}:{place}").splitlines())
            for name in (room, "total"):
                files[name] += 1
                lines[name] += count
    return files, lines


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
