"""What searches found, as JSON: kept in the user's cache or in a file of the user's own, and found again by what it
follows from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tilewright import compiler, isa, simulator
from tilewright.compiler.emission.ahead import EIGHTHS, Ahead, Mix
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.stripes.cut import Stripes
from tilewright.compiler.stripes.decide import Measured
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.file_hash import folder_of, hash_of_files
from tilewright.isa.folders.cache import cache_folder, digest
from tilewright.isa.folders.locks import locked
from tilewright.isa.folders.whole_file import read_own, read_regular, write_whole
from tilewright.isa.outside import OutsideError, from_json

FORMAT: Final = 4
"""Changes with the form of an entry."""

MOST_BYTES = 1 << 26
"""The largest file of tunings: an entry of a large network takes some 20,000 bytes."""

Kept = TypeVar("Kept")

Count = Annotated[int, Meta(ge=1, le=1 << 40)]


class _Tile(Struct, frozen=True):
    """A `TileSizes`."""

    sizes: dict[str, Count]
    points_outer: bool


class _Ahead(Struct, frozen=True):
    """An `Ahead`."""

    loads: Annotated[int, Meta(ge=0, le=1 << 40)] | None
    eighths: Annotated[int, Meta(ge=1, le=EIGHTHS)]
    mix: Mix | None


class _Entry(Struct, frozen=True):
    """A `Tuning` as it is kept."""

    budget_fraction: Annotated[float, Meta(gt=0, le=1)]
    residency: Literal["auto", "none"]
    limits: dict[str, Count]
    off_chip: list[str]
    tiles: dict[str, _Tile]
    ahead: _Ahead


class _Chain(Struct, frozen=True):
    """A `Measured` chain; without `rows`, it is better as it is."""

    before: Count | None
    after: Count | None
    rows: Count | None
    channels: Count | None
    is_interleaved: bool = False


class _File(Struct, frozen=True):
    """A file of the user's own."""

    format: Literal[4] = msgspec.field(name="tilewright tuning")
    entries: dict[str, _Entry]
    chains: dict[str, _Chain] = {}


class _Format(Struct, frozen=True):
    """What files of all formats say."""

    format: int = msgspec.field(name="tilewright tuning")


_ENTRY, _CHAIN, _FILE = msgspec.json.Decoder(_Entry), msgspec.json.Decoder(_Chain), msgspec.json.Decoder(_File)


@dataclass(frozen=True)
class Tuning:
    """What a search found for one network on one machine."""

    tiling: TilingOptions
    ahead: Ahead


def recall(key: str, file: Path | None) -> Tuning | None:
    """What a search found under a key: in a file of the user's own, or in the cache; None if there is nothing.

    An entry of the cache that is damaged counts as none. Raises CompileError for a damaged file of the user's own.
    """
    entry = _in_cache(_ENTRY, key) if file is None else _read(file).entries.get(key)
    return None if entry is None else _parse(entry)


def remember(key: str, tuning: Tuning, file: Path | None) -> None:
    """Keep what a search found; nothing is kept in a cache that cannot be written to.

    Raises CompileError for a file of the user's own that cannot be written to, or is damaged.
    """
    entry = _print(tuning)
    _keep(key, entry, file, lambda own: replace(own, entries={**own.entries, key: entry}))


def recall_chain(key: str, file: Path | None) -> Measured | None:
    """What was found of a chain of layers, as `recall`."""
    entry = _in_cache(_CHAIN, key) if file is None else _read(file).chains.get(key)
    if entry is None:
        return None
    stripes = None if entry.rows is None else Stripes(entry.rows, entry.channels, entry.is_interleaved)
    return Measured(entry.before, entry.after, stripes)


def remember_chain(key: str, found: Measured, file: Path | None) -> None:
    """Keep what was found of a chain of layers, as `remember`."""
    stripes = found.stripes
    cut = (None, None) if stripes is None else (stripes.rows, stripes.channels, stripes.is_interleaved)
    entry = _Chain(found.before, found.after, *cut)
    _keep(key, entry, file, lambda own: replace(own, chains={**own.chains, key: entry}))


def tuning_key(selection: Selection, options: Options) -> str:
    """A hash of all that a search's result follows from: the machine, the layers, the options and the search itself."""
    machine, nests = selection.machine, selection.program
    digest = hashlib.sha256(f"{FORMAT} {code_hash()} {machine.hash} {options.effort} {options.passes}".encode())
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
def code_hash() -> str:
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


def _in_cache(decoder: msgspec.json.Decoder[Kept], key: str) -> Kept | None:
    """What is kept in the cache; a damaged entry counts as none."""
    try:
        return from_json(decoder, read_own(_kept_at(key), MOST_BYTES))
    except (OSError, OutsideError):
        return None


def _keep(key: str, entry: _Entry | _Chain, file: Path | None, added: Callable[[_File], _File]) -> None:
    """Keep an entry in the cache, or what `added` makes of the user's file there."""
    if file is None:
        with suppress(OSError):
            path = _kept_at(key)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, _text(entry))
        return
    try:
        with locked(_lock_of(file)):  # nobody else's entry is lost between reading and writing
            write_whole(file, _text(added(_read(file))))
    except OSError as error:
        raise CompileError(str(file), f"cannot be written ({error.strerror})") from error


def _read(file: Path) -> _File:
    """A file of the user's own; an empty one if there is none. Raises CompileError for another kind of file."""
    try:
        return from_json(_FILE, read_regular(file, MOST_BYTES))
    except FileNotFoundError:
        return _File(format=FORMAT, entries={})
    except OSError as error:
        raise CompileError(str(file), f"cannot be read ({error.strerror})") from error
    except OutsideError as error:
        other = _other_format(file)
        fact = f"is not a tuning file: {error}" if other is None else f"has format {other}; this version keeps {FORMAT}"
        raise CompileError(str(file), fact, remedy="give the name of a new file, or delete this one") from error


def _other_format(file: Path) -> int | None:
    """The format of a file that another version wrote; None if it is none, or if its format is not the reason."""
    try:
        found = from_json(msgspec.json.Decoder(_Format), read_regular(file, MOST_BYTES)).format
    except (OSError, OutsideError):
        return None
    return None if found == FORMAT else found


def _text(content: _Entry | _Chain | _File) -> bytes:
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
        ahead=_Ahead(ahead.loads, ahead.eighths, ahead.mix),
    )


def _parse(entry: _Entry) -> Tuning:
    cuts = {nest: TileSizes(tile.sizes, tile.points_outer) for nest, tile in entry.tiles.items()}
    tiling = TilingOptions(entry.budget_fraction, entry.residency, entry.limits, frozenset(entry.off_chip), cuts)
    return Tuning(tiling, Ahead(entry.ahead.loads, entry.ahead.eighths, entry.ahead.mix))
