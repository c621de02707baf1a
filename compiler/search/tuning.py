"""What searches found, as JSON: kept in the user's cache or in a file of the user's own, and found again by what it
follows from."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from tilewright import compiler, isa, simulator
from tilewright.compiler.emission.ahead import EIGHTHS, Ahead
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.file_hash import folder_of, hash_of_files
from tilewright.isa.folders.cache import cache_folder, digest
from tilewright.isa.folders.locks import locked
from tilewright.isa.folders.whole_file import read_own, read_regular, write_whole
from tilewright.isa.outside import OutsideError, from_json

FORMAT: Final = 3
"""Changes with the form of an entry."""

MOST_BYTES = 1 << 26
"""The largest file of tunings: an entry of a large network takes some 20,000 bytes."""

Count = Annotated[int, Meta(ge=1, le=1 << 40)]


class _Tile(Struct, frozen=True):
    """A `TileSizes`."""

    sizes: dict[str, Count]
    points_outer: bool


class _Ahead(Struct, frozen=True):
    """An `Ahead`."""

    loads: Annotated[int, Meta(ge=0, le=1 << 40)] | None
    eighths: Annotated[int, Meta(ge=1, le=EIGHTHS)]
    by_rows: bool


class _Entry(Struct, frozen=True):
    """A `Tuning` as it is kept."""

    budget_fraction: Annotated[float, Meta(gt=0, le=1)]
    residency: Literal["auto", "none"]
    limits: dict[str, Count]
    off_chip: list[str]
    tiles: dict[str, _Tile]
    ahead: _Ahead


class _File(Struct, frozen=True):
    """A file of the user's own."""

    format: Literal[3] = msgspec.field(name="tilewright tuning")
    entries: dict[str, _Entry]


_ENTRY, _FILE = msgspec.json.Decoder(_Entry), msgspec.json.Decoder(_File)


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
            return _parse(from_json(_ENTRY, read_own(_kept_at(key), MOST_BYTES)))
        except (OSError, OutsideError):
            return None
    entry = _entries(file).get(key)
    return None if entry is None else _parse(entry)


def remember(key: str, tuning: Tuning, file: Path | None) -> None:
    """Keep what a search found; nothing is kept in a cache that cannot be written to.

    Raises CompileError for a file of the user's own that cannot be written to, or is damaged.
    """
    if file is None:
        with suppress(OSError):
            path = _kept_at(key)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, _text(_print(tuning)))
        return
    try:
        with locked(_lock_of(file)):  # nobody else's entry is lost between reading and writing
            write_whole(file, _text(_File(format=FORMAT, entries={**_entries(file), key: _print(tuning)})))
    except OSError as error:
        raise CompileError(str(file), f"cannot be written ({error.strerror})") from error


def tuning_key(selection: Selection, options: Options) -> str:
    """A hash of all that a search's result follows from: the machine, the layers, the options and the search itself."""
    machine, nests = selection.machine, selection.program
    digest = hashlib.sha256(f"{FORMAT} {_code()} {machine.hash} {options.effort} {options.passes}".encode())
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
    """The file of a key in the user's cache. Raises IsaError for a chosen cache that others can write to."""
    return cache_folder() / "tuning" / f"{key}.json"


def _lock_of(file: Path) -> Path:
    """The lock of a file of the user's own. It is in the cache: nothing is left beside the file."""
    folder = cache_folder() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / digest(str(file.resolve()))


def _entries(file: Path) -> dict[str, _Entry]:
    """The entries of a file of the user's own; none if there is no file. Raises CompileError for another one."""
    try:
        return from_json(_FILE, read_regular(file, MOST_BYTES)).entries
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CompileError(str(file), f"cannot be read ({error.strerror})") from error
    except OutsideError as error:
        raise CompileError(
            str(file), f"is not a tuning file: {error}", remedy="give the name of a new file, or delete this one"
        ) from error


def _text(content: _Entry | _File) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content, order="deterministic"), indent=1) + b"\n"


# -- entries -----------------------------------------------------------------------------------------------------------


def _print(tuning: Tuning) -> _Entry:
    tiling, ahead = tuning.tiling, tuning.ahead
    return _Entry(
        budget_fraction=tiling.budget_fraction,
        residency="none" if tiling.residency == "none" else "auto",
        limits=dict(tiling.limits),
        off_chip=sorted(tiling.off_chip),
        tiles={nest: _Tile(dict(tile.sizes), tile.points_outer) for nest, tile in tiling.tiles.items()},
        ahead=_Ahead(ahead.loads, ahead.eighths, ahead.by_rows),
    )


def _parse(entry: _Entry) -> Tuning:
    cuts = {nest: TileSizes(tile.sizes, tile.points_outer) for nest, tile in entry.tiles.items()}
    tiling = TilingOptions(entry.budget_fraction, entry.residency, entry.limits, frozenset(entry.off_chip), cuts)
    return Tuning(tiling, Ahead(entry.ahead.loads, entry.ahead.eighths, entry.ahead.by_rows))
