"""Pieces of C text: names, arrays, strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilewright.errors import InputError

NAME = "[A-Za-z][A-Za-z0-9_]*"

KEYWORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    and bool catch class delete explicit export false friend main mutable namespace new not operator or private
    protected public template this throw true try typename using virtual xor
    """.split()  # noqa: SIM905
)
"""Of C99 and C++: a bundle can be included from both."""

LINE = 116


def require_name(name: str) -> None:
    """Raise InputError unless C can have files, functions and macros of this name."""
    if not re.fullmatch(NAME, name) or name in KEYWORDS or name.startswith(("tilewright", "test_vector", "platform")):
        raise InputError(
            f"{name!r} cannot be the bundle's name: expected letters, digits and _, no keyword of C or C++, "
            "and not tilewright, test_vector or platform; give one with --name"
        )


def c_names(names: Iterable[str], what: str) -> dict[str, str]:
    """A name that C can have for each name of a network: other characters become _, and no two are the same."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or what
        plain = f"{what}_{plain}" if plain[0].isdigit() or plain in KEYWORDS else plain
        used, number, free = set(found.values()), 2, plain
        while free in used:
            free, number = f"{plain}_{number}", number + 1
        found[name] = free
    return found


def string(text: str) -> str:
    """A string literal; what is not printable ASCII as octal escapes of UTF-8, `?` too, which may begin a trigraph."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def comment(text: str) -> str:
    """What stands in a comment: ASCII on one line, which does not end the comment."""
    return text.replace("*/", "* /").replace("\n", " ").encode("ascii", "replace").decode()


def real(value: float) -> str:
    """A float of 32 bits, with as many digits as C needs to read it back to the last bit."""
    digits = f"{value:.9g}"
    return f"{digits}F" if re.search("[.en]", digits) else f"{digits}.0F"


def integer(value: int) -> str:
    """An integer of 32 bits; the least has no literal of its own in C."""
    return "INT32_MIN" if value == -(1 << 31) else str(value)


def long_integer(value: int, dtype: str) -> str:
    """An integer of 64 bits, of the type int64 or uint64; the least has no literal of its own in C."""
    return "INT64_MIN" if value == -(1 << 63) else f"{dtype.upper()}_C({value})"


def values(items: Sequence[str]) -> str:
    """The inside of an initialiser, on as many lines as it takes; C has no empty one, so nothing is a 0."""
    lines, line = [], ""
    for item in items or ["0"]:
        if len(line) + len(item) + 2 > LINE and line:
            lines.append(line)
            line = ""
        line += f"{item}, "
    return "\n".join(f"    {each.rstrip()}" for each in [*lines, line])


def array(kind: str, name: str, items: Sequence[str], storage: str = "static ") -> str:
    """A constant array."""
    return f"{storage}const {kind} {name}[{max(1, len(items))}] = {{\n{values(items)}\n}};\n"
