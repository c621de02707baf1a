"""What searches found, as JSON: kept in the user's cache or in a file of the user's own, and found again by what it
follows from."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright import compiler, isa, simulator
from tilewright.compiler.emission.ahead import Ahead
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.file_hash import folder_of, hash_of_files

FORMAT = 3
"""Changes with the form of an entry."""


@dataclass(frozen=True)
class Tuning:
    """What a search found for one network on one machine."""

    tiling: TilingOptions
    ahead: Ahead


def recall(key: str, file: Path | None) -> Tuning | None:
    """What a search found under a key: in a file of the user's own, or in the cache; None if there is nothing.

    An entry of the cache that is damaged counts as none. Raises CompileError for a damaged file of the user's own.
    """
    if file is None:
        try:
            return _parse(json.loads(_kept_at(key).read_text()))
        except (OSError, ValueError, RuntimeError):
            return None
    try:
        entries = _entries(file)
        return _parse(entries[key]) if key in entries else None
    except ValueError as error:
        raise _damaged(file, error) from error


def remember(key: str, tuning: Tuning, file: Path | None) -> None:
    """Keep what a search found; nothing is kept in a cache that cannot be written to.

    Raises CompileError for a file of the user's own that cannot be written to, or is damaged.
    """
    if file is None:
        with suppress(OSError, RuntimeError):
            _write(_kept_at(key), _print(tuning))
        return
    try:
        entries = _entries(file)
    except ValueError as error:
        raise _damaged(file, error) from error
    try:
        _write(file, {"tilewright tuning": FORMAT, "entries": {**entries, key: _print(tuning)}})
    except OSError as error:
        raise CompileError(str(file), f"cannot be written ({error.strerror})") from error


def tuning_key(selection: Selection, options: Options) -> str:
    """A hash of all that a search's result follows from: the machine, the layers, the options and the search itself."""
    machine, nests = selection.machine, selection.program
    digest = hashlib.sha256(f"{FORMAT} {_code()} {machine.hash} {options.effort}".encode())
    digest.update(repr(_print(Tuning(options.tiling, options.ahead))).encode())
    digest.update(repr((machine.memories, machine.engines, list(machine.formats))).encode())
    digest.update(repr((nests.buffers, nests.inputs, nests.outputs)).encode())
    for cover in selection.covers:
        nest = cover.nest
        steps = [(step.format.mnemonic, sorted(step.inputs.items()), step.words) for step in cover.steps]
        digest.update(repr((nest.name, nest.loops, nest.reads, nest.result, steps)).encode())
    for name, values in nests.constants.items():
        digest.update(f"{name} {values.shape} {values.dtype}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


@cache
def _code() -> str:
    """A hash of the code of the packages that decide what a search finds."""
    return hash_of_files(folder_of(package) for package in (compiler, isa, simulator))


# -- files -------------------------------------------------------------------------------------------------------------


def _kept_at(key: str) -> Path:
    """The file of a key in the user's cache; raises RuntimeError for a user without a home."""
    chosen = os.environ.get("TILEWRIGHT_CACHE")
    folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"
    return folder.absolute() / "tuning" / f"{key}.json"


def _entries(file: Path) -> dict[str, Any]:
    """The entries of a file of the user's own; none if there is no file. Raises ValueError for another one."""
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CompileError(str(file), f"cannot be read ({error.strerror})") from error
    match content:
        case {"tilewright tuning": int(number), "entries": dict(entries)} if number == FORMAT:
            return entries
    raise ValueError(f'expected an object with "tilewright tuning": {FORMAT} and "entries"')


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in one step: nobody ever reads half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.", delete=False) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
    os.replace(file.name, path)


def _damaged(file: Path, error: ValueError) -> CompileError:
    return CompileError(
        str(file), f"is not a tuning file: {error}", remedy="give the name of a new file, or delete this one"
    )


# -- entries -----------------------------------------------------------------------------------------------------------


def _print(tuning: Tuning) -> dict[str, Any]:
    tiling = tuning.tiling
    return {
        "budget_fraction": tiling.budget_fraction,
        "residency": tiling.residency,
        "limits": dict(tiling.limits),
        "off_chip": sorted(tiling.off_chip),
        "tiles": {
            nest: {"sizes": dict(tile.sizes), "points_outer": tile.points_outer} for nest, tile in tiling.tiles.items()
        },
        "ahead": asdict(tuning.ahead),
    }


def _parse(entry: Any) -> Tuning:
    """An entry's tuning; raises ValueError if it is not one."""
    match entry:
        case {
            "budget_fraction": float(budget),
            "residency": "auto" | "none" as residency,
            "limits": dict(limits),
            "off_chip": list(off_chip),
            "tiles": dict(tiles),
            "ahead": {"loads": int() | None as loads, "eighths": int(eighths), "by_rows": bool(by_rows)},
        }:
            words = {name: _natural(number) for name, number in limits.items()}
            cuts = {nest: _parse_tile(tile) for nest, tile in tiles.items()}
            tiling = TilingOptions(budget, residency, words, frozenset(map(str, off_chip)), cuts)
            return Tuning(tiling, Ahead(loads, _natural(eighths), by_rows))
    raise ValueError("an entry lacks a key, or has a value of another type")


def _parse_tile(tile: Any) -> TileSizes:
    match tile:
        case {"sizes": dict(sizes), "points_outer": bool(points_outer)}:
            return TileSizes({loop: _natural(size) for loop, size in sizes.items()}, points_outer)
    raise ValueError("tiles have sizes and points_outer")


def _natural(number: Any) -> int:
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"expected a number from 1 on, got {number!r}")
    return number
