"""What searches found, kept in the user's cache or in a file of the user's own, and found again by what it follows
from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tilewright import compiler, isa, simulator
from tilewright.compiler.errors import FatalError
from tilewright.compiler.search.records import (
    FORMAT,
    ChainRecord,
    Record,
    SearchSubject,
    Tuning,
    WrongRecord,
    measured_of,
    parsed,
    printed,
    printed_chain,
    text_of,
)
from tilewright.compiler.stripes.stripes import MeasuredStripes
from tilewright.isa.errors import short
from tilewright.isa.file_hash import folder_of, hash_of_code
from tilewright.isa.folders.cache import cache_folder, digest
from tilewright.isa.folders.locks import locked
from tilewright.isa.folders.whole_file import read_own, read_regular, write_whole
from tilewright.isa.machine.machine import Machine
from tilewright.isa.outside import OutsideError, from_json

MOST_BYTES = 1 << 26
"""The largest file of tunings: a record of a large network takes some 20,000 bytes."""

Kept = TypeVar("Kept", Record, ChainRecord)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the user's own."""

    format: Literal[6] = msgspec.field(name="tilewright tuning")
    networks: list[Record] = []
    chains: list[ChainRecord] = []


class _Format(Struct, frozen=True):
    """What files of all formats say."""

    format: int = msgspec.field(name="tilewright tuning")


_RECORD, _CHAIN, _FILE = (
    msgspec.json.Decoder(Record),
    msgspec.json.Decoder(ChainRecord),
    msgspec.json.Decoder(_File),
)


def recall(subject: SearchSubject, file: Path | None) -> Tuning | None:
    """What a search found of a subject: in a file of the user's own, or in the cache; None if there is nothing.

    A record of the cache that is damaged counts as none. Raises FatalError for a damaged file of the user's own.
    """
    if file is None:
        kept = _in_cache(_RECORD, subject.key)
        with suppress(WrongRecord):
            return None if kept is None else parsed(kept, subject)
        return None
    found = _found(_read(file).networks, subject.key)
    if found is None:
        return None
    number, record = found
    try:
        return parsed(record, subject)
    except WrongRecord as error:
        raise _wrong(
            file, f"networks[{number}] ({short(record.network)} on {short(record.machine)}): {error}"
        ) from error


def remember(subject: SearchSubject, tuning: Tuning, file: Path | None) -> None:
    """Keep what a search found, in the place of what was known; nothing is kept in a cache that cannot be written to.

    Raises FatalError for a file of the user's own that cannot be written to, or is damaged.
    """
    record = printed(tuning, subject)
    _keep(record, file, lambda own: replace(own, networks=_with(own.networks, record)))


def recall_chain(key: str, machine: Machine, file: Path | None, rows: int) -> MeasuredStripes | None:
    """What was found of a chain of layers, as `recall`; its result has so many `rows`."""
    if file is None:
        kept = _in_cache(_CHAIN, key)
        with suppress(WrongRecord):
            return None if kept is None else measured_of(kept, machine, rows)
        return None
    found = _found(_read(file).chains, key)
    if found is None:
        return None
    number, record = found
    try:
        return measured_of(record, machine, rows)
    except WrongRecord as error:
        raise _wrong(file, f"chains[{number}] ({', '.join(map(short, record.layers))}): {error}") from error


def remember_chain(
    key: str, found: MeasuredStripes, machine: Machine, layers: Sequence[str], file: Path | None
) -> None:
    """Keep what was found of a chain of layers, as `remember`."""
    record = printed_chain(key, found, machine, layers)
    _keep(record, file, lambda own: replace(own, chains=_with(own.chains, record)))


def place_of(file: Path | None) -> str:
    """How messages name where tunings are kept."""
    return "the user's cache" if file is None else str(file)


@cache
def code_hash() -> str:
    """A hash of the code of the packages that decide what a search finds."""
    return hash_of_code(folder_of(package) for package in (compiler, isa, simulator))


# -- files -------------------------------------------------------------------------------------------------------------


def _found(records: Sequence[Kept], key: str) -> tuple[int, Kept] | None:
    """The first record of a key, and where it is."""
    return next(((number, record) for number, record in enumerate(records) if record.key == key), None)


def _with(records: Sequence[Kept], new: Kept) -> list[Kept]:
    """The records with a new one in the place of the one of its key."""
    known = _found(records, new.key)
    kept = list(records)
    if known is None:
        kept.append(new)
    else:
        kept[known[0]] = new
    return kept


def _kept_at(key: str) -> Path:
    """The file of a key in the user's cache: what other code found is not what this would find.

    Raises IsaError for a chosen cache that others can write to.
    """
    name = hashlib.sha256(f"{FORMAT} {code_hash()} {key}".encode()).hexdigest()
    return cache_folder() / "tuning" / f"{name}.json"


def _lock_of(file: Path) -> Path:
    """The lock of a file of the user's own. It is in the cache: nothing is left beside the file."""
    folder = cache_folder() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / digest(str(file.resolve()))


def _in_cache(decoder: msgspec.json.Decoder[Kept], key: str) -> Kept | None:
    """What is kept in the cache; a damaged record counts as none."""
    try:
        return from_json(decoder, read_own(_kept_at(key), MOST_BYTES))
    except (OSError, OutsideError):
        return None


def _keep(record: Record | ChainRecord, file: Path | None, added: Callable[[_File], _File]) -> None:
    """Keep a record in the cache, or what `added` makes of the user's file there."""
    if file is None:
        with suppress(OSError):
            path = _kept_at(record.key)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, text_of(record))
        return
    try:
        with locked(_lock_of(file)):  # nobody else's record is lost between reading and writing
            write_whole(file, text_of(added(_read(file))))
    except OSError as error:
        raise FatalError(str(file), f"cannot be written ({error.strerror})") from error


def _read(file: Path) -> _File:
    """A file of the user's own; an empty one if there is none. Raises FatalError for another kind of file."""
    try:
        return from_json(_FILE, read_regular(file, MOST_BYTES))
    except FileNotFoundError:
        return _File(format=FORMAT)
    except OSError as error:
        raise FatalError(str(file), f"cannot be read ({error.strerror})") from error
    except OutsideError as error:
        raise _refused(file, error) from error


def _refused(file: Path, error: OutsideError) -> FatalError:
    """Why a file is not taken: it is none of ours, another version wrote it, or somebody wrote something wrong."""
    remedy = "give the name of a new file, or delete this one"
    try:
        found = from_json(msgspec.json.Decoder(_Format), read_regular(file, MOST_BYTES)).format
    except (OSError, OutsideError):
        return FatalError(str(file), f"is not a tuning file: {error}", remedy=remedy)
    if found != FORMAT:
        return FatalError(str(file), f"has format {found}; this version keeps {FORMAT}", remedy=remedy)
    return _wrong(file, f"is wrong: {error}")


def _wrong(file: Path, fact: str) -> FatalError:
    return FatalError(str(file), fact, remedy="put that right, or delete the record")
