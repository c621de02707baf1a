"""Writes waves as FST, which is a tenth of the size, from the VCD that Verilator writes.

The format is that of GTKWave's fstapi.c, as https://blog.timhutt.co.uk/fst_spec/ describes it. A file is a row of
blocks: one byte for the kind, eight for the length without that byte, and the content. Numbers of eight bytes are big
endian; a `varint` has seven bits in a byte, the lowest first.
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.rtl.simulation.tools import RtlError

HEADER, GEOMETRY, HIERARCHY, CHANGES = 0, 3, 4, 8
"""Kinds of blocks: of hierarchies, that in gzip; of changes, that in which equal ones are written once."""

SCOPES = (
    *("module", "task", "function", "begin", "fork", "generate", "struct", "union", "class", "interface", "package"),
    "program",
)
VARIABLES = (
    *("event", "integer", "parameter", "real", "real_parameter", "reg", "supply0", "supply1", "time", "tri", "triand"),
    *("trior", "trireg", "tri0", "tri1", "wand", "wire", "wor"),
)
"""What VCD calls the kinds of scopes and variables, in the order of their numbers in FST."""

EXPONENTS = {"s": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12, "fs": -15}

_SCOPE, _END_OF_SCOPE = 254, 255


@dataclass(frozen=True, slots=True)
class _Declared:
    """What stands before the values of a VCD file."""

    exponent: int  # of ten: the unit of time, in seconds
    hierarchy: bytes  # as FST writes it
    scopes: int
    variables: int
    widths: dict[bytes, int]  # in bits, of each signal by its identifier, in the order of FST


@dataclass(slots=True)
class _Changes:
    """The values of all signals over time."""

    times: list[int]
    first: dict[bytes, str]  # the bits of each signal at the first time
    all: dict[bytes, bytearray]  # of each signal, those of the first time included, as FST writes them


def fst_of(vcd: bytes) -> bytes:
    """The same waves as FST. Raises RtlError for what Verilator does not write of our machines: values but 0 and 1."""
    head, found, body = vcd.partition(b"$enddefinitions $end\n")
    if not found:
        raise RtlError("expected waves as VCD, came a file without '$enddefinitions'; run again, and report it")
    declared = _read_declarations(head.decode())
    changes = _read_changes(body, declared.widths)
    blocks = [
        (HEADER, _header(declared, changes.times)),
        (CHANGES, _changes(declared, changes)),
        (GEOMETRY, _geometry(declared)),
        (HIERARCHY, struct.pack(">Q", len(declared.hierarchy)) + gzip.compress(declared.hierarchy, mtime=0)),
    ]
    return b"".join(struct.pack(">BQ", kind, len(content) + 8) + content for kind, content in blocks)


# -- reading VCD -------------------------------------------------------------------------------------------------------


def _read_declarations(head: str) -> _Declared:
    hierarchy = bytearray()
    widths: dict[bytes, int] = {}
    handles: dict[bytes, int] = {}
    exponent, scopes, variables = 0, 0, 0
    for keyword, text in re.findall(r"\$(\w+)\s+(?:(.*?)\s+)??\$end(?=\s|$)", head, re.DOTALL):
        words = text.split()
        if keyword == "timescale":
            exponent = _exponent(text)
        elif keyword == "scope":
            scopes += 1
            hierarchy += bytes([_SCOPE, SCOPES.index(words[0])]) + words[1].encode() + b"\0\0"
        elif keyword == "upscope":
            hierarchy.append(_END_OF_SCOPE)
        elif keyword == "var":
            kind, width, name = words[0], int(words[1]), " ".join(words[3:])
            if kind.startswith("real"):
                raise _unexpected(f"{kind} {name}".encode())
            identifier = words[2].encode()
            variables += 1
            hierarchy += bytes([VARIABLES.index(kind), 0]) + name.encode() + b"\0"
            hierarchy += _varint(width) + _varint(handles.get(identifier, 0))
            handles.setdefault(identifier, len(handles) + 1)
            widths.setdefault(identifier, width)
    return _Declared(exponent, bytes(hierarchy), scopes, variables, widths)


def _exponent(timescale: str) -> int:
    """Of `1ps`: -12; of `100 ns`: -7."""
    number, unit = re.fullmatch(r"(10*)\s*(\w+)", timescale).groups()  # type: ignore[union-attr]
    return EXPONENTS[unit] + len(number) - 1


def _read_changes(body: bytes, widths: dict[bytes, int]) -> _Changes:
    """The values, each change as the number of times since the signal's last, with the new value in the same varint.

    Of one bit, that number is shifted by two, with the value above a zero. Of more, it is shifted by one, and their
    bytes follow, the highest bit first, the last byte filled with zeros.
    """
    times: list[int] = []
    first: dict[bytes, str] = {}
    changes = {identifier: bytearray() for identifier in widths}
    last = dict.fromkeys(widths, 0)
    room = {identifier: (-width % 8, (width + 7) // 8) for identifier, width in widths.items()}
    now = -1
    for line in body.splitlines():
        mark = line[:1]
        if mark == b"b":
            bits, identifier = line[1:].split()
        elif mark in (b"0", b"1"):
            bits, identifier = mark, line[1:]
        elif mark == b"#":
            times.append(int(line[1:]))
            now += 1
            continue
        elif not line or mark == b"$":
            continue
        else:
            raise _unexpected(line)
        if now == 0:
            first[identifier] = bits.decode()
        since = now - last[identifier]
        last[identifier] = now
        if widths[identifier] == 1:
            changes[identifier] += _varint(since << 2 | (bits == b"1") << 1)
        else:
            fill, size = room[identifier]
            try:
                value = int(bits, 2)
            except ValueError:
                raise _unexpected(line) from None
            changes[identifier] += _varint(since << 1) + (value << fill).to_bytes(size, "big")
    return _Changes(times, first, changes)


def _unexpected(what: bytes) -> RtlError:
    return RtlError(f"waves: expected values of 0 and 1, came {what.decode()!r}; write them as .vcd, and report it")


# -- writing FST -------------------------------------------------------------------------------------------------------


def _header(declared: _Declared, times: Sequence[int]) -> bytes:
    start, end = (times[0], times[-1]) if times else (0, 0)
    endianness = struct.pack("<d", 2.718281828459045)
    counts = (0, declared.scopes, declared.variables, len(declared.widths), 1)  # the first is memory, which nobody uses
    return (
        struct.pack(">QQ8s5Qb", start, end, endianness, *counts, declared.exponent)
        + struct.pack(">128s26x93x", b"tilewright")  # no date: the same run gives the same file
        + struct.pack(">BQ", 0, 0)  # Verilog; time begins at zero
    )


def _geometry(declared: _Declared) -> bytes:
    widths = b"".join(map(_varint, declared.widths.values()))
    return struct.pack(">QQ", len(widths), len(declared.widths)) + _smaller(widths)


def _changes(declared: _Declared, changes: _Changes) -> bytes:
    """The first value of every signal, then all of them, where they are, and the times.

    Readers take the first from either place: GTKWave's, where its time is asked for, from among all.
    """
    count = _varint(len(declared.widths))
    frame = "".join(
        changes.first[each].rjust(width, "0") if each in changes.first else "x" * width
        for each, width in declared.widths.items()
    ).encode()
    packed_frame = _smaller(frame)
    chains, places = _chains(changes.all.values())
    gaps = b"".join(_varint(late - early) for early, late in pairwise([0, *changes.times]))
    packed_gaps = _smaller(gaps)
    used = sum(map(len, changes.all.values()))
    start, end = (changes.times[0], changes.times[-1]) if changes.times else (0, 0)
    return b"".join(
        [
            struct.pack(">QQQ", start, end, used),
            *(_varint(len(frame)), _varint(len(packed_frame)), count, packed_frame),
            *(count, b"Z", chains),  # packed with zlib
            *(places, struct.pack(">Q", len(places))),
            *(packed_gaps, struct.pack(">QQQ", len(gaps), len(packed_gaps), len(changes.times))),
        ]
    )


def _chains(signals: Iterable[bytearray]) -> tuple[bytes, bytes]:
    """What signals change to, one after the other, and for each the bytes from the one written before it to it.

    Of signals without a change in a row, their number stands there; of one that changes as another does, the other,
    negative.
    """
    written: dict[bytes, int] = {}
    chains, places = bytearray(), bytearray()
    still, size_before = 0, 1  # before the first is the letter that says how all are packed
    for number, signal in enumerate(map(bytes, signals), start=1):
        if not signal:
            still += 1
            continue
        if still:
            places += _varint(still << 1)
            still = 0
        if signal in written:
            places += _signed_varint(-written[signal] << 1 | 1)
            continue
        written[signal] = number
        packed = _smaller(signal)
        chain = _varint(0 if len(packed) == len(signal) else len(signal)) + packed
        chains += chain
        places += _signed_varint(size_before << 1 | 1)
        size_before = len(chain)
    return bytes(chains), bytes(places + (_varint(still << 1) if still else b""))


def _smaller(content: bytes) -> bytes:
    """The content packed, or as it is where that is no longer: the length tells."""
    packed = zlib.compress(content)
    return packed if len(packed) < len(content) else content


def _varint(number: int) -> bytes:
    """A number from zero on, seven bits a byte, the lowest first; all bytes but the last have the eighth bit."""
    if number < 128:
        return _BYTES[number]
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


_BYTES = [bytes([number]) for number in range(128)]


def _signed_varint(number: int) -> bytes:
    """The same for any number: the seventh bit of the last byte is its sign."""
    found = bytearray()
    while not -64 <= number < 64:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number & 127)
    return bytes(found)
