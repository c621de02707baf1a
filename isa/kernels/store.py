"""Machine code of kernels on disk: a file for each kernel and form of arguments, read only when it is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.isa.folders.whole_file import write_whole

SUFFIX = ".kernel"

FORMAT = 2
"""Changes with the form of the files and with how kernels are called."""

DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class StoredKernel:
    """Machine code as an object file, with the name of its function; `result`: its result, in letters of `struct`."""

    symbol: str
    result: str
    code: bytes


def key(name: str, parts: Sequence[str]) -> str:
    """The name of the file of code that depends on these parts; `name` tells people what it is."""
    digest = hashlib.sha256(json.dumps([FORMAT, *parts]).encode())
    return f"{name}-{digest.hexdigest()[:24]}"


def find(source: Path, key: str) -> StoredKernel | None:
    """What was kept for a kernel of a file, or None. A file that is not whole counts as none."""
    for folder in folders(source):
        try:
            content = (folder / f"{key}{SUFFIX}").read_bytes()
        except OSError:
            continue
        digest, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(body).digest() == digest:
            head, _, code = body.partition(b"\n")
            symbol, result = json.loads(head)
            return StoredKernel(symbol, result, code)
    return None


def keep(source: Path, key: str, kept: StoredKernel) -> None:
    """Write what `find` reads, in one step, to the first folder that can be written to. Raises OSError if none can."""
    body = json.dumps([kept.symbol, kept.result]).encode() + b"\n" + kept.code
    fault: OSError | None = None
    for folder in folders(source):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{key}{SUFFIX}", hashlib.sha256(body).digest() + body)
            return
        except OSError as error:
            fault = fault or error
    assert fault is not None
    raise fault


def folders(source: Path) -> Iterator[Path]:
    """Where code of a file is kept: beside the file, as Python keeps its own; else in the user's cache."""
    yield source.parent / "__pycache__"
    from tilewright.isa.folders.cache import cache_folder  # seldom needed, and loads libraries

    yield cache_folder() / "kernels"
