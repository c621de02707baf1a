"""The exceptions of the ISA layer; each message says what was expected, what came, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MOST_COMPARED = 200
"""Names that a wrong one is compared with; no machine or network has so many to choose from, but a crafted file may."""


class IsaError(Exception):
    """A machine file, an assembly text or a binary is not what it should be."""


def short(value: object) -> str:
    """A value as messages quote it: its repr, cut when it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text)} characters)"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)` when a known name is close, otherwise nothing; and nothing where there are very many."""
    if len(known) > MOST_COMPARED:
        return ""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def listed(words: Sequence[str], conjunction: str) -> str:
    """`a, b or c`, of two words or more."""
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
