"""Liberty files with tokens changed and bytes damaged, packed or not; what is accepted gives tables that load."""

from __future__ import annotations

import csv
import gzip
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies
from hypothesis.strategies import DrawFn

from tests.codesign.price.test_liberty_import import LIBRARY
from tests.fuzz.harness import Outcome, Target, WrongAnswer
from tilewright.codesign.errors import PriceError
from tilewright.codesign.price.liberty_import import ARC_COLUMNS, PIN_COLUMNS, read_library, write_tables

TOKEN = re.compile(r'"[^"]*"|\w+|\s+|\S')

NEW = (
    *("", "{", "}", "(", ")", ":", ";", '"', "/*", "*/", "//", "\\\n", "()", "cell () {", "pin () {", "values ();"),
    *('"nan"', '"inf"', '"1e400"', '"1,"', '"a, b"', '""', "1" * 5000, "ü", "\0", "%", "values", "index_1", "pin"),
    *("timing", "internal_power", "rise_power", "cell_rise", "{" * 100, "a (b) {" * 60, "a" * 100_000, "/*" * 50_000),
)


@dataclass(frozen=True)
class ChangedLibrary:
    """A Liberty file; changes are (token, new text); bytes: (place, new ones), in the packed file if it is packed."""

    changes: tuple[tuple[int, str], ...]
    bytes: tuple[tuple[int, bytes], ...] = ()
    is_packed: bool = False
    padding: int = 0

    @property
    def content(self) -> bytes:
        tokens = list(_tokens())
        for place, new in self.changes:
            tokens[place % len(tokens)] = new
        content = "".join(tokens).encode() + b" " * self.padding
        if self.is_packed:
            content = gzip.compress(content, 1, mtime=0)
        for place, new_bytes in self.bytes:
            place %= len(content)
            content = content[:place] + new_bytes + content[place + 1 :]
        return content


@cache
def _tokens() -> tuple[str, ...]:
    return tuple(TOKEN.findall(LIBRARY))


@strategies.composite
def changed_libraries(draw: DrawFn) -> ChangedLibrary:
    change = strategies.tuples(
        strategies.integers(0, len(_tokens()) - 1),
        strategies.one_of(strategies.sampled_from(NEW), strategies.sampled_from(sorted(set(_tokens())))),
    )
    place = strategies.tuples(strategies.integers(0, 1 << 12), strategies.binary(max_size=3))
    return ChangedLibrary(
        tuple(draw(strategies.lists(change, max_size=4))),
        tuple(draw(strategies.one_of(strategies.just([]), strategies.lists(place, max_size=2)))),
        draw(strategies.booleans()),
        draw(strategies.sampled_from([0] * 49 + [100 << 20])),
    )


def attempt(changed: ChangedLibrary) -> Outcome:
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / ("x.lib.gz" if changed.is_packed else "x.lib")
        path.write_bytes(changed.content)
        try:
            library = read_library(path)
            write_tables(library, folder, frozenset({"inv", "unwanted"}))
        except PriceError:
            if list(folder.iterdir()) != [path]:
                raise WrongAnswer("it left half of the tables", "Liberty files: tables") from None
            return Outcome.REFUSED
        except OSError as error:
            if error.strerror is None or "has more than" not in error.strerror:
                raise
            return Outcome.REFUSED
        for file, columns in (("arcs.csv", ARC_COLUMNS), ("pins.csv", PIN_COLUMNS)):
            with open(folder / file, newline="") as table:
                for row in csv.DictReader(table):
                    if tuple(row) != columns or None in row.values():
                        raise WrongAnswer(f"a row of {file} has other columns", "Liberty files: rows")
                    numbers = [
                        number for key in columns if key.endswith(("_ns", "_pf", "_pj")) for number in row[key].split()
                    ]
                    if not all(math.isfinite(float(number)) for number in numbers):
                        raise WrongAnswer(f"a number of {file} is not finite", "Liberty files: numbers")
    return Outcome.RIGHT


TARGET = Target("Liberty files", changed_libraries(), attempt)
